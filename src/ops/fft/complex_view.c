/* view_as_real, view_as_complex: complex numbers as pairs of real ones in a last dim, on the same memory. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/placement/unshard.h"

#include <shardtensor/ops.h>

#include <string.h>

stn_tensor *stn_view_as_real(stn_tensor *input)
{
    return stni_call(STNI_OP_view_as_real, 1, &input, NULL);
}

stn_tensor *stn_view_as_complex(stn_tensor *input)
{
    return stni_call(STNI_OP_view_as_complex, 1, &input, NULL);
}

static stn_status real_check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *out = &call->out_meta[0];
    if (!stni_dtype_is_complex(in->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a complex dtype", stn_dtype_name(in->dtype));
    if (in->ndim == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted at most %d", in->ndim, STN_MAX_NDIM - 1);
    out->dtype = in->dtype == STN_DTYPE_C128 ? STN_DTYPE_F64 : STN_DTYPE_F32;
    out->ndim = in->ndim + 1;
    memcpy(out->shape, in->shape, sizeof in->shape);
    out->shape[in->ndim] = 2;
    return STN_OK;
}

static stn_status complex_check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *out = &call->out_meta[0];
    char text[STNI_SHAPE_TEXT];
    if (in->dtype != STN_DTYPE_F32 && in->dtype != STN_DTYPE_F64)
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted f32 or f64", stn_dtype_name(in->dtype));
    if (in->ndim == 0 || in->shape[in->ndim - 1] != 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted a last dim of 2",
                           stni_shape_text(in->ndim, in->shape, text));
    out->dtype = in->dtype == STN_DTYPE_F64 ? STN_DTYPE_C128 : STN_DTYPE_C64;
    out->ndim = in->ndim - 1;
    memcpy(out->shape, in->shape, sizeof in->shape);
    return STN_OK;
}

/* The layout of complex numbers from that of pairs whose last dim is whole, or back. */
static stn_status place_result(stn_op_call *call, const struct stni_layout *from)
{
    const stn_meta *meta = &call->out_meta[0];
    struct stni_layout out;
    int n = 0;
    stni_layout_init(&out, from->mesh, meta->dtype, meta->ndim, meta->shape);
    memcpy(out.placement, from->placement, sizeof out.placement);
    memcpy(out.axis_order, from->axis_order, sizeof out.axis_order);
    for (int k = 0; k < from->ndim; k++)
        if (from->memory_order[k] < meta->ndim)
            out.memory_order[n++] = from->memory_order[k];
    for (int d = 0; d < from->ndim && d < meta->ndim; d++)
        out.split[d] = from->split[d];
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

/* Sums of pairs are pairs of sums: those stay pending, here and below. */
static stn_status real_place(stn_op_call *call)
{
    struct stni_layout in = call->in_spec[0]->layout;
    stni_layout_reduce(&in, 1u << STN_SUM);
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return place_result(call, &call->want[0]->layout);
}

/* Pairs together on one rank, and side by side in memory. */
static stn_status complex_place(stn_op_call *call)
{
    struct stni_layout in = call->in_spec[0]->layout;
    const int last = in.ndim - 1;
    int n = 0;
    stni_layout_reduce(&in, 1u << STN_SUM);
    STNI_TRY(stni_layout_unshard(call->context, &in, 1u << last));
    for (int k = 0; k < in.ndim; k++)
        if (in.memory_order[k] != last)
            in.memory_order[n++] = in.memory_order[k];
    in.memory_order[n] = (uint8_t)last;
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return place_result(call, &call->want[0]->layout);
}

static int has_no_data(const stn_spec *spec)
{
    return spec->numel == 0 || (spec->layout.mesh && !spec->layout.mesh->member);
}

static stn_status real_run(stn_op_call *call)
{
    const stn_tensor *in = call->in[0];
    const int ndim = in->spec->layout.ndim;
    int64_t strides[STN_MAX_NDIM];
    if (has_no_data(in->spec))
        return stni_tensor_create(call->context, call->out_spec[0], &call->out[0]);
    for (int d = 0; d < ndim; d++)
        strides[d] = 2 * in->strides[d];
    strides[ndim] = 1;
    return stn_op_alias(call, 0, call->in[0], 0, strides);
}

/* Whether the pairs lie as complex numbers do. */
static int lies_in_pairs(const stn_tensor *t)
{
    const int last = t->spec->layout.ndim - 1;
    int fits = t->strides[last] == 1 && (uintptr_t)t->data % (2 * stn_dtype_size(t->spec->layout.dtype)) == 0;
    for (int d = 0; d < last; d++)
        fits = fits && t->strides[d] % 2 == 0;
    return fits;
}

static stn_status complex_run(stn_op_call *call)
{
    const stn_spec *spec = call->in[0]->spec;
    int64_t strides[STN_MAX_NDIM];
    stn_tensor *pairs;
    if (has_no_data(spec))
        return stni_tensor_create(call->context, call->out_spec[0], &call->out[0]);
    if (spec->local_numel == 0 || lies_in_pairs(call->in[0]))
        pairs = stn_tensor_retain(call->in[0]);
    else
        STNI_TRY(stni_tensor_dense(call->in[0], &pairs));
    for (int d = 0; d < spec->layout.ndim - 1; d++)
        strides[d] = pairs->strides[d] / 2;
    stn_status status = stn_op_alias(call, 0, pairs, 0, strides);
    stni_tensor_drop(&pairs);
    return status;
}

static stn_status real_backward(stn_backward_call *call)
{
    call->grad_in[0] = stn_view_as_complex(call->grad_out[0]);
    return stn_context_status(call->context);
}

static stn_status complex_backward(stn_backward_call *call)
{
    call->grad_in[0] = stn_view_as_real(call->grad_out[0]);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};

static const stn_op_impl real_impl = {
    .check = real_check, .place = real_place, .run = real_run, .backward = real_backward,
};
static const stn_op_impl complex_impl = {
    .check = complex_check, .place = complex_place, .run = complex_run, .backward = complex_backward,
};

const stn_op_desc stni_op_view_as_real = {
    .size = sizeof(stn_op_desc), .name = "view_as_real", STN_INPUTS(inputs), .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW, .impl = &real_impl,
};

const stn_op_desc stni_op_view_as_complex = {
    .size = sizeof(stn_op_desc), .name = "view_as_complex", STN_INPUTS(inputs), .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW, .impl = &complex_impl,
};
