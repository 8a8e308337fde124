/* halo_pad and halo_unpad_add: take and give (ops/redistribute/local.h) of chunks with margins. Each is the other's
 * adjoint.
 *
 * Which ranks a margin's elements go to is ops/exchange/widths.h's affair; what a cotangent does along axes that do not
 * share the windowed dims is that of take and give. */
#include "ops/local/halo_pad.h"

#include "autograd/leaf.h"
#include "autograd/node.h"
#include "dispatch/services.h"
#include "ops/common/dims.h"
#include "ops/exchange/widths.h"
#include "ops/redistribute/action.h"

#include <shardtensor/ops.h>

#include <string.h>

struct halo_attrs {
    stn_halo halo;
    struct stni_local_axes axes;
};

static stn_status read_widths(const stn_halo *halo, const stn_spec *spec, const char *what, struct stni_widths *w)
{
    struct stni_error error = {.status = STN_OK};
    if (stni_widths_read(halo, spec, w, &error) != STN_OK)
        return stni_fail(spec->context, error.status, "%s: %s", what, error.text);
    return STN_OK;
}

/* Widths that were read before, when the node was recorded. */
static void keep_attrs(const stn_halo *halo, struct stni_local_axes axes, struct halo_attrs *out)
{
    memset(out, 0, sizeof *out);
    memcpy(&out->halo, halo, halo->size);
    out->halo.size = sizeof out->halo;
    out->axes = axes;
}

static stn_status padded_spec(const struct stni_widths *w, const stn_spec **out)
{
    int64_t shape[STN_MAX_NDIM];
    stni_widths_shape(w, shape);
    return stni_spec_local(w->spec->context, w->spec->layout.dtype, w->spec->layout.ndim, shape, out);
}

/* Either direction, with scratch memory of its own: no call stands behind it. */
static stn_status move(const struct stni_widths *w, stn_tensor *chunk, stn_tensor *padded, int adjoint)
{
    const stn_op_call call = {.size = sizeof call, .context = chunk->context};
    const int mark = stni_scratch_mark(chunk->context);
    stn_box box;
    stni_tensor_box(padded, &box);
    stn_status status = adjoint ? stni_widths_add(&call, w, &box, chunk) : stni_widths_fetch(&call, w, chunk, &box);
    stni_scratch_release(chunk->context, mark);
    return status;
}

static stn_status pad(stn_tensor *tensor, const struct halo_attrs *attrs, stn_tensor **out);
static stn_status unpad(stn_tensor *local, const stn_spec *spec, const struct halo_attrs *attrs, stn_tensor **out);

static stn_status pad_backward(stn_backward_call *call)
{
    const struct halo_attrs *attrs = call->attrs;
    const stn_spec *spec;
    stn_tensor *out;
    STNI_TRY(stni_taken_spec(call->in_spec[0], &attrs->axes, &spec));
    STNI_TRY(unpad(call->grad_out[0], spec, attrs, &out));
    call->grad_in[0] = stni_tensor_publish(out);
    return STN_OK;
}

static stn_status unpad_backward(stn_backward_call *call)
{
    const stn_spec *spec, *out_spec = call->out_spec[0];
    struct halo_attrs attrs = *(const struct halo_attrs *)call->attrs;
    const double factor = stni_mean_factor(out_spec);
    attrs.axes.sum_axes = out_spec->partial_axes & ~attrs.axes.root_axes;
    STNI_TRY(stni_gradient_spec(out_spec, &spec));
    stn_tensor *whole = stn_redistribute(call->grad_out[0], spec), *out;
    STNI_TRY(stn_context_status(call->context));
    STNI_TRY(pad(whole, &attrs, &out));
    out = stni_tensor_publish(out);
    call->grad_in[0] = factor == 1 ? out : stn_mul_number(out, factor);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "tensor"}};

/* Recorded by hand, as take and give: one goes from a mesh to none, and a layout cannot be an attribute. */
static const stn_op_desc pad_desc = {
    .size = sizeof(stn_op_desc),
    .name = "halo_pad",
    STN_INPUTS(inputs),
    .attrs_size = sizeof(struct halo_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.backward = pad_backward},
};

static const stn_op_desc unpad_desc = {
    .size = sizeof(stn_op_desc),
    .name = "halo_unpad_add",
    STN_INPUTS(inputs),
    .attrs_size = sizeof(struct halo_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.backward = unpad_backward},
};

