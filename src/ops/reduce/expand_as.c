/* A result of a reduction repeated in the layout of what was reduced, for backward functions. Repeating is free, and
 * so is a chunk of what is repeated: each rank repeats what it has as far as its own chunk goes. stn_expand, which
 * knows a shape alone, would give every rank the whole along the axes that sharded a reduced dim; whoever then
 * wanted the chunk had to copy it. */
#include "ops/reduce/reduction.h"

#include "core/tensor/tensor.h"
#include "ops/common/sum_to.h"
#include "ops/redistribute/action.h"

#include <shardtensor/ops.h>

#include <string.h>

static int is_repeated(const struct stni_layout *from, const struct stni_layout *like, int d)
{
    return from->shape[d] == 1 && like->shape[d] != 1;
}

/* The axes that shard a dim of `like` which is repeated; -1 where `from` is not whole along one of them, or sharded
 * along such a dim. */
static int64_t repeated_axes(const struct stni_layout *from, const struct stni_layout *like)
{
    int64_t axes = 0;
    for (int a = 0; a < like->mesh->ndim; a++) {
        const stn_placement has = from->placement[a], wanted = like->placement[a];
        if (has.kind == STN_PLACE_SHARD && is_repeated(from, like, has.dim))
            return -1;
        if (wanted.kind != STN_PLACE_SHARD || !is_repeated(from, like, wanted.dim))
            continue;
        if (has.kind != STN_PLACE_REPLICATE)
            return -1;
        axes |= INT64_C(1) << a;
    }
    return axes;
}

/* What is pending along an axis that cuts a repeated dim is completed while it is short. Repeated before, as many
 * elements as `like` has would be brought to its chunks. */
static stn_tensor *complete_along_cuts(stn_tensor *tensor, const struct stni_layout *like)
{
    struct stni_layout layout = tensor->spec->layout;
    const stn_spec *spec;
    for (int a = 0; a < like->mesh->ndim; a++) {
        const stn_placement wanted = like->placement[a];
        if (layout.placement[a].kind == STN_PLACE_PARTIAL && wanted.kind == STN_PLACE_SHARD &&
            is_repeated(&layout, like, wanted.dim))
            layout.placement[a] = stn_replicate();
    }
    if (memcmp(layout.placement, tensor->spec->layout.placement, sizeof layout.placement) == 0)
        return tensor;
    if (stni_spec_intern(tensor->context, &layout, &spec) != STN_OK)
        return tensor->context->error_tensor;
    return stn_redistribute(tensor, spec);
}

/* Of each dim that is repeated the cut of `like`, of the others that of `from`. An axis order has a meaning among
 * the axes of one dim alone. */
static void join_layouts(const struct stni_layout *from, const struct stni_layout *like, int64_t axes,
                         struct stni_layout *out)
{
    int n = 0;
    *out = *like;
    out->dtype = from->dtype;
    for (int repeated = 1; repeated >= 0; repeated--)
        for (int k = 0; k < like->mesh->ndim; k++) {
            const int a = (repeated ? like : from)->axis_order[k];
            if ((axes >> a & 1) == repeated)
                out->axis_order[n++] = (uint8_t)a;
        }
    for (int a = 0; a < like->mesh->ndim; a++)
        if (!(axes >> a & 1))
            out->placement[a] = from->placement[a];
    for (int d = 0; d < like->ndim; d++)
        if (!is_repeated(from, like, d))
            out->split[d] = from->split[d];
}

static stn_status backward(stn_backward_call *call)
{
    call->grad_in[0] = stni_sum_to(call->grad_out[0], call->in_spec[0]);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};

/* Recorded by hand: a layout cannot be an attribute. */
static const stn_op_desc desc = {
    .size = sizeof(stn_op_desc),
    .name = "expand",
    STN_INPUTS(inputs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.backward = backward},
};

static stn_status repeat(stn_tensor *tensor, const struct stni_layout *like, int64_t axes, stn_tensor **out)
{
    const struct stni_layout *from = &tensor->spec->layout;
    const stn_spec *spec;
    struct stni_layout layout;
    int64_t strides[STN_MAX_NDIM] = {0};
    STNI_TRY(stni_tensor_arrive(tensor));
    join_layouts(from, like, axes, &layout);
    STNI_TRY(stni_spec_intern(tensor->context, &layout, &spec));
    for (int d = 0; d < from->ndim; d++)
        strides[d] = is_repeated(from, like, d) ? 0 : tensor->strides[d];
    STNI_TRY(stni_tensor_on(tensor->context, spec, tensor->storage, tensor->data, strides, 0, out));
    stni_tensor_show(*out, tensor);
    stn_status status = stni_record_unary(&desc, NULL, tensor, *out);
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

stn_tensor *stni_expand_as(stn_tensor *tensor, const stn_spec *like)
{
    stn_context *context = tensor->context;
    stn_tensor *out = NULL;
    if (stn_tensor_is_error(tensor))
        return tensor;
    const int same_mesh = like->layout.mesh && tensor->spec->layout.mesh == like->layout.mesh;
    if (same_mesh && stn_tensor_is_error(tensor = complete_along_cuts(tensor, &like->layout)))
        return tensor;
    const int64_t axes = same_mesh ? repeated_axes(&tensor->spec->layout, &like->layout) : -1;
    if (axes < 0)
        return stn_expand(tensor, like->layout.ndim, like->layout.shape);
    if (stni_action_begin_on(tensor, "expand: input") != STN_OK)
        return context->error_tensor;
    const stn_status status = repeat(tensor, &like->layout, axes, &out);
    return stni_action_give(context, status, out);
}
