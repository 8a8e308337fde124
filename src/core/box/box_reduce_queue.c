/* Reductions over boxes as work on a queue: the arguments of core.box_reduce, with as few dims as the boxes have in
 * common. */
#include "core/box/box.h"

#include "core/box/box_walk.h"
#include "core/device/device.h"

#include <shardtensor/module.h>

#include <assert.h>
#include <stddef.h>

static_assert(sizeof(stn_box_reduce_args) <= STN_MAX_KERNEL_ARGS,
              "core.box_reduce has more arguments than a kernel may");

/* The CPU's core.box_reduce. */
static stn_status reduce_kernel(stn_queue *queue, const void *args)
{
    const stn_box_reduce_args *a = args;
    stn_box boxes[STN_BOX_REDUCE_BOXES];
    for (int i = 0; i < a->n_dst + a->n_src; i++) {
        boxes[i].data = a->data[i];
        boxes[i].ndim = a->ndim;
        for (int d = 0; d < a->ndim; d++) {
            boxes[i].shape[d] = a->shape[d];
            boxes[i].strides[d] = a->strides[i * a->ndim + d];
        }
    }
    stni_box_reduce_now(queue->isa, a->n_dst, boxes, a->n_src, boxes + a->n_dst, a->dtype, a->op);
    return STN_OK;
}

static void append(stn_box_reduce_args *args, int *at, const struct stni_box_walk *walk, int n, const stn_box *boxes)
{
    for (int b = 0; b < n; b++, (*at)++) {
        args->data[*at] = boxes[b].data;
        for (int i = 0; i < walk->ndim; i++)
            args->strides[*at * walk->ndim + i] = boxes[b].strides[walk->dim[i]];
    }
}

/* How many boxes of so many dims the arguments hold. */
static int most_boxes(int ndim)
{
    return ndim * STN_BOX_REDUCE_BOXES <= STN_BOX_REDUCE_STRIDES ? STN_BOX_REDUCE_BOXES : STN_BOX_REDUCE_STRIDES / ndim;
}

static stn_status launch(stn_queue *queue, const stn_box_reduce_args *args)
{
    const stn_device *device = queue->device;
    const size_t strides = (size_t)((args->n_dst + args->n_src) * args->ndim) * sizeof *args->strides;
    if (!device->is_cpu && !device->box_reduce)
        return stn_queue_fail(queue, STN_ERR_UNSUPPORTED, "device %s has no kernel core.box_reduce", device->name);
    return stni_queue_launch_named(queue, device->is_cpu ? reduce_kernel : device->box_reduce, args,
                                   offsetof(stn_box_reduce_args, strides) + strides, "reduce");
}

stn_status stni_box_reduce(stn_queue *queue, int n_dst, const stn_box *dst, int n_src, const stn_box *src,
                           stn_dtype dtype, stn_reduce_op op)
{
    struct stni_box_walk walk;
    assert(n_dst >= 1 && n_src >= 1 && stni_box_reduces(dtype, op));
    if (stni_box_walk_begin(&walk, &dst[0]) == 0)
        return STN_OK;
    stni_box_walk_join(&walk, n_dst, dst);
    stni_box_walk_join(&walk, n_src, src);
    stni_box_walk_end(&walk);
    const int most = most_boxes(walk.ndim);
    if (n_src >= most)
        return stn_queue_fail(queue, STN_ERR_UNSUPPORTED,
                              "a reduction of %d boxes of %d dims; one kernel takes at most %d", n_src, walk.ndim,
                              most - 1);
    stn_box_reduce_args args;
    int at = 0;
    args.dtype = dtype;
    args.op = op;
    args.ndim = walk.ndim;
    args.n_src = n_src;
    args.n_dst = n_dst < most - n_src ? n_dst : most - n_src;
    for (int i = 0; i < walk.ndim; i++)
        args.shape[i] = walk.shape[i];
    append(&args, &at, &walk, args.n_dst, dst);
    append(&args, &at, &walk, n_src, src);
    STNI_TRY(launch(queue, &args));
    for (int d = args.n_dst; d < n_dst; d++)
        STNI_TRY(stni_box_copy(queue, &dst[d], &dst[0], stn_dtype_size(dtype)));
    return STN_OK;
}
