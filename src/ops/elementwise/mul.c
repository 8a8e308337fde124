/* mul: input * other. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops.h>

#include <stddef.h>

struct mul_attrs {
    stn_number other;
};

stn_tensor *stn_mul(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_mul, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_mul_number(stn_tensor *input, double other)
{
    const struct mul_attrs attrs = {stni_number(other)};
    return stni_call(STNI_OP_mul, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_mul_(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_mul_, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_mul_number_(stn_tensor *input, double other)
{
    const struct mul_attrs attrs = {stni_number(other)};
    return stni_call(STNI_OP_mul_, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

static void mul_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[1] = ((const struct mul_attrs *)call->attrs)->other;
}

static stn_tensor *input_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    const struct mul_attrs *attrs = call->attrs;
    return call->in[1] ? stn_mul(grad, stni_conjugate(call->in[1])) : stn_mul_number(grad, attrs->other.f);
}

static stn_tensor *other_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, stni_conjugate(call->in[0]));
}

static const stn_attr_schema attrs_schema[] = {
    {"other", STN_ATTR_NUMBER, offsetof(struct mul_attrs, other), NULL},
};

static const struct stni_pointwise_rule rule = {
    .op = STNI_POINTWISE_mul, .linear = {1, 2}, .numbers = mul_numbers,
    .derivative = {{input_derivative, STNI_READS_IN(1)}, {other_derivative, STNI_READS_IN(0)}},
};

const stn_op_desc stni_op_mul = {
    .size = sizeof(stn_op_desc), .name = "mul", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct mul_attrs), STNI_POINTWISE(&rule),
};
const stn_op_desc stni_op_mul_ = {
    .size = sizeof(stn_op_desc), .name = "mul_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct mul_attrs), STNI_POINTWISE(&rule), .flags = STN_OP_IN_PLACE,
};
