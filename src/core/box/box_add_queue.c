/* dst += src as work on a queue: the CPU's own kernel, or a device's kernel of reductions. */
#include "core/box/box_add.h"

#include "core/device/device.h"

#include <shardtensor/module.h>

struct add_args {
    stn_box dst, src;
    stn_dtype dtype;
};

static stn_status add_kernel(stn_queue *queue, const void *args)
{
    const struct add_args *a = args;
    stni_box_add_now(queue->isa, &a->dst, &a->src, a->dtype);
    return STN_OK;
}

/* Sources of one reduction to one box. */
static int most_sources(const stn_box *box)
{
    int ndim = 0, boxes = STN_BOX_REDUCE_BOXES;
    for (int d = 0; d < box->ndim; d++)
        ndim += box->shape[d] != 1;
    if (ndim * boxes > STN_BOX_REDUCE_STRIDES)
        boxes = STN_BOX_REDUCE_STRIDES / ndim;
    return boxes - 1;
}

static int is_rounded(stn_dtype dtype)
{
    return dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16;
}

/* What one reduction takes of the elements that go to one: from `i` on, behind the first n sources. Returns how many
 * sources there are then. */
static int append(stn_box *sources, int n, int most, const stn_box *src, const struct stni_box_repeats *repeats,
                  int64_t i, stn_dtype dtype)
{
    for (; n < most && i < repeats->count; i++, n++) {
        sources[n] = *src;
        sources[n].data = (char *)src->data + stni_box_repeat_at(repeats, i) * (int64_t)stn_dtype_size(dtype);
    }
    return n;
}

/* In order, so that what is not rounded to 16 bits has the bits of one addition after the other. */
static stn_status add_in_order(stn_queue *queue, const stn_box *dst, const stn_box *src,
                               const struct stni_box_repeats *repeats, stn_dtype dtype)
{
    const int most = most_sources(dst);
    stn_box sources[STN_BOX_REDUCE_BOXES] = {*dst};
    for (int64_t i = 0; i < repeats->count; i += most - 1) {
        const int n = append(sources, 1, most, src, repeats, i, dtype);
        STNI_TRY(stni_box_reduce(queue, 1, dst, n, sources, dtype, STN_SUM));
    }
    return STN_OK;
}

/* Sums of as many as one reduction takes, each in the memory of `sum` behind the one before. */
static stn_status add_parts(stn_queue *queue, stn_box sum, const stn_box *src, const struct stni_box_repeats *repeats,
                            stn_dtype dtype)
{
    const int most = most_sources(&sum);
    const int64_t bytes = stni_box_numel(&sum) * (int64_t)stn_dtype_size(dtype);
    stn_box sources[STN_BOX_REDUCE_BOXES];
    for (int64_t i = 0; i < repeats->count; i += most, sum.data = (char *)sum.data + bytes) {
        const int n = append(sources, 0, most, src, repeats, i, dtype);
        STNI_TRY(stni_box_reduce(queue, 1, &sum, n, sources, dtype, STN_SUM));
    }
    return STN_OK;
}

static int64_t parts_of(const stn_box *dst, int64_t count)
{
    const int most = most_sources(dst);
    return (count + most - 1) / most;
}

/* Sums of sums, until one reduction takes those that are left, and dst. */
static stn_status add_sums(stn_queue *queue, const stn_box *dst, stn_box src, struct stni_box_repeats repeats,
                           stn_dtype dtype, char *scratch)
{
    const int64_t n = stni_box_numel(dst);
    while (repeats.count >= most_sources(dst)) {
        stn_box sum = *dst;
        sum.data = scratch;
        stni_box_make_dense(&sum);
        STNI_TRY(add_parts(queue, sum, &src, &repeats, dtype));
        const int64_t parts = parts_of(dst, repeats.count);
        repeats = (struct stni_box_repeats){1, parts, {parts}, {n}};
        src = sum;
        scratch += parts * n * (int64_t)stn_dtype_size(dtype);
    }
    return add_in_order(queue, dst, &src, &repeats, dtype);
}

size_t stni_box_add_scratch(const stn_queue *queue, const stn_box *dst, const stn_box *src, stn_dtype dtype)
{
    stn_box to = *dst, from = *src;
    int64_t count = stni_box_take_repeats(&to, &from).count, parts = 0;
    if (queue->device->is_cpu || !is_rounded(dtype))
        return 0;
    for (; count >= most_sources(&to); parts += count)
        count = parts_of(&to, count);
    return (size_t)(parts * stni_box_numel(&to)) * stn_dtype_size(dtype);
}

stn_status stni_box_add(stn_queue *queue, const stn_box *dst, const stn_box *src, stn_dtype dtype, void *scratch)
{
    const struct add_args args = {*dst, *src, dtype};
    stn_box to = *dst, from = *src;
    if (queue->device->is_cpu)
        return stni_queue_launch_named(queue, add_kernel, &args, sizeof args, "add");
    const struct stni_box_repeats repeats = stni_box_take_repeats(&to, &from);
    return is_rounded(dtype) ? add_sums(queue, &to, from, repeats, dtype, scratch)
                             : add_in_order(queue, &to, &from, &repeats, dtype);
}
