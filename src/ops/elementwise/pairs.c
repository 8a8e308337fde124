/* Functions of two operands: logaddexp, xlogy, copysign. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_in_place.h>

#include <stddef.h>

struct pair_attrs {
    stn_number other;
};

static stn_tensor *call_pair(enum stni_op_index op, stn_tensor *input, stn_tensor *other)
{
    return stni_call(op, 2, (stn_tensor *[]){input, other}, NULL);
}

static stn_tensor *call_number(enum stni_op_index op, stn_tensor *input, double other)
{
    const struct pair_attrs attrs = {stni_number(other)};
    return stni_call(op, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_logaddexp(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_logaddexp, input, other);
}

stn_tensor *stn_xlogy(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_xlogy, input, other);
}

stn_tensor *stn_xlogy_number(stn_tensor *input, double other)
{
    return call_number(STNI_OP_xlogy, input, other);
}

stn_tensor *stn_xlogy_(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_xlogy_, input, other);
}

stn_tensor *stn_xlogy_number_(stn_tensor *input, double other)
{
    return call_number(STNI_OP_xlogy_, input, other);
}

stn_tensor *stn_copysign(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_copysign, input, other);
}

stn_tensor *stn_copysign_number(stn_tensor *input, double other)
{
    return call_number(STNI_OP_copysign, input, other);
}

stn_tensor *stn_copysign_(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_copysign_, input, other);
}

stn_tensor *stn_copysign_number_(stn_tensor *input, double other)
{
    return call_number(STNI_OP_copysign_, input, other);
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[1] = ((const struct pair_attrs *)call->attrs)->other;
}

/* Derivatives */

enum { BOTH = STNI_READS_IN(0) | STNI_READS_IN(1) };

/* e^a / (e^a + e^b); of two equal infinities NaN, as in PyTorch. */
static stn_tensor *share(stn_tensor *grad, stn_tensor *a, stn_tensor *b)
{
    return stn_mul(grad, stn_sigmoid(stn_sub(a, b)));
}

static stn_tensor *logaddexp_by_input(const stn_backward_call *call, stn_tensor *grad)
{
    return share(grad, call->in[0], call->in[1]);
}

static stn_tensor *logaddexp_by_other(const stn_backward_call *call, stn_tensor *grad)
{
    return share(grad, call->in[1], call->in[0]);
}

/* log y, but 0 where x is 0 and the logarithm infinite or NaN; a cotangent of 0 stays 0. */
static stn_tensor *xlogy_by_input(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *x = call->in[0], *y = call->in[1];
    stn_tensor *product = stni_call(STNI_OP_xlogy, 2, (stn_tensor *[]){grad, y}, call->attrs);
    if (y)
        return stn_masked_fill(product, stn_logical_and(stn_eq_number(x, 0), stn_le_number(y, 0)), 0);
    const int has_logarithm = !(((const struct pair_attrs *)call->attrs)->other.f <= 0);
    return has_logarithm ? product : stn_masked_fill(product, stn_eq_number(x, 0), 0);
}

static stn_tensor *xlogy_by_other(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_div(stn_mul(grad, call->in[0]), call->in[1]);
}

/* The sign of the result times that of the operand: piecewise constant. */
static stn_tensor *copysign_by_input(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_copysign_backward, 3, (stn_tensor *[]){grad, call->in[0], call->out[0]}, NULL);
}

static stn_tensor *copysign_backward_by_grad(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_copysign_backward, 3, (stn_tensor *[]){grad, call->in[1], call->in[2]}, NULL);
}

/* Descriptors */

static const stn_input_schema pair[] = {{"input", 0, 0}, {"other", 0, 0}},
                              backward_inputs[] = {{"grad", 0, 0}, {"input", 0, 0}, {"output", 0, 0}};
static const stn_attr_schema attrs_schema[] = {
    {"other", STN_ATTR_NUMBER, offsetof(struct pair_attrs, other), NULL}};

static const struct stni_pointwise_rule logaddexp_rule = {
    .op = STNI_POINTWISE_logaddexp, .dtypes = STNI_FLOATING,
    .derivative = {{logaddexp_by_input, BOTH}, {logaddexp_by_other, BOTH}},
};
const stn_op_desc stni_op_logaddexp = {
    .size = sizeof(stn_op_desc), .name = "logaddexp", STN_INPUTS(pair), STNI_POINTWISE(&logaddexp_rule),
};

static const struct stni_pointwise_rule xlogy_rule = {
    .op = STNI_POINTWISE_xlogy, .result = stni_dtype_floating, .dtypes = STNI_FLOATING, .numbers = read_numbers,
    .derivative = {{xlogy_by_input, BOTH}, {xlogy_by_other, BOTH}},
};
const stn_op_desc stni_op_xlogy = {
    .size = sizeof(stn_op_desc), .name = "xlogy", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct pair_attrs), STNI_POINTWISE(&xlogy_rule),
};
const stn_op_desc stni_op_xlogy_ = {
    .size = sizeof(stn_op_desc), .name = "xlogy_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct pair_attrs), STNI_POINTWISE(&xlogy_rule), .flags = STN_OP_IN_PLACE,
};

static const struct stni_pointwise_rule copysign_rule = {
    .op = STNI_POINTWISE_copysign, .result = stni_dtype_floating, .dtypes = STNI_FLOATING, .numbers = read_numbers,
    .derivative = {{copysign_by_input, STNI_READS_IN(0) | STNI_READS_OUT}},
};
const stn_op_desc stni_op_copysign = {
    .size = sizeof(stn_op_desc), .name = "copysign", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct pair_attrs), STNI_POINTWISE(&copysign_rule),
};
const stn_op_desc stni_op_copysign_ = {
    .size = sizeof(stn_op_desc), .name = "copysign_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct pair_attrs), STNI_POINTWISE(&copysign_rule), .flags = STN_OP_IN_PLACE,
};

static const struct stni_pointwise_rule copysign_backward_rule = {
    .op = STNI_POINTWISE_copysign_backward, .dtypes = STNI_FLOATING, .linear = {1},
    .derivative = {{copysign_backward_by_grad, STNI_READS_IN(1) | STNI_READS_IN(2)}},
};
const stn_op_desc stni_op_copysign_backward = {
    .size = sizeof(stn_op_desc), .name = "copysign_backward", STN_INPUTS(backward_inputs),
    STNI_POINTWISE(&copysign_backward_rule), .flags = STN_OP_INTERNAL,
};
