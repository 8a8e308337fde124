/* take and give, and what is made of them: to_local, from_local, full_tensor. Which function is differentiated:
 * local.h. */
#include "ops/redistribute/local.h"

#include "autograd/leaf.h"
#include "autograd/node.h"
#include "autograd/tape.h"
#include "ops/redistribute/action.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <string.h>

uint32_t stni_axes_of_kind(const stn_spec *spec, stn_placement_kind kind)
{
    const stn_mesh *mesh = spec->layout.mesh;
    uint32_t axes = 0;
    for (int a = 0; mesh && a < mesh->ndim; a++)
        if (mesh->sizes[a] > 1 && spec->layout.placement[a].kind == kind)
            axes |= 1u << a;
    return axes;
}

int stni_is_axes_root(const stn_mesh *mesh, int64_t axes)
{
    for (int a = 0; mesh && a < mesh->ndim; a++)
        if (axes >> a & 1 && mesh->coordinate[a] != 0)
            return 0;
    return 1;
}

/* The tensor to which each rank's copy contributes. That of addends is one value. */
stn_status stni_taken_spec(const stn_spec *spec, const struct stni_local_axes *axes, const stn_spec **out)
{
    struct stni_layout layout = spec->layout;
    for (int a = 0; layout.mesh && a < layout.mesh->ndim; a++) {
        if (layout.placement[a].kind == STN_PLACE_PARTIAL)
            layout.placement[a] = stn_replicate();
        if ((axes->sum_axes | axes->root_axes) >> a & 1)
            layout.placement[a] = stn_partial(STN_SUM);
        else if (axes->mean_axes >> a & 1)
            layout.placement[a] = stn_partial(STN_AVG);
    }
    return stni_spec_intern(spec->context, &layout, out);
}

static stn_status take_backward(stn_backward_call *call)
{
    const struct stni_local_axes *axes = call->attrs;
    const stn_spec *spec;
    stn_tensor *out;
    STNI_TRY(stni_taken_spec(call->in_spec[0], axes, &spec));
    STNI_TRY(stni_give(call->grad_out[0], spec, axes, &out));
    call->grad_in[0] = stni_tensor_publish(out);
    return STN_OK;
}

double stni_mean_factor(const stn_spec *spec)
{
    double factor = 1;
    for (int a = 0; spec->layout.mesh && a < spec->layout.mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_PARTIAL && spec->layout.placement[a].op == STN_AVG)
            factor /= spec->layout.mesh->sizes[a];
    return factor;
}

static stn_status give_backward(stn_backward_call *call)
{
    const struct stni_local_axes *given = call->attrs;
    const stn_spec *spec, *out_spec = call->out_spec[0];
    struct stni_local_axes axes = {out_spec->partial_axes & ~given->root_axes, given->root_axes, 0};
    double factor = stni_mean_factor(out_spec);
    STNI_TRY(stni_gradient_spec(out_spec, &spec));
    stn_tensor *whole = stn_redistribute(call->grad_out[0], spec), *out;
    STNI_TRY(stn_context_status(call->context));
    STNI_TRY(stni_take(whole, &axes, &out));
    out = stni_tensor_publish(out);
    call->grad_in[0] = factor == 1 ? out : stn_mul_number(out, factor);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "tensor"}};

/* Recorded by hand. A loss of one rank may reach a take: then it runs on all ranks of its mesh, as a collective
 * does. */
static const stn_op_desc take_desc = {
    .size = sizeof(stn_op_desc),
    .name = "to_local",
    STN_INPUTS(inputs),
    .attrs_size = sizeof(struct stni_local_axes),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &(const stn_op_impl){.backward = take_backward},
};

/* Of one rank. */
static const stn_op_desc take_alone_desc = {
    .size = sizeof(stn_op_desc),
    .name = "to_local",
    STN_INPUTS(inputs),
    .attrs_size = sizeof(struct stni_local_axes),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.backward = take_backward},
};

static const stn_op_desc give_desc = {
    .size = sizeof(stn_op_desc),
    .name = "from_local",
    STN_INPUTS(inputs),
    .attrs_size = sizeof(struct stni_local_axes),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.backward = give_backward},
};

