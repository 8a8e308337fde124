/* expand: a broadcast view; its adjoint is the sum. */
#include "core/tensor/kept.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"
#include "ops/common/sum_to.h"

#include <inttypes.h>
#include <stddef.h>

struct expand_attrs {
    stn_ints shape;
};

static const struct expand_attrs defaults = {.shape = {.n = -1}};

stn_tensor *stn_expand(stn_tensor *input, int ndim, const int64_t *shape)
{
    struct expand_attrs attrs = defaults;
    if (!stni_list_read(input, &(struct stni_list){"expand", "ndim", "shape", 0}, ndim, shape, &attrs.shape))
        return stni_call_error(input);
    return stni_call(STNI_OP_expand, 1, &input, &attrs);
}

static stn_status expand_check(stn_op_call *call)
{
    const stn_ints *shape = &((const struct expand_attrs *)call->attrs)->shape;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *out = &call->out_meta[0];
    const int shift = (int)shape->n - in->ndim;
    char has[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (shape->n < in->ndim)
        return stn_op_fail(call, STN_ERR_SHAPE, "'shape' got %" PRId64 " dims, wanted at least the %d of 'input'",
                           shape->n < 0 ? 0 : shape->n, in->ndim);
    out->dtype = in->dtype;
    out->ndim = (int)shape->n;
    for (int d = 0; d < out->ndim; d++) {
        int64_t from = d < shift ? 1 : in->shape[d - shift], to = shape->v[d];
        if (to == -1 && d >= shift)
            to = from;
        if (to < 0 || (to != from && from != 1))
            return stn_op_fail(call, STN_ERR_SHAPE, "'shape' got %s, which 'input' of shape %s cannot be repeated to",
                               stni_shape_text(out->ndim, shape->v, wanted), stni_shape_text(in->ndim, in->shape, has));
        out->shape[d] = to;
    }
    return STN_OK;
}

static stn_status expand_place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    struct stni_layout in = call->in_spec[0]->layout, out;
    const int shift = meta->ndim - in.ndim, axes = in.mesh ? in.mesh->ndim : 0;
    stni_layout_init(&out, in.mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; a < axes; a++) {
        stn_placement p = in.placement[a];
        out.axis_order[a] = in.axis_order[a];
        if (p.kind == STN_PLACE_SHARD && in.shape[p.dim] != meta->shape[p.dim + shift])
            in.placement[a] = p = stn_replicate();
        if (p.kind == STN_PLACE_SHARD)
            p = stn_shard(p.dim + shift);
        out.placement[a] = p;
    }
    for (int k = 0; k < in.ndim; k++) {
        out.memory_order[k + shift] = (uint8_t)(in.memory_order[k] + shift);
        if (in.shape[k] == meta->shape[k + shift])
            out.split[k + shift] = in.split[k];
        else
            in.split[k] = NULL;
    }
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status expand_run(stn_op_call *call)
{
    const struct stni_layout *in = &call->in[0]->spec->layout, *out = &call->out_spec[0]->layout;
    const int shift = out->ndim - in->ndim;
    int64_t strides[STN_MAX_NDIM];
    for (int d = 0; d < out->ndim; d++)
        strides[d] = d >= shift && in->shape[d - shift] == out->shape[d] ? call->in[0]->strides[d - shift] : 0;
    STNI_TRY(stn_op_alias(call, 0, call->in[0], 0, strides));
    stni_tensor_keep_as(call->out[0], call->in[0]); /* of the same spec: nothing is repeated */
    return STN_OK;
}

static stn_status expand_backward(stn_backward_call *call)
{
    if (call->grad_out[0])
        call->grad_in[0] = stni_sum_to(call->grad_out[0], call->in_spec[0]);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{"input", 0, 0}};

static const stn_attr_schema attrs_schema[] = {
    {"shape", STN_ATTR_INTS, offsetof(struct expand_attrs, shape), NULL},
};

static const stn_op_impl impl = {
    .check = expand_check, .place = expand_place, .run = expand_run, .backward = expand_backward,
};

const stn_op_desc stni_op_expand = {
    .size = sizeof(stn_op_desc),
    .name = "expand",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct expand_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &impl,
    .signature = "input, shape",
};
