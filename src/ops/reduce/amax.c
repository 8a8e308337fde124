/* amax, amin: the largest and the smallest element; any, all: whether one is, or each, other than 0. */
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

stn_tensor *stn_amax(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_amax, "amax", input, n_dims, dims, keepdim);
}

stn_tensor *stn_amin(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_amin, "amin", input, n_dims, dims, keepdim);
}

stn_tensor *stn_any(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_any, "any", input, n_dims, dims, keepdim);
}

stn_tensor *stn_all(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_all, "all", input, n_dims, dims, keepdim);
}

/* The cotangent goes to the elements that are the result, in equal parts. */
static stn_tensor *derivative(const stn_backward_call *call, stn_tensor *grad, uint32_t reduced)
{
    const stn_spec *in = call->in_spec[0];
    const int64_t keepdim = ((const struct stni_reduction_attrs *)call->attrs)->keepdim;
    int dims[STN_MAX_NDIM], n = 0;
    for (int d = 0; d < in->layout.ndim; d++)
        if (reduced >> d & 1)
            dims[n++] = d;
    stn_tensor *chosen = stn_eq(call->in[0], stni_reduction_expand(call->out[0], in, reduced, keepdim));
    grad = stn_div(grad, stn_sum(chosen, n, dims, (int)keepdim));
    return stn_mul(chosen, stni_reduction_expand(grad, in, reduced, keepdim));
}

static stn_dtype truth(stn_dtype in)
{
    (void)in;
    return STN_DTYPE_BOOL;
}

enum { ORDERED = (1 << STN_DTYPE_COUNT) - 1 - (1 << STN_DTYPE_C64) - (1 << STN_DTYPE_C128) };

static const struct stni_reduction_rule amax_rule = {
    .op = STNI_REDUCTION_amax, .dtypes = ORDERED, .wanted = "a dtype with an order", .pending = STN_MAX,
    .needs_elements = 1, .derivative = derivative, .reads = UINT64_C(1) << 32 | 1,
};
static const struct stni_reduction_rule amin_rule = {
    .op = STNI_REDUCTION_amin, .dtypes = ORDERED, .wanted = "a dtype with an order", .pending = STN_MIN,
    .needs_elements = 1, .derivative = derivative, .reads = UINT64_C(1) << 32 | 1,
};
static const struct stni_reduction_rule any_rule = {.op = STNI_REDUCTION_any, .result = truth, .pending = STN_MAX};
static const struct stni_reduction_rule all_rule = {.op = STNI_REDUCTION_all, .result = truth, .pending = STN_MIN};

const stn_op_desc stni_op_amax = {
    .size = sizeof(stn_op_desc), .name = "amax", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&amax_rule),
};

const stn_op_desc stni_op_amin = {
    .size = sizeof(stn_op_desc), .name = "amin", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&amin_rule),
};

const stn_op_desc stni_op_any = {
    .size = sizeof(stn_op_desc), .name = "any", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&any_rule),
};

const stn_op_desc stni_op_all = {
    .size = sizeof(stn_op_desc), .name = "all", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&all_rule),
};
