/* tril and triu on the CPU: of each row one part is copied and one is zero. */
#include "core/base/clamp.h"
#include "core/box/box.h"
#include "core/device/device.h"
#include "ops/shape/tril_kernel.h"

#include <string.h>

/* Columns begin … end - 1 of row `row`, in every matrix: copied, or zero. */
static void set_part(enum stni_isa isa, const struct stni_triangle_args *a, int64_t row, int64_t begin, int64_t end,
                     int copied)
{
    static const double zero[2];
    stn_box dst = a->dst, src = a->src;
    int r = dst.ndim - 2, c = dst.ndim - 1;
    int64_t size = (int64_t)a->element_size;
    if (begin >= end)
        return;
    dst.data = (char *)dst.data + (row * dst.strides[r] + begin * dst.strides[c]) * size;
    src.data = (char *)src.data + (row * src.strides[r] + begin * src.strides[c]) * size;
    dst.shape[r] = src.shape[r] = 1;
    dst.shape[c] = src.shape[c] = end - begin;
    if (!copied) {
        src.data = (void *)(uintptr_t)zero;
        memset(src.strides, 0, sizeof src.strides);
    }
    stni_box_copy_now(isa, &dst, &src, a->element_size);
}

stn_status stni_triangle_cpu(stn_queue *queue, const void *args)
{
    const struct stni_triangle_args *a = args;
    int64_t rows = a->dst.shape[a->dst.ndim - 2], columns = a->dst.shape[a->dst.ndim - 1];
    for (int64_t i = 0; i < rows; i++) {
        /* The first column of the upper part, or the first beyond the lower one. */
        int64_t at = a->row + i + a->diagonal + (a->upper ? 0 : 1) - a->column;
        at = stni_clamp(at, 0, columns);
        set_part(queue->isa, a, i, 0, at, !a->upper);
        set_part(queue->isa, a, i, at, columns, a->upper);
    }
    return STN_OK;
}
