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

/* One box of the dims along which dst goes on, for every index of the others, in order. */
stn_status stni_remap_add_cpu(stn_queue *queue, const void *args)
{
    const struct stni_remap_add_args *a = args;
    stn_box dst = a->dst, src = a->src;
    int64_t repeats = 1, size = (int64_t)stn_dtype_size(a->dtype);
    for (int d = 0; d < dst.ndim; d++)
        if (a->dst.strides[d] == 0) {
            repeats *= dst.shape[d];
            dst.shape[d] = src.shape[d] = 1;
        }
    for (int64_t i = 0; i < repeats; i++) {
        int64_t rest = i, at = 0;
        for (int d = a->dst.ndim - 1; d >= 0; d--)
            if (a->dst.strides[d] == 0) {
                at += rest % a->dst.shape[d] * a->src.strides[d];
                rest /= a->dst.shape[d];
            }
        src.data = (char *)a->src.data + at * size;
        stn_box both[] = {dst, src};
        stni_box_reduce_now(queue->isa, 1, &dst, 2, both, a->dtype, STN_SUM);
    }
    return STN_OK;
}
