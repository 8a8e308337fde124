#include "core/box/box_list.h"

#include "core/box/box_walk.h"
#include "core/device/device.h"

#include <assert.h>

static_assert(sizeof(stn_box_copies_args) <= STN_MAX_KERNEL_ARGS,
              "core.box_copies has more arguments than a kernel may");
static_assert((int)STN_BOX_COPIES_DIMS >= (int)STN_MAX_BOX_NDIM, "a copy fits into an empty list");

void stni_box_list_begin(struct stni_box_list *list, stn_queue *queue)
{
    list->queue = queue;
    list->n_dims = list->args.n = 0;
}

void stni_box_list_begin_now(struct stni_box_list *list, enum stni_isa isa)
{
    stni_box_list_begin(list, NULL);
    list->isa = isa;
}

static int fits(const struct stni_box_list *list, const struct stni_box_walk *walk, size_t element_size)
{
    const stn_box_copies_args *args = &list->args;
    return args->n < STN_BOX_COPIES && list->n_dims + walk->ndim <= STN_BOX_COPIES_DIMS &&
           args->element_size == element_size;
}

static void append(struct stni_box_list *list, const struct stni_box_walk *walk, const stn_box *dst, const stn_box *src,
                   size_t element_size)
{
    stn_box_copies_args *args = &list->args;
    args->element_size = element_size;
    args->box[args->n].dst = dst->data;
    args->box[args->n].src = src->data;
    args->box[args->n++].ndim = walk->ndim;
    for (int d = 0; d < walk->ndim; d++, list->n_dims++) {
        args->shape[list->n_dims] = walk->shape[d];
        args->dst_stride[list->n_dims] = dst->strides[walk->dim[d]];
        args->src_stride[list->n_dims] = src->strides[walk->dim[d]];
    }
}

stn_status stni_box_list_add(struct stni_box_list *list, const stn_box *dst, const stn_box *src, size_t element_size)
{
    struct stni_box_walk walk;
    if (!list->queue) {
        stni_box_copy_now(list->isa, dst, src, element_size);
        return STN_OK;
    }
    if (!list->queue->device->box_copies)
        return stni_box_copy(list->queue, dst, src, element_size);
    if (stni_box_walk_begin(&walk, dst) == 0)
        return STN_OK;
    stni_box_walk_join(&walk, 1, dst);
    stni_box_walk_join(&walk, 1, src);
    stni_box_walk_end(&walk);
    if (list->args.n > 0 && !fits(list, &walk, element_size))
        STNI_TRY(stni_box_list_launch(list));
    append(list, &walk, dst, src, element_size);
    return STN_OK;
}

stn_status stni_box_list_launch(struct stni_box_list *list)
{
    if (list->args.n == 0)
        return STN_OK;
    stn_status status =
        stni_queue_launch_named(list->queue, list->queue->device->box_copies, &list->args, sizeof list->args, "copies");
    list->n_dims = list->args.n = 0;
    return status;
}