static stn_status record(const stn_op_desc *desc, const struct stni_local_axes *axes, stn_tensor *in, stn_tensor **out)
{
    stn_status status = stni_record_unary(desc, axes, in, *out);
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

stn_status stni_take(stn_tensor *tensor, const struct stni_local_axes *axes, stn_tensor **out)
{
    const stn_spec *chunk;
    STNI_TRY(stni_spec_of_chunk(tensor->spec, &chunk));
    int has_chunk = chunk->local_numel == tensor->spec->local_numel; /* a local tensor without dims has an element, also outside the mesh */
    if (has_chunk && stni_is_axes_root(tensor->spec->layout.mesh, axes->root_axes))
        STNI_TRY(stni_alias(tensor, chunk, out));
    else
        STNI_TRY(stni_zeros(tensor->context, chunk, out));
    stni_tensor_show(*out, tensor);
    const stn_mesh *mesh = tensor->spec->layout.mesh;
    return record(mesh && mesh->size > 1 ? &take_desc : &take_alone_desc, axes, tensor, out);
}

/* Whether memory with `strides` holds the chunk as one that was made for the spec would. */
static int is_dense_for(const stn_spec *spec, const int64_t *strides)
{
    for (int d = 0; d < spec->layout.ndim; d++)
        if (spec->local_shape[d] > 1 && strides[d] != spec->strides[d])
            return 0;
    return 1;
}

static stn_status copy_as(stn_tensor *local, const stn_spec *spec, stn_tensor **out)
{
    stn_box to, from;
    STNI_TRY(stni_tensor_create(local->context, spec, out));
    stni_tensor_box(*out, &to);
    stni_tensor_box(local, &from);
    stn_status status = spec->local_numel
                            ? stni_box_copy(local->context->queue, &to, &from, stn_dtype_size(spec->layout.dtype))
                            : STN_OK;
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

stn_status stni_give(stn_tensor *local, const stn_spec *spec, const struct stni_local_axes *axes, stn_tensor **out)
{
    if (!stni_is_axes_root(spec->layout.mesh, axes->root_axes & spec->partial_axes))
        STNI_TRY(stni_zeros(local->context, spec, out));
    else if (is_dense_for(spec, local->strides))
        STNI_TRY(stni_tensor_on(local->context, spec, local->storage, local->data, spec->strides, 0, out));
    else
        STNI_TRY(copy_as(local, spec, out));
    stni_tensor_show(*out, local);
    return record(&give_desc, axes, local, out);
}

stn_status stni_check_convention(stn_context *context, stn_grad_convention convention, const char *what)
{
    if (convention == STN_GRAD_PER_RANK || convention == STN_GRAD_REPLICATED)
        return STN_OK;
    return stni_fail(context, STN_ERR_ARGUMENT,
                     "%s: convention got %d, wanted STN_GRAD_PER_RANK or STN_GRAD_REPLICATED", what, (int)convention);
}

stn_tensor *stn_to_local(stn_tensor *tensor, stn_grad_convention convention)
{
    stn_tensor *out = NULL;
    if (!tensor)
        return NULL;
    stn_context *context = tensor->context;
    if (stni_action_begin_on(tensor, "to_local: tensor") != STN_OK)
        return context->error_tensor;
    struct stni_local_axes axes = {
        convention == STN_GRAD_PER_RANK ? stni_axes_of_kind(tensor->spec, STN_PLACE_REPLICATE) : 0, 0, 0};
    stn_status status = stni_check_convention(context, convention, "to_local");
    if (status == STN_OK && tensor->spec->partial_axes && stni_needs_grad(context, 1, &tensor))
        status = stni_fail(context, STN_ERR_PARTIAL,
                           "to_local: tensor requires grad and a reduction of it is pending: redistribute it first");
    if (status == STN_OK)
        status = stni_take(tensor, &axes, &out);
    return stni_action_give(context, status, out);
}

stn_status stni_take_whole(stn_tensor *tensor, const struct stni_local_axes *axes, stn_tensor **out)
{
    struct stni_layout layout = tensor->spec->layout;
    const stn_spec *spec;
    stn_tensor *whole;
    if (!layout.mesh)
        return stni_take(tensor, axes, out);
    for (int a = 0; a < layout.mesh->ndim; a++)
        layout.placement[a] = stn_replicate();
    STNI_TRY(stni_spec_intern(tensor->context, &layout, &spec));
    STNI_TRY(stni_move(tensor, spec, &whole));
    stn_status status = stni_take(whole, axes, out);
    stni_tensor_drop(&whole);
    return status;
}

stn_tensor *stn_full_tensor(stn_tensor *tensor)
{
    stn_tensor *out = NULL;
    if (!tensor)
        return NULL;
    stn_context *context = tensor->context;
    if (stni_action_begin_on(tensor, "full_tensor: tensor") != STN_OK)
        return context->error_tensor;
    static const struct stni_local_axes one_value;
    stn_status status = stni_take_whole(tensor, &one_value, &out);
    return stni_action_give(context, status, out);
}

int stni_reads_operands(const stn_spec *spec)
{
    for (int a = 0; spec->layout.mesh && a < spec->layout.mesh->ndim; a++) {
        const stn_placement p = spec->layout.placement[a];
        if (p.kind == STN_PLACE_PARTIAL && p.op != STN_SUM && p.op != STN_AVG)
            return 1;
    }
    return 0;
}

stn_status stni_check_pending(const stn_tensor *local, const stn_spec *spec, const char *what)
{
    if (!stni_reads_operands(spec) || !stni_needs_grad(local->context, 1, (stn_tensor *const *)&local))
        return STN_OK;
    return stni_fail(local->context, STN_ERR_UNSUPPORTED,
                     "%s: local requires grad, and spec has a pending reduction other than a sum or a mean", what);
}

stn_status stni_check_mesh_spec(stn_context *context, const stn_spec *spec, const char *what)
{
    const char *got = !spec                      ? "NULL"
                      : spec->context != context ? "another context's"
                      : spec->layout.mesh        ? NULL
                                                 : "a local one";
    return got ? stni_fail(context, STN_ERR_ARGUMENT, "%s: spec got %s, wanted one on a mesh of this context", what,
                           got)
               : STN_OK;
}

stn_status stni_check_chunk(const stn_tensor *local, const stn_spec *spec, const char *what)
{
    stn_context *context = local->context;
    const stn_spec *got = local->spec;
    char got_text[STNI_SHAPE_TEXT], wanted_text[STNI_SHAPE_TEXT];
    STNI_TRY(stni_check_mesh_spec(context, spec, what));
    if (got->layout.mesh)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: local is on a mesh, wanted a local tensor", what);
    if (got->layout.dtype != spec->layout.dtype)
        return stni_fail(context, STN_ERR_DTYPE, "%s: local got %s, wanted %s", what, stn_dtype_name(got->layout.dtype),
                         stn_dtype_name(spec->layout.dtype));
    if (got->layout.ndim != spec->layout.ndim ||
        memcmp(got->local_shape, spec->local_shape, (size_t)spec->layout.ndim * sizeof *got->local_shape) != 0)
        return stni_fail(context, STN_ERR_SHAPE, "%s: local got shape %s, wanted this rank's chunk %s", what,
                         stni_shape_text(got->layout.ndim, got->local_shape, got_text),
                         stni_shape_text(spec->layout.ndim, spec->local_shape, wanted_text));
    return STN_OK;
}

stn_status stni_from_local_by(stn_tensor *local, const stn_spec *spec, const struct stni_local_axes *axes,
                              const char *what, stn_tensor **out)
{
    STNI_TRY(stni_check_chunk(local, spec, what));
    if (stni_reads_operands(spec) && stni_needs_grad(local->context, 1, &local))
        return stni_give_reduced(local, spec, axes, what, out);
    return stni_give(local, spec, axes, out);
}

stn_status stni_from_local(stn_tensor *local, const stn_spec *spec, stn_grad_convention convention, const char *what,
                           stn_tensor **out)
{
    STNI_TRY(stni_check_convention(local->context, convention, what));
    const int64_t replicas = spec && convention == STN_GRAD_PER_RANK ? stni_axes_of_kind(spec, STN_PLACE_REPLICATE) : 0;
    return stni_from_local_by(local, spec, &(struct stni_local_axes){.root_axes = replicas}, what, out);
}

stn_tensor *stn_from_local(stn_tensor *local, const stn_spec *spec, stn_grad_convention convention)
{
    stn_tensor *out = NULL;
    if (!local)
        return NULL;
    stn_context *context = local->context;
    stn_status status = stni_action_begin_on(local, "from_local: local");
    if (status == STN_OK) {
        status = stni_from_local(local, spec, convention, "from_local", &out);
        return stni_action_give(context, status, out);
    }
    if (spec && spec->context == context)
        stni_tape_note_failure(context, spec->layout.mesh);
    return context->error_tensor;
}
