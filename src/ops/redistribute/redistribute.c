/* Changing layouts, differentiably.
 *
 * A cotangent is a logical tensor in any layout, so that of a redistribution is passed on as it is; only where the
 * mesh changes is it redistributed to the input's mesh. */
#include "core/redistribute/redistribute.h"

#include "autograd/gather_again.h"
#include "autograd/leaf.h"
#include "core/base/host_alloc.h"
#include "core/tensor/copy_on_write.h"
#include "core/tensor/under_way.h"
#include "ops/common/dims.h"
#include "ops/redistribute/action.h"

#include <string.h>

static stn_status backward(stn_backward_call *call)
{
    const stn_spec *spec;
    call->grad_in[0] = call->grad_out[0];
    if (call->grad_out[0]->spec->layout.mesh == call->in_spec[0]->layout.mesh)
        return STN_OK;
    STNI_TRY(stni_gradient_spec(call->in_spec[0], &spec));
    call->grad_in[0] = stn_redistribute(call->grad_out[0], spec);
    return stn_context_status(call->context);
}

/* What may be gathered again, by nodes that would keep the result. */
static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)needs;
    return stni_gathers_again(call->context, call->in_spec[0], call->out_spec[0]) ? 1 : 0;
}

static const stn_input_schema inputs[] = {{.name = "tensor"}};

/* Recorded by hand: a layout cannot be an attribute. */
static const stn_op_desc redistribute_desc = {
    .size = sizeof(stn_op_desc),
    .name = "redistribute",
    STN_INPUTS(inputs),
    .n_outputs = 1,
    .flags = STNI_OP_MOVES,
    .impl = &(const stn_op_impl){.saves = saves, .backward = backward},
};

/* A handle without the history that a redistribution inside an op shares, or one of its own on the tensor's memory;
 * takes over `moved`. */
static stn_status as_value(stn_tensor *tensor, stn_tensor *moved, stn_tensor **out)
{
    *out = moved;
    if (moved->storage != tensor->storage && !moved->node && !moved->leaf)
        return STN_OK;
    stn_status status =
        stni_tensor_on(moved->context, moved->spec, moved->storage, moved->data, moved->strides, 0, out);
    if (status == STN_OK)
        stni_tensor_hand_over_way(moved, *out);
    if (status == STN_OK && moved->storage == tensor->storage)
        stni_tensor_show_as_value(*out, tensor);
    stni_tensor_drop(&moved);
    return status;
}

static stn_status move(stn_tensor *tensor, const stn_spec *spec, int begins, stn_tensor **out)
{
    stn_tensor *moved;
    if (begins) /* what it shows may change meanwhile */
        STNI_TRY(stni_tensor_own_memory(tensor));
    STNI_TRY(begins ? stni_redistribute_begin(tensor, spec, &moved) : stni_redistribute(tensor, spec, &moved));
    STNI_TRY(as_value(tensor, moved, out));
    stn_status status = stni_record_unary(&redistribute_desc, NULL, tensor, *out);
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

stn_status stni_move(stn_tensor *tensor, const stn_spec *spec, stn_tensor **out)
{
    return move(tensor, spec, 0, out);
}

static stn_status check_target(const stn_tensor *tensor, const stn_spec *spec)
{
    stn_context *context = tensor->context;
    const struct stni_layout *from = &tensor->spec->layout, *to = spec ? &spec->layout : NULL;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (!spec || spec->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT, "redistribute: spec got %s",
                         spec ? "one of another context" : "NULL");
    if (!from->mesh || !to->mesh)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "redistribute: %s has no mesh, wanted one: stn_from_local and stn_to_local cross over",
                         from->mesh ? "spec" : "tensor");
    if (from->ndim != to->ndim || memcmp(from->shape, to->shape, sizeof from->shape) != 0)
        return stni_fail(context, STN_ERR_SHAPE, "redistribute: spec got shape %s, wanted the tensor's %s",
                         stni_shape_text(to->ndim, to->shape, got), stni_shape_text(from->ndim, from->shape, wanted));
    if (from->dtype != to->dtype)
        return stni_fail(context, STN_ERR_DTYPE, "redistribute: spec got %s, wanted the tensor's %s",
                         stn_dtype_name(to->dtype), stn_dtype_name(from->dtype));
    return STN_OK;
}

static stn_tensor *redistribute(stn_tensor *tensor, const stn_spec *spec, int begins)
{
    stn_tensor *out = NULL;
    if (!tensor)
        return NULL;
    stn_context *context = tensor->context;
    if (stni_action_begin_on(tensor, "redistribute: tensor") != STN_OK)
        return context->error_tensor;
    stn_status status = check_target(tensor, spec);
    if (status == STN_OK)
        status = move(tensor, spec, begins, &out);
    return stni_action_give(context, status, out);
}

stn_tensor *stn_redistribute(stn_tensor *tensor, const stn_spec *spec)
{
    return redistribute(tensor, spec, 0);
}

stn_tensor *stn_redistribute_begin(stn_tensor *tensor, const stn_spec *spec)
{
    return redistribute(tensor, spec, 1);
}

static stn_status wait_for(stn_tensor *result)
{
    stn_context *context = result->context;
    if (!(result->flags & STNI_TENSOR_MOVED))
        return stni_fail(context, STN_ERR_STATE,
                         "redistribute_wait: the tensor is no result of stn_redistribute_begin");
    if (result->under_way->waited)
        return stni_fail(context, STN_ERR_STATE, "redistribute_wait: the tensor was waited for before");
    result->under_way->waited = 1;
    return stni_tensor_arrive(result);
}

stn_status stn_redistribute_wait(stn_tensor *result)
{
    if (!result)
        return STN_ERR_ARGUMENT;
    stn_context *context = result->context;
    if (context->error.status == STN_OK && stni_is_error(result))
        return stni_tensor_require(result, "redistribute_wait: result");
    STNI_TRY(stni_action_begin(context));
    return stni_action_end(context, wait_for(result));
}

stn_tensor *stn_redistribute_to(stn_tensor *tensor, const stn_placement *placements)
{
    const stn_spec *spec;
    if (!tensor)
        return NULL;
    stn_context *context = tensor->context;
    if (stni_tensor_require(tensor, "redistribute_to: tensor") != STN_OK)
        return context->error_tensor;
    const struct stni_layout *layout = &tensor->spec->layout;
    int order[STN_MAX_NDIM];
    for (int d = 0; d < layout->ndim; d++)
        order[d] = layout->memory_order[d];
    stn_spec_options options = {.size = sizeof options, .memory_order = order};
    if (!layout->mesh || !placements) {
        stni_fail(context, STN_ERR_ARGUMENT, "redistribute_to: %s",
                  layout->mesh ? "placements got NULL" : "tensor has no mesh");
        return context->error_tensor;
    }
    if (stn_spec_create(context, layout->mesh, placements, layout->dtype, layout->ndim, layout->shape, &options,
                        &spec) != STN_OK)
        return context->error_tensor;
    stn_tensor *out = stn_redistribute(tensor, spec);
    stn_spec_release(&spec);
    return out;
}
