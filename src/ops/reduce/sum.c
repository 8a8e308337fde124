/* sum over dims, whose gradient is the cotangent, repeated along them; count_nonzero: of how many elements are not
 * 0. */
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

stn_tensor *stn_sum(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_sum, "sum", input, n_dims, dims, keepdim);
}

stn_tensor *stn_count_nonzero(stn_tensor *input, int n_dims, const int *dims)
{
    return stni_reduction_call(STNI_OP_count_nonzero, "count_nonzero", input, n_dims, dims, 0);
}

static stn_dtype result(stn_dtype in)
{
    return stn_dtype_is_differentiable(in) ? in : STN_DTYPE_I64;
}

static stn_dtype number(stn_dtype in)
{
    (void)in;
    return STN_DTYPE_I64;
}

static stn_tensor *derivative(const stn_backward_call *call, stn_tensor *grad, uint32_t reduced)
{
    return stni_reduction_expand(grad, call->in_spec[0], reduced,
                                 ((const struct stni_reduction_attrs *)call->attrs)->keepdim);
}

static const struct stni_reduction_rule sum_rule = {
    .op = STNI_REDUCTION_sum, .result = result, .pending = STN_SUM, .derivative = derivative,
};
static const struct stni_reduction_rule count_rule = {
    .op = STNI_REDUCTION_nonzero, .result = number, .pending = STN_SUM, .counts = 1,
};
static const stn_attr_schema count_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct stni_reduction_attrs, dim), NULL}};

const stn_op_desc stni_op_sum = {
    .size = sizeof(stn_op_desc), .name = "sum", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&sum_rule),
};

const stn_op_desc stni_op_count_nonzero = {
    .size = sizeof(stn_op_desc), .name = "count_nonzero", STN_ATTRS(count_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&count_rule),
};
