/* transpose: two dims change places. No data moves: placements, cuts and memory order follow their dims, and strides
 * are exchanged. */
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <string.h>

struct transpose_attrs {
    int64_t dim0, dim1; /* may be negative */
};

stn_tensor *stn_transpose(stn_tensor *input, int dim0, int dim1)
{
    struct transpose_attrs attrs = {dim0, dim1};
    return stni_call(STNI_OP_transpose, 1, &input, &attrs);
}

static stn_status wrap(const stn_op_call *call, int *a, int *b)
{
    const struct transpose_attrs *attrs = call->attrs;
    int ndim = call->in_spec[0]->layout.ndim;
    STNI_TRY(stni_dim_wrap(call, "dim0", attrs->dim0, ndim, a));
    return stni_dim_wrap(call, "dim1", attrs->dim1, ndim, b);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_meta *meta = &call->out_meta[0];
    int a, b;
    STNI_TRY(wrap(call, &a, &b));
    *meta = stni_meta_of(in);
    meta->shape[a] = in->shape[b];
    meta->shape[b] = in->shape[a];
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct stni_layout out = *in;
    int a, b;
    STNI_TRY(wrap(call, &a, &b));
    out.shape[a] = in->shape[b];
    out.shape[b] = in->shape[a];
    out.split[a] = in->split[b];
    out.split[b] = in->split[a];
    for (int x = 0; in->mesh && x < in->mesh->ndim; x++)
        if (in->placement[x].kind == STN_PLACE_SHARD && (in->placement[x].dim == a || in->placement[x].dim == b))
            out.placement[x].dim = (int8_t)(a + b - in->placement[x].dim);
    for (int i = 0; i < in->ndim; i++)
        if (in->memory_order[i] == a || in->memory_order[i] == b)
            out.memory_order[i] = (uint8_t)(a + b - in->memory_order[i]);
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    stn_tensor *in = call->in[0];
    int64_t strides[STN_MAX_NDIM];
    int a, b;
    STNI_TRY(wrap(call, &a, &b));
    memcpy(strides, in->strides, sizeof strides);
    strides[a] = in->strides[b];
    strides[b] = in->strides[a];
    STNI_TRY(stn_op_alias(call, 0, in, 0, strides));
    stni_tensor_share(call->out[0], call->in[0]);
    return STN_OK;
}

static stn_status backward(stn_backward_call *call)
{
    call->grad_in[0] = stni_call(STNI_OP_transpose, 1, &call->grad_out[0], call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs[] = {
    {"dim0", STN_ATTR_INT, offsetof(struct transpose_attrs, dim0), NULL},
    {"dim1", STN_ATTR_INT, offsetof(struct transpose_attrs, dim1), NULL},
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, .backward = backward};

const stn_op_desc stni_op_transpose = {
    .size = sizeof(stn_op_desc),
    .name = "transpose",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct transpose_attrs),
    .n_outputs = 1,
    .flags = STN_OP_ALIAS | STN_OP_VIEW,
    .impl = &impl,
    .signature = "input, dim0, dim1",
};
