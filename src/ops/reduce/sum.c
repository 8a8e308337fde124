/* sum over dims. Its gradient is the cotangent, repeated along them. */
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

stn_tensor *stn_sum(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_sum, "sum", input, n_dims, dims, keepdim);
}

const stn_op_desc stni_op_sum = {STNI_REDUCTION_FIELDS("sum", .op = STNI_REDUCTION_sum)};
