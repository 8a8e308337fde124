/* mean over dims: each rank divides its sums by the number of elements of the whole, so that what is pending is the
 * sum of these. mean_wide is the same, of 16-bit floats in f32, for what is computed further of it. */
#include "ops/cpu/widen.h"
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

stn_tensor *stn_mean(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_mean, "mean", input, n_dims, dims, keepdim);
}

/* The cotangent of mean_wide is wider than the input. */
static stn_tensor *derivative(const stn_backward_call *call, stn_tensor *grad, uint32_t reduced)
{
    const stn_spec *in = call->in_spec[0];
    grad = stn_mul_number(grad, 1.0 / (double)stni_reduction_count(in, reduced));
    if (!stn_tensor_is_error(grad) && stn_tensor_dtype(grad) != in->layout.dtype)
        grad = stn_cast(grad, in->layout.dtype);
    return stni_reduction_expand(grad, in, reduced, ((const struct stni_reduction_attrs *)call->attrs)->keepdim);
}

enum {
    DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 | 1 << STN_DTYPE_C64 |
             1 << STN_DTYPE_C128
};

static const struct stni_reduction_rule rule = {
    .op = STNI_REDUCTION_sum, .dtypes = DTYPES, .wanted = "a floating or complex dtype", .pending = STN_SUM,
    .divides = 1, .derivative = derivative,
};

static const struct stni_reduction_rule wide_rule = {
    .op = STNI_REDUCTION_sum, .dtypes = DTYPES, .wanted = "a floating or complex dtype", .result = stni_wide_dtype,
    .pending = STN_SUM, .divides = 1, .derivative = derivative,
};

const stn_op_desc stni_op_mean = {
    .size = sizeof(stn_op_desc), .name = "mean", STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&rule),
};

const stn_op_desc stni_op_mean_wide = {
    .size = sizeof(stn_op_desc), .name = "mean_wide",
    STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs),
    STNI_REDUCTION(&wide_rule), .flags = STN_OP_INTERNAL,
};
