/* Pointwise ops of one operand that are not rows of unary_list.h: neg, abs, sign, conj. */
#include "core/base/dtype.h"
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"

#include <shardtensor/ops_in_place.h>

stn_tensor *stn_neg(stn_tensor *input)
{
    return stni_call(STNI_OP_neg, 1, &input, NULL);
}

stn_tensor *stn_neg_(stn_tensor *input)
{
    return stni_call(STNI_OP_neg_, 1, &input, NULL);
}

stn_tensor *stn_abs(stn_tensor *input)
{
    return stni_call(STNI_OP_abs, 1, &input, NULL);
}

stn_tensor *stn_abs_(stn_tensor *input)
{
    return stni_call(STNI_OP_abs_, 1, &input, NULL);
}

stn_tensor *stn_sign(stn_tensor *input)
{
    return stni_call(STNI_OP_sign, 1, &input, NULL);
}

stn_tensor *stn_sign_(stn_tensor *input)
{
    return stni_call(STNI_OP_sign_, 1, &input, NULL);
}

stn_tensor *stn_conj(stn_tensor *input)
{
    return stni_call(STNI_OP_conj, 1, &input, NULL);
}

static stn_tensor *neg_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    (void)call;
    return stn_neg(grad);
}

static stn_tensor *conj_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    (void)call;
    return stni_conjugate(grad);
}

/* abs_backward: the cotangent times sign(x), or times x / |x|, 0 at 0. For real inputs sign(x) is piecewise
 * constant, so that nothing flows back to x through it. */

static stn_tensor *abs_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_abs_backward, 2, (stn_tensor *[]){grad, call->in[0]}, NULL);
}

static stn_tensor *abs_backward_by_grad(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_abs_backward, 2, (stn_tensor *[]){grad, stni_conjugate(call->in[1])}, NULL);
}

static stn_tensor *abs_backward_by_input(const stn_backward_call *call, stn_tensor *grad)
{
    if (stni_dtype_is_complex(stn_spec_dtype(call->in_spec[1])))
        return stni_call_fail(grad, STN_ERR_UNSUPPORTED, "abs: of complex numbers it is first-order");
    return NULL;
}

static const stn_input_schema backward_inputs[] = {{.name = "grad"}, {.name = "input"}};

static const struct stni_pointwise_rule neg_rule = {
    .op = STNI_POINTWISE_neg, .dtypes = STNI_FLOATING | STNI_INTEGER | STNI_COMPLEX, .linear = {1},
    .derivative = {{neg_derivative, STNI_READS_NOTHING}},
};
static const struct stni_pointwise_rule abs_rule = {
    .op = STNI_POINTWISE_abs, .result = stni_dtype_real, .compute = stni_dtype_same,
    .derivative = {{abs_derivative, STNI_READS_IN(0)}},
};
static const struct stni_pointwise_rule sign_rule = {
    .op = STNI_POINTWISE_sign, .dtypes = STNI_FLOATING | STNI_INTEGER | STNI_BOOL,
};

const stn_op_desc stni_op_neg = {
    .size = sizeof(stn_op_desc), .name = "neg", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&neg_rule),
};
const stn_op_desc stni_op_neg_ = {
    .size = sizeof(stn_op_desc), .name = "neg_", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&neg_rule),
    .flags = STN_OP_IN_PLACE,
};

const stn_op_desc stni_op_abs = {
    .size = sizeof(stn_op_desc), .name = "abs", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&abs_rule),
};
const stn_op_desc stni_op_abs_ = {
    .size = sizeof(stn_op_desc), .name = "abs_", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&abs_rule),
    .flags = STN_OP_IN_PLACE,
};

const stn_op_desc stni_op_sign = {
    .size = sizeof(stn_op_desc), .name = "sign", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&sign_rule),
};
const stn_op_desc stni_op_sign_ = {
    .size = sizeof(stn_op_desc), .name = "sign_", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&sign_rule),
    .flags = STN_OP_IN_PLACE,
};

static const struct stni_pointwise_rule abs_backward_rule = {
    .op = STNI_POINTWISE_abs_backward, .dtypes = STNI_FLOATING | STNI_COMPLEX, .linear = {1},
    .derivative = {{abs_backward_by_grad, STNI_READS_IN(1)}, {abs_backward_by_input, STNI_READS_NOTHING}},
};
const stn_op_desc stni_op_abs_backward = {
    .size = sizeof(stn_op_desc), .name = "abs_backward", STN_INPUTS(backward_inputs),
    STNI_POINTWISE(&abs_backward_rule), .flags = STN_OP_INTERNAL,
};

static const struct stni_pointwise_rule conj_rule = {
    .op = STNI_POINTWISE_conj, .linear = {1}, .derivative = {{conj_derivative, STNI_READS_NOTHING}},
};
const stn_op_desc stni_op_conj = {
    .size = sizeof(stn_op_desc), .name = "conj", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&conj_rule),
};
