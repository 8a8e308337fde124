/* view, reshape: the same elements, in row-major order, under another shape.
 *
 * Data stays on its rank wherever a cut of the new dims can describe where it is, and then the result shares memory
 * where strides can describe it. view_layout.h finds the cuts, view_exchange.h moves the rows that straddle. */
#include "ops/shape/view_layout.h"

#include "ops/shape/view_exchange.h"
#include "core/tensor/kept.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

struct view_attrs {
    stn_ints shape;
};

static stn_tensor *call_op(enum stni_op_index op, stn_tensor *input, int ndim, const int64_t *shape)
{
    struct view_attrs attrs = {0};
    const struct stni_list list = {stni_op_table[op]->name, "ndim", "shape", 0};
    return stni_list_read(input, &list, ndim, shape, &attrs.shape) ? stni_call(op, 1, &input, &attrs)
                                                                   : stni_call_error(input);
}

stn_tensor *stn_view(stn_tensor *input, int ndim, const int64_t *shape)
{
    return call_op(STNI_OP_view, input, ndim, shape);
}

stn_tensor *stn_reshape(stn_tensor *input, int ndim, const int64_t *shape)
{
    return call_op(STNI_OP_reshape, input, ndim, shape);
}

/* Replaces -1 by what is missing, where that is a whole number; other shapes are left to the comparison of element
 * counts. */
static stn_status infer(stn_op_call *call, int64_t numel, stn_meta *meta)
{
    int missing = -1;
    int64_t known = 1;
    for (int d = 0; d < meta->ndim; d++) {
        if (meta->shape[d] < -1 || (meta->shape[d] == -1 && missing >= 0))
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'shape' got %" PRId64 " at %d, wanted sizes and at most one -1",
                               meta->shape[d], d);
        if (meta->shape[d] == -1)
            missing = d;
        else if (__builtin_mul_overflow(known, meta->shape[d], &known))
            known = -1;
    }
    if (missing >= 0 && known > 0 && numel % known == 0) {
        meta->shape[missing] = numel / known;
        known = numel;
    } else if (missing >= 0) {
        known = -1;
    }
    if (known == numel)
        return STN_OK;
    char got[STNI_SHAPE_TEXT], from[STNI_SHAPE_TEXT];
    const struct stni_layout *in = &call->in_spec[0]->layout;
    return stn_op_fail(call, STN_ERR_SHAPE, "'shape' got %s, wanted as many elements as input %s has: %" PRId64,
                       stni_shape_text(meta->ndim, meta->shape, got), stni_shape_text(in->ndim, in->shape, from),
                       numel);
}

static stn_status check(stn_op_call *call)
{
    const struct view_attrs *attrs = call->attrs;
    const stn_spec *in = call->in_spec[0];
    stn_meta *meta = &call->out_meta[0];
    if (attrs->shape.n < 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'shape' got nothing, wanted up to %d sizes", STN_MAX_NDIM);
    meta->dtype = in->layout.dtype;
    meta->ndim = (int)attrs->shape.n;
    memcpy(meta->shape, attrs->shape.v, sizeof meta->shape);
    return infer(call, in->numel, meta);
}

/* The note: mesh axes along which data moves, KEEPS_ORDER, and SHARES: strides serve on every rank, whatever those
 * of its chunk are. */
static const uint64_t KEEPS_ORDER = UINT64_C(1) << 32, SHARES = UINT64_C(1) << 33;

/* Whether shapes differ in dims of size 1 alone. */
static int is_same_but_for_ones(const struct stni_layout *in, const stn_meta *out)
{
    int d = 0, e = 0;
    for (;;) {
        while (d < in->ndim && in->shape[d] == 1)
            d++;
        while (e < out->ndim && out->shape[e] == 1)
            e++;
        if (d == in->ndim || e == out->ndim)
            return d == in->ndim && e == out->ndim;
        if (in->shape[d++] != out->shape[e++])
            return 0;
    }
}

static stn_status place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    struct stni_view_place place;
    STNI_TRY(stni_view_place(call->in_spec[0], meta->ndim, meta->shape, &place));
    call->want[0] = place.want;
    call->out_spec[0] = place.out;
    const int shares =
        !place.moves && place.want == call->in_spec[0] && is_same_but_for_ones(&place.want->layout, meta);
    call->note = place.moves | (place.keeps_order ? KEEPS_ORDER : 0) | (shares ? SHARES : 0);
    return STN_OK;
}

/* Strides may still serve where the chunk is not dense; else it is copied, or moved. */
static stn_status run_slowly(stn_op_call *call, uint32_t moves)
{
    stn_tensor *in = call->in[0];
    const stn_spec *spec = call->out_spec[0];
    struct stni_view_groups groups;
    int64_t strides[STN_MAX_NDIM];
    stni_view_groups_make(in->spec->layout.ndim, in->spec->layout.shape, spec->layout.ndim, spec->layout.shape,
                          &groups);
    if (!moves && stni_view_strides(&groups, in->spec->local_shape, in->strides, spec->local_shape, strides))
        return stn_op_alias(call, 0, in, 0, strides);
    STNI_TRY(stni_tensor_create(call->context, spec, &call->out[0]));
    return moves ? stni_view_exchange(in, call->out[0], &groups, moves) : stni_view_copy(in, call->out[0], &groups);
}

static stn_status make(stn_op_call *call)
{
    stn_tensor *in = call->in[0];
    const stn_spec *spec = call->out_spec[0];
    if ((call->note & ~SHARES) == KEEPS_ORDER && stni_tensor_is_dense(in))
        return stn_op_alias(call, 0, in, 0, spec->strides);
    if (spec->numel == 0 || (spec->layout.mesh && !spec->layout.mesh->member))
        return stni_tensor_create(call->context, spec, &call->out[0]);
    return run_slowly(call, (uint32_t)call->note);
}

static stn_status run(stn_op_call *call)
{
    STNI_TRY(make(call));
    if (call->note & SHARES)
        stni_tensor_share(call->out[0], call->in[0]);
    stni_tensor_keep_as(call->out[0], call->in[0]); /* of the same spec: the same dims */
    return STN_OK;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    call->grad_in[0] = stn_view(call->grad_out[0], in->ndim, in->shape);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs[] = {{"shape", STN_ATTR_INTS, offsetof(struct view_attrs, shape), NULL}};
static const struct view_attrs attrs_init = {{.n = -1}};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, .backward = backward};

const stn_op_desc stni_op_view = {
    .size = sizeof(stn_op_desc),
    .name = "view",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct view_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &impl,
    .signature = "input, shape",
};

const stn_op_desc stni_op_reshape = {
    .size = sizeof(stn_op_desc),
    .name = "reshape",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct view_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &impl,
    .signature = "input, shape",
};