static stn_status finish(stn_status status, const stn_op_desc *desc, const struct halo_attrs *attrs, stn_tensor *in,
                         stn_tensor **out)
{
    if (status == STN_OK)
        status = stni_record_unary(desc, attrs, in, *out);
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

/* `tensor` has no pending reduction. Ranks that share windowed dims are alike along the other axes, so that all of an
 * exchange make it or none. */
static stn_status pad(stn_tensor *tensor, const struct halo_attrs *attrs, stn_tensor **out)
{
    struct stni_widths w;
    const stn_spec *spec;
    STNI_TRY(read_widths(&attrs->halo, tensor->spec, "halo_pad", &w));
    STNI_TRY(padded_spec(&w, &spec));
    if (!stni_is_axes_root(tensor->spec->layout.mesh, attrs->axes.root_axes)) {
        STNI_TRY(stni_zeros(tensor->context, spec, out));
        return finish(STN_OK, &pad_desc, attrs, tensor, out);
    }
    STNI_TRY(stni_tensor_create(tensor->context, spec, out));
    return finish(move(&w, tensor, *out, 0), &pad_desc, attrs, tensor, out);
}

static stn_status unpad(stn_tensor *local, const stn_spec *spec, const struct halo_attrs *attrs, stn_tensor **out)
{
    struct stni_widths w;
    STNI_TRY(read_widths(&attrs->halo, spec, "halo_unpad_add", &w));
    if (!stni_is_axes_root(spec->layout.mesh, attrs->axes.root_axes & spec->partial_axes)) {
        STNI_TRY(stni_zeros(local->context, spec, out));
        return finish(STN_OK, &unpad_desc, attrs, local, out);
    }
    STNI_TRY(stni_tensor_create(local->context, spec, out));
    return finish(move(&w, *out, local, 1), &unpad_desc, attrs, local, out);
}

stn_status stni_halo_pad_check(const stn_halo *halo, const stn_spec *spec, const char *what)
{
    struct stni_widths w;
    return read_widths(halo, spec, what, &w);
}

stn_status stni_halo_pad_take(stn_tensor *tensor, const stn_halo *halo, const struct stni_local_axes *axes,
                          stn_tensor **out)
{
    struct halo_attrs attrs;
    keep_attrs(halo, *axes, &attrs);
    return pad(tensor, &attrs, out);
}

/* All that can be refused is refused before the reduction. */
static stn_status pad_whole(stn_tensor *tensor, const stn_halo *halo, stn_grad_convention convention, stn_tensor **out)
{
    const stn_spec *spec;
    stn_tensor *whole;
    STNI_TRY(stni_check_convention(tensor->context, convention, "halo_pad"));
    STNI_TRY(stni_halo_pad_check(halo, tensor->spec, "halo_pad"));
    STNI_TRY(stni_gradient_spec(tensor->spec, &spec));
    const int64_t replicas = convention == STN_GRAD_PER_RANK ? stni_axes_of_kind(spec, STN_PLACE_REPLICATE) : 0;
    STNI_TRY(stni_move(tensor, spec, &whole));
    stn_status status = stni_halo_pad_take(whole, halo, &(struct stni_local_axes){.sum_axes = replicas}, out);
    stni_tensor_drop(&whole);
    return status;
}

stn_tensor *stn_halo_pad(stn_tensor *tensor, const stn_halo *halo, stn_grad_convention convention)
{
    stn_tensor *out = NULL;
    if (!tensor)
        return NULL;
    stn_context *context = tensor->context;
    if (stni_action_begin_on(tensor, "halo_pad: tensor") != STN_OK)
        return context->error_tensor;
    stn_status status = pad_whole(tensor, halo, convention, &out);
    return stni_action_give(context, status, out);
}

static stn_status check_padded(const stn_tensor *local, const struct stni_widths *w)
{
    const struct stni_layout *got = &local->spec->layout, *to = &w->spec->layout;
    char got_text[STNI_SHAPE_TEXT], wanted_text[STNI_SHAPE_TEXT];
    int64_t wanted[STN_MAX_NDIM];
    stni_widths_shape(w, wanted);
    if (got->mesh)
        return stni_fail(local->context, STN_ERR_ARGUMENT, "halo_unpad_add: local is on a mesh, wanted a local tensor");
    if (got->dtype != to->dtype)
        return stni_fail(local->context, STN_ERR_DTYPE, "halo_unpad_add: local got %s, wanted %s",
                         stn_dtype_name(got->dtype), stn_dtype_name(to->dtype));
    if (got->ndim != to->ndim || memcmp(got->shape, wanted, (size_t)to->ndim * sizeof *wanted) != 0)
        return stni_fail(local->context, STN_ERR_SHAPE,
                         "halo_unpad_add: local got shape %s, wanted this rank's chunk with its margins %s",
                         stni_shape_text(got->ndim, got->shape, got_text),
                         stni_shape_text(to->ndim, wanted, wanted_text));
    return STN_OK;
}

static stn_status unpad_whole(stn_tensor *local, const stn_spec *spec, const stn_halo *halo,
                              stn_grad_convention convention, stn_tensor **out)
{
    stn_context *context = local->context;
    struct stni_widths w;
    struct halo_attrs attrs;
    STNI_TRY(stni_check_convention(context, convention, "halo_unpad_add"));
    STNI_TRY(stni_check_mesh_spec(context, spec, "halo_unpad_add"));
    STNI_TRY(read_widths(halo, spec, "halo_unpad_add", &w));
    STNI_TRY(check_padded(local, &w));
    STNI_TRY(stni_check_pending(local, spec, "halo_unpad_add"));
    const int64_t replicas = convention == STN_GRAD_PER_RANK ? stni_axes_of_kind(spec, STN_PLACE_REPLICATE) : 0;
    keep_attrs(halo, (struct stni_local_axes){.root_axes = replicas}, &attrs);
    return unpad(local, spec, &attrs, out);
}

stn_tensor *stn_halo_unpad_add(stn_tensor *local, const stn_spec *spec, const stn_halo *halo,
                               stn_grad_convention convention)
{
    stn_tensor *out = NULL;
    if (!local)
        return NULL;
    stn_context *context = local->context;
    if (stni_action_begin_on(local, "halo_unpad_add: local") != STN_OK)
        return context->error_tensor;
    stn_status status = unpad_whole(local, spec, halo, convention, &out);
    return stni_action_give(context, status, out);
}
