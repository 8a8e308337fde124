/* slice: every step-th element of a range along a dim. No data moves, and memory is shared: along a sharded dim each
 * rank keeps what it has of the range. */
#include "ops/shape/slice.h"

#include "autograd/parts.h"
#include "core/context/context.h"
#include "core/base/clamp.h"
#include "core/base/host_alloc.h"
#include "dispatch/registry.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/placement/splits.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

stn_tensor *stn_slice(stn_tensor *input, int dim, int64_t start, int64_t end, int64_t step)
{
    struct stni_slice_attrs attrs = {dim, start, end, step, 0};
    return stni_call(STNI_OP_slice, 1, &input, &attrs);
}

/* A place in 0 … n, counted from the end where it is negative. */
static int64_t clip(int64_t at, int64_t n)
{
    return stni_clamp(at < 0 ? at + n : at, 0, n);
}

stn_status stni_slice_read(const stn_op_call *call, const struct stni_slice_attrs *attrs, int ndim,
                           const int64_t *shape, struct stni_slice *out)
{
    if (ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got no dims, wanted at least 1");
    if (attrs->step < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'step' got %" PRId64 ", wanted at least 1", attrs->step);
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, ndim, &out->dim));
    out->size = shape[out->dim];
    out->step = attrs->step;
    out->start = clip(attrs->start, out->size);
    int64_t extent = clip(attrs->end, out->size) - out->start;
    out->length = extent <= 0 ? 0 : 1 + (extent - 1) / attrs->step;
    if (out->length < 2) /* no second element: any step does, and a large one would overflow a stride */
        out->step = 1;
    return STN_OK;
}

/* How many elements of the slice stand before element `at` of the whole. */
static int64_t count_before(const struct stni_slice *slice, int64_t at)
{
    int64_t n = at <= slice->start ? 0 : 1 + (at - slice->start - 1) / slice->step;
    return n < slice->length ? n : slice->length;
}

static stn_status slice_split(stn_context *context, const struct stni_split *in, const struct stni_slice *slice,
                              const struct stni_split **out)
{
    size_t bytes = ((size_t)in->n_parts + 1) * sizeof(int64_t);
    if (slice->length == slice->size) {
        *out = in;
        return STN_OK;
    }
    int64_t *offsets = stni_malloc(bytes);
    if (!offsets)
        return stni_fail_memory(context, "cut of a slice", bytes);
    for (int i = 0; i <= in->n_parts; i++)
        offsets[i] = count_before(slice, stni_split_offset(in, i));
    stn_status status = stni_split_explicit(context, slice->length, in->n_levels, in->parts, offsets, out);
    stni_free(offsets);
    return status;
}

stn_status stni_slice_layout(stn_context *context, const struct stni_layout *in, const struct stni_slice *slice,
                             struct stni_layout *out)
{
    int d = slice->dim;
    *out = *in;
    out->shape[d] = slice->length;
    return in->split[d] ? slice_split(context, in->split[d], slice, &out->split[d]) : STN_OK;
}

int64_t stni_slice_first(const stn_spec *spec, const stn_spec *part, const struct stni_slice *slice,
                         const int64_t *strides)
{
    int d = slice->dim;
    return (slice->start + part->local_offset[d] * slice->step - spec->local_offset[d]) * strides[d];
}

static stn_status read(const stn_op_call *call, struct stni_slice *out)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    return stni_slice_read(call, call->attrs, in->ndim, in->shape, out);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    struct stni_slice slice;
    STNI_TRY(read(call, &slice));
    *meta = stni_meta_of(in);
    meta->shape[slice.dim] = slice.length;
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_slice slice;
    struct stni_layout out;
    STNI_TRY(read(call, &slice));
    STNI_TRY(stni_slice_layout(call->context, &call->in_spec[0]->layout, &slice, &out));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    stn_tensor *in = call->in[0];
    struct stni_slice slice;
    int64_t strides[STN_MAX_NDIM];
    STNI_TRY(read(call, &slice));
    memcpy(strides, in->strides, sizeof strides);
    strides[slice.dim] *= slice.step;
    if (call->out_spec[0]->local_numel == 0) /* an empty chunk keeps no memory */
        STNI_TRY(stni_tensor_create(call->context, call->out_spec[0], &call->out[0]));
    else
        STNI_TRY(
            stn_op_alias(call, 0, in, stni_slice_first(in->spec, call->out_spec[0], &slice, in->strides), strides));
    stni_tensor_share(call->out[0], in);
    return STN_OK;
}

/* The whole as a cotangent of the slice lies, and along the slice's dim as the input: where the cotangent lies as the
 * slice did, nothing has to move. */
static stn_status whole_spec(const stn_backward_call *call, const struct stni_slice *slice, const stn_spec **out)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct stni_layout whole = call->grad_out[0]->spec->layout;
    whole.shape[slice->dim] = slice->size;
    whole.split[slice->dim] = NULL;
    stni_splits_take(&whole, slice->dim, in, slice->dim, 1);
    memcpy(whole.memory_order, in->memory_order, sizeof whole.memory_order);
    STNI_TRY(stni_layout_balance(call->context, &whole));
    return stni_spec_intern(call->context, &whole, out);
}

/* While no graph is made, slices of a tensor write into one cotangent of it, by a slice of that: a handler's need not
 * share its memory. */
static stn_status backward(stn_backward_call *call)
{
    stn_op_call forward = {.context = call->context, .op = call->op, .attrs = call->attrs, .in_spec = call->in_spec};
    struct stni_slice slice;
    STNI_TRY(read(&forward, &slice));
    if (stn_grad_enabled(call->context) || stni_registry_has_handler(call->op)) {
        call->grad_in[0] = stni_slice_backward(call->grad_out[0], slice.dim, slice.start, slice.step, slice.size);
        return stn_context_status(call->context);
    }
    struct stni_cotangent_part part = {
        .dim = slice.dim, .start = slice.start, .step = slice.step, .length = slice.length};
    STNI_TRY(whole_spec(call, &slice, &part.whole));
    return stni_cotangent_add_part(call, &part, call->grad_out[0]);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs[] = {
    {"dim", STN_ATTR_INT, offsetof(struct stni_slice_attrs, dim), NULL},
    {"start", STN_ATTR_INT, offsetof(struct stni_slice_attrs, start), NULL},
    {"end", STN_ATTR_INT, offsetof(struct stni_slice_attrs, end), NULL},
    {"step", STN_ATTR_INT, offsetof(struct stni_slice_attrs, step), NULL},
};
static const struct stni_slice_attrs attrs_init = {.end = INT64_MAX, .step = 1};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, .backward = backward};

const stn_op_desc stni_op_slice = {
    .size = sizeof(stn_op_desc),
    .name = "slice",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_slice_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &impl,
};
