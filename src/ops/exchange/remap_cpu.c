/* Filling and adding boxes, on the CPU. */
#include "core/box/box.h"
#include "core/device/device.h"
#include "ops/exchange/remap_kernel.h"

#include <string.h>

static int is_zero(const unsigned char *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (value[i] != 0)
            return 0;
    return 1;
}

/* Rows that are dense in memory are set at once where every byte is the same; other boxes are copied from one
 * element. */
stn_status stni_remap_fill_cpu(stn_queue *queue, const void *args)
{
    const struct stni_remap_fill_args *a = args;
    stn_box from = a->box;
    int64_t n = 1;
    int dense = 1;
    for (int d = a->box.ndim - 1; d >= 0; d--) {
        dense &= a->box.shape[d] == 1 || a->box.strides[d] == n;
        n *= a->box.shape[d];
    }
    if (dense && is_zero(a->value, a->element_size)) {
        memset(a->box.data, 0, (size_t)n * a->element_size);
        return STN_OK;
    }
    from.data = (void *)(uintptr_t)a->value;
    memset(from.strides, 0, sizeof from.strides);
    stni_box_copy_now(queue->isa, &a->box, &from, a->element_size);
    return STN_OK;
}

stn_status stni_remap_add_cpu(stn_queue *queue, const void *args)
{
    const struct stni_remap_add_args *a = args;
    stni_box_add_now(queue->isa, &a->dst, &a->src, a->dtype);
    return STN_OK;
}
