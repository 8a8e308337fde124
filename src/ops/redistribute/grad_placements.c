/* to_local, from_local and full_tensor with a placement of the gradient for each axis, as DTensor's users give them. */
#include "autograd/node.h"
#include "ops/redistribute/action.h"
#include "ops/redistribute/local.h"

#include <shardtensor/local.h>

#include <stdio.h>

static const char *const op_names[] = {"sum", "avg", "prod", "min", "max"};

static const char *text_of(stn_placement p, char *text, size_t size)
{
    if (p.kind == STN_PLACE_SHARD)
        snprintf(text, size, "Shard(%d)", p.dim);
    else if (p.kind == STN_PLACE_PARTIAL)
        snprintf(text, size, "Partial(%s)", p.op < STN_REDUCE_OP_COUNT ? op_names[p.op] : "?");
    else
        snprintf(text, size, "Replicate");
    return text;
}

enum { TEXT = 32 };

static stn_status refuse(stn_context *context, const char *what, int axis, stn_placement got, stn_placement forward,
                         const char *wanted)
{
    char got_text[TEXT], forward_text[TEXT];
    return stni_fail(context, STN_ERR_ARGUMENT, "%s: grad_placements[%d] got %s, wanted %s where the tensor is %s",
                     what, axis, text_of(got, got_text, TEXT), wanted, text_of(forward, forward_text, TEXT));
}

static int is_partial(stn_placement p, stn_reduce_op op)
{
    return p.kind == STN_PLACE_PARTIAL && p.op == op;
}

/* One axis of a tensor that is taken: what the ranks' cotangents are along it. */
static stn_status take_axis(const stn_spec *spec, int a, stn_placement grad, const char *what,
                            struct stni_local_axes *axes)
{
    const stn_placement forward = spec->layout.placement[a];
    const int64_t bit = INT64_C(1) << a;
    if (forward.kind == STN_PLACE_SHARD)
        return grad.kind == STN_PLACE_SHARD && grad.dim == forward.dim
                   ? STN_OK
                   : refuse(spec->context, what, a, grad, forward, "the same");
    if (grad.kind == STN_PLACE_REPLICATE && (forward.kind == STN_PLACE_REPLICATE || is_partial(forward, STN_SUM)))
        return STN_OK;
    if (forward.kind == STN_PLACE_PARTIAL)
        return refuse(spec->context, what, a, grad, forward,
                      is_partial(forward, STN_SUM) ? "Replicate" : "no gradient");
    axes->sum_axes |= is_partial(grad, STN_SUM) ? bit : 0;
    axes->mean_axes |= is_partial(grad, STN_AVG) ? bit : 0;
    return is_partial(grad, STN_SUM) || is_partial(grad, STN_AVG)
               ? STN_OK
               : refuse(spec->context, what, a, grad, forward, "Replicate, Partial(sum) or Partial(avg)");
}

/* One axis of a tensor that is given: how its cotangent is laid before the ranks get theirs. */
static stn_status give_axis(const stn_spec *spec, int a, stn_placement grad, const char *what,
                            struct stni_local_axes *axes)
{
    const stn_placement forward = spec->layout.placement[a];
    if (forward.kind == STN_PLACE_SHARD)
        return grad.kind == STN_PLACE_SHARD && grad.dim == forward.dim
                   ? STN_OK
                   : refuse(spec->context, what, a, grad, forward, "the same");
    if (grad.kind == STN_PLACE_REPLICATE)
        return STN_OK;
    if (forward.kind == STN_PLACE_PARTIAL || !is_partial(grad, STN_SUM))
        return refuse(spec->context, what, a, grad, forward,
                      forward.kind == STN_PLACE_PARTIAL ? "Replicate" : "Replicate or Partial(sum)");
    axes->root_axes |= INT64_C(1) << a;
    return STN_OK;
}

typedef stn_status (*axis_fn)(const stn_spec *spec, int axis, stn_placement grad, const char *what,
                              struct stni_local_axes *axes);

/* Axes of one rank are all alike. */
static stn_status read_axes(const stn_spec *spec, const stn_placement *grads, axis_fn read, const char *what,
                            struct stni_local_axes *axes)
{
    const stn_mesh *mesh = spec->layout.mesh;
    *axes = (struct stni_local_axes){0};
    if (mesh && !grads)
        return stni_fail(spec->context, STN_ERR_ARGUMENT,
                         "%s: grad_placements got NULL, wanted one for each axis of the mesh", what);
    for (int a = 0; mesh && a < mesh->ndim; a++)
        if (mesh->sizes[a] > 1)
            STNI_TRY(read(spec, a, grads[a], what, axes));
    return STN_OK;
}

stn_status stni_take_axes(const stn_spec *spec, const stn_placement *grads, const char *what,
                          struct stni_local_axes *out)
{
    return read_axes(spec, grads, take_axis, what, out);
}

stn_status stni_give_axes(const stn_spec *spec, const stn_placement *grads, const char *what,
                          struct stni_local_axes *out)
{
    return read_axes(spec, grads, give_axis, what, out);
}

stn_tensor *stn_to_local_with(stn_tensor *tensor, const stn_placement *grad_placements)
{
    stn_tensor *out = NULL;
    struct stni_local_axes axes;
    if (!tensor)
        return NULL;
    stn_context *context = tensor->context;
    if (stni_action_begin_on(tensor, "to_local_with: tensor") != STN_OK)
        return context->error_tensor;
    stn_status status = stni_take_axes(tensor->spec, grad_placements, "to_local_with", &axes);
    if (status == STN_OK)
        status = stni_take(tensor, &axes, &out);
    return stni_action_give(context, status, out);
}

/* The layout that the whole has before it is taken. */
static stn_status replicated(const stn_spec *spec, const stn_spec **out)
{
    struct stni_layout layout;
    stni_layout_init(&layout, spec->layout.mesh, spec->layout.dtype, spec->layout.ndim, spec->layout.shape);
    return stni_spec_intern(spec->context, &layout, out);
}

stn_tensor *stn_full_tensor_with(stn_tensor *tensor, const stn_placement *grad_placements)
{
    stn_tensor *out = NULL;
    struct stni_local_axes axes;
    const stn_spec *whole;
    if (!tensor)
        return NULL;
    stn_context *context = tensor->context;
    if (stni_action_begin_on(tensor, "full_tensor_with: tensor") != STN_OK)
        return context->error_tensor;
    stn_status status = replicated(tensor->spec, &whole);
    if (status == STN_OK)
        status = stni_take_axes(whole, grad_placements, "full_tensor_with", &axes);
    if (status == STN_OK)
        status = stni_take_whole(tensor, &axes, &out);
    return stni_action_give(context, status, out);
}

static stn_status from_local_with(stn_tensor *local, const stn_spec *spec, const stn_placement *grads, stn_tensor **out)
{
    struct stni_local_axes axes = {0};
    if (spec)
        STNI_TRY(stni_give_axes(spec, grads, "from_local_with", &axes));
    return stni_from_local_by(local, spec, &axes, "from_local_with", out);
}

stn_tensor *stn_from_local_with(stn_tensor *local, const stn_spec *spec, const stn_placement *grad_placements)
{
    stn_tensor *out = NULL;
    if (!local)
        return NULL;
    stn_context *context = local->context;
    if (stni_action_begin_on(local, "from_local_with: local") != STN_OK)
        return context->error_tensor;
    stn_status status = from_local_with(local, spec, grad_placements, &out);
    return stni_action_give(context, status, out);
}
