/* mean over dims: each rank divides its sums by the number of elements of the whole, so that what is pending is the sum of these. */
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

stn_tensor *stn_mean(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_mean, "mean", input, n_dims, dims, keepdim);
}

static stn_tensor *derivative(stn_tensor *grad, int64_t count)
{
    return stn_mul_number(grad, 1.0 / (double)count);
}

const stn_op_desc stni_op_mean = {
    STNI_REDUCTION_FIELDS("mean", .op = STNI_REDUCTION_sum, .differentiable_only = 1, .divides = 1, .derivative = derivative),
};
