/* Pointwise ops of one operand. */
#include "core/dtype.h"
#include "ops/elementwise/pointwise.h"
#include "ops/util/call.h"

#include <shardtensor/ops.h>

/* conj: re(x) - i im(x). */

stn_tensor *stn_conj(stn_tensor *input)
{
    return stni_call(STNI_OP_conj, 1, &input, NULL);
}

static stn_tensor *conj_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    (void)call;
    return stni_dtype_is_complex(stn_tensor_dtype(grad)) ? stn_conj(grad) : grad;
}

const stn_op_desc stni_op_conj = {
    STNI_UNARY_INPUTS,
    STNI_POINTWISE_FIELDS("conj", .op = STNI_POINTWISE_conj, .linear = {1}, .derivative = {{conj_derivative, STNI_READS_NOTHING}}),
};
