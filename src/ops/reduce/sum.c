/* sum over dims, whose gradient is the cotangent, repeated along them; count_nonzero: of how many elements are not 0. */
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
    return stni_reduction_expand(grad, call->in_spec[0], reduced, ((const struct stni_reduction_attrs *)call->attrs)->keepdim);
}

const stn_op_desc stni_op_sum = {
    STNI_REDUCTION_FIELDS("sum", .op = STNI_REDUCTION_sum, .result = result, .pending = STN_SUM, .derivative = derivative),
};

const stn_op_desc stni_op_count_nonzero = {
    STNI_REDUCTION_OF_FIELDS("count_nonzero", 1 /* no keepdim */, .op = STNI_REDUCTION_nonzero, .result = number, .pending = STN_SUM, .counts = 1),
};
