/* slice_backward: the adjoint of slice, a tensor of zeros with the cotangent at the slice's places. Data stays where
 * it is: along a sharded dim the cut of the whole follows from that of the part. */
#include "ops/shape/slice.h"

#include "core/context/context.h"
#include "core/base/host_alloc.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <inttypes.h>

stn_tensor *stni_slice_backward(stn_tensor *grad, int64_t dim, int64_t start, int64_t step, int64_t size)
{
    struct stni_slice_attrs attrs = {dim, start, 0, step, size};
    return stni_call(STNI_OP_slice_backward, 1, &grad, &attrs);
}

static stn_status read(const stn_op_call *call, struct stni_slice *out)
{
    const struct stni_slice_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    if (in->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got no dims, wanted at least 1");
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, in->ndim, &out->dim));
    out->start = attrs->start, out->step = attrs->step, out->size = attrs->size, out->length = in->shape[out->dim];
    if (out->start < 0 || out->step < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'start' got %" PRId64 " and 'step' %" PRId64 ", wanted at least 0 and 1", out->start,
                           out->step);
    if (out->length > 0 && (out->start >= out->size || (out->size - 1 - out->start) / out->step < out->length - 1))
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'grad' got %" PRId64 " elements along dim %d, wanted fewer in %" PRId64, out->length,
                           out->dim, out->size);
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    struct stni_slice slice;
    STNI_TRY(read(call, &slice));
    *meta = stni_meta_of(in);
    meta->shape[slice.dim] = slice.size;
    return STN_OK;
}

/* Each rank's part begins where its first element belongs. */
static stn_status spread_split(stn_context *context, const struct stni_split *in, const struct stni_slice *slice,
                               const struct stni_split **out)
{
    size_t bytes = ((size_t)in->n_parts + 1) * sizeof(int64_t);
    int64_t *offsets = stni_malloc(bytes);
    if (!offsets)
        return stni_fail_memory(context, "cut of a slice's whole", bytes);
    for (int i = 0; i <= in->n_parts; i++) {
        int64_t before = stni_split_offset(in, i);
        offsets[i] = before == 0 ? 0 : before == in->n ? slice->size : slice->start + before * slice->step;
    }
    offsets[in->n_parts] = slice->size;
    stn_status status = stni_split_explicit(context, slice->size, in->n_levels, in->parts, offsets, out);
    stni_free(offsets);
    return status;
}

/* The balanced cut of the whole, where the slice of that is the part's: most likely what was sliced. */
static stn_status whole_split(stn_context *context, const struct stni_layout *in, const struct stni_slice *slice,
                              const struct stni_split **out)
{
    const struct stni_split *part = in->split[slice->dim];
    struct stni_layout whole = *in, again;
    whole.shape[slice->dim] = slice->size;
    STNI_TRY(stni_split_balanced(context, slice->size, part->n_levels, part->parts, &whole.split[slice->dim]));
    STNI_TRY(stni_slice_layout(context, &whole, slice, &again));
    *out = whole.split[slice->dim];
    return again.split[slice->dim] == part ? STN_OK : spread_split(context, part, slice, out);
}

static stn_status place(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct stni_layout out = *in;
    struct stni_slice slice;
    STNI_TRY(read(call, &slice));
    out.shape[slice.dim] = slice.size;
    if (in->split[slice.dim])
        STNI_TRY(whole_split(call->context, in, &slice, &out.split[slice.dim]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    static const double zero[2];
    struct stni_slice slice;
    struct stni_remap map;
    STNI_TRY(read(call, &slice));
    stni_remap_init(&map, call->in_spec[0]->layout.ndim, call->in_spec[0]->layout.shape);
    map.segment[slice.dim][0].dst = slice.start;
    map.segment[slice.dim][0].dst_step = slice.step;
    return stni_remap_run(call, 1, &map, call->in, call->out[0], 0, zero);
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_slice_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int dim = (int)(attrs->dim < 0 ? attrs->dim + in->ndim : attrs->dim);
    int64_t n = in->shape[dim];
    call->grad_in[0] = stn_slice(call->grad_out[0], dim, attrs->start,
                                 n > 0 ? attrs->start + (n - 1) * attrs->step + 1 : attrs->start, attrs->step);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "grad"}};
static const stn_attr_schema attrs[] = {
    {"dim", STN_ATTR_INT, offsetof(struct stni_slice_attrs, dim), NULL},
    {"start", STN_ATTR_INT, offsetof(struct stni_slice_attrs, start), NULL},
    {"step", STN_ATTR_INT, offsetof(struct stni_slice_attrs, step), NULL},
    {"size", STN_ATTR_INT, offsetof(struct stni_slice_attrs, size), NULL},
};
static const struct stni_slice_attrs attrs_init = {.step = 1};

static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .backward = backward,
    STN_SLOTS(stni_remap_slots),
    STN_KERNELS(stni_remap_kernels),
};

const stn_op_desc stni_op_slice_backward = {
    .size = sizeof(stn_op_desc),
    .name = "slice_backward",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_slice_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
