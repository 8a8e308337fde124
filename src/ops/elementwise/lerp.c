/* lerp: input + weight * (end - input), in place too, as a running mean is updated. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_pointwise.h>

#include <stddef.h>

struct lerp_attrs {
    stn_number weight;
};

static stn_tensor *call_lerp(enum stni_op_index op, stn_tensor *input, stn_tensor *end, stn_tensor *weight)
{
    return stni_call(op, 3, (stn_tensor *[]){input, end, weight}, NULL);
}

static stn_tensor *call_lerp_number(enum stni_op_index op, stn_tensor *input, stn_tensor *end, double weight)
{
    const struct lerp_attrs attrs = {stni_number(weight)};
    return stni_call(op, 3, (stn_tensor *[]){input, end, NULL}, &attrs);
}

stn_tensor *stn_lerp(stn_tensor *input, stn_tensor *end, stn_tensor *weight)
{
    return call_lerp(STNI_OP_lerp, input, end, weight);
}

stn_tensor *stn_lerp_number(stn_tensor *input, stn_tensor *end, double weight)
{
    return call_lerp_number(STNI_OP_lerp, input, end, weight);
}

stn_tensor *stn_lerp_(stn_tensor *input, stn_tensor *end, stn_tensor *weight)
{
    return call_lerp(STNI_OP_lerp_, input, end, weight);
}

stn_tensor *stn_lerp_number_(stn_tensor *input, stn_tensor *end, double weight)
{
    return call_lerp_number(STNI_OP_lerp_, input, end, weight);
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[2] = ((const struct lerp_attrs *)call->attrs)->weight;
}

static stn_tensor *times_weight(const stn_backward_call *call, stn_tensor *grad)
{
    if (call->in[2])
        return stn_mul(grad, stni_conjugate(call->in[2]));
    return stn_mul_number(grad, ((const struct lerp_attrs *)call->attrs)->weight.f);
}

static stn_tensor *input_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    if (call->in[2])
        return stn_sub(grad, times_weight(call, grad));
    return stn_mul_number(grad, 1 - ((const struct lerp_attrs *)call->attrs)->weight.f);
}

/* The difference of narrow integers may be none of theirs. */
static stn_tensor *weight_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *end = stn_cast(call->in[1], stn_tensor_dtype(grad));
    return stn_mul(grad, stni_conjugate(stn_sub(end, call->in[0])));
}

static const stn_input_schema inputs[] = {{"input", 0, 0}, {"end", 0, 0}, {"weight", 1, 0}};
static const stn_attr_schema attrs_schema[] = {{"weight", STN_ATTR_NUMBER, offsetof(struct lerp_attrs, weight), NULL}};

static const struct stni_pointwise_rule rule = {
    .op = STNI_POINTWISE_lerp, .dtypes = STNI_FLOATING | STNI_COMPLEX, .linear = {3}, .numbers = read_numbers,
    .derivative = {{input_derivative, STNI_READS_IN(2)}, {times_weight, STNI_READS_IN(2)},
                   {weight_derivative, STNI_READS_IN(0) | STNI_READS_IN(1)}},
};

const stn_op_desc stni_op_lerp = {
    .size = sizeof(stn_op_desc), .name = "lerp", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct lerp_attrs),
    STNI_POINTWISE(&rule),
};
const stn_op_desc stni_op_lerp_ = {
    .size = sizeof(stn_op_desc), .name = "lerp_", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct lerp_attrs),
    STNI_POINTWISE(&rule), .flags = STN_OP_IN_PLACE,
};
