/* div: input / other, as it is or rounded to a whole quotient. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_pointwise.h>

#include <stddef.h>

struct div_attrs {
    stn_number other;
    int64_t rounding_mode; /* stn_rounding */
};

stn_tensor *stn_div(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_div, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_div_rounded(stn_tensor *input, stn_tensor *other, stn_rounding rounding)
{
    const struct div_attrs attrs = {.rounding_mode = rounding};
    if ((unsigned)rounding > STN_ROUND_FLOOR)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "div: rounding got %d, wanted an stn_rounding", (int)rounding);
    return stni_call(STNI_OP_div, 2, (stn_tensor *[]){input, other}, &attrs);
}

stn_tensor *stn_div_number(stn_tensor *input, double other)
{
    const struct div_attrs attrs = {.other = stni_number(other)};
    return stni_call(STNI_OP_div, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_div_(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_div_, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_div_number_(stn_tensor *input, double other)
{
    const struct div_attrs attrs = {.other = stni_number(other)};
    return stni_call(STNI_OP_div_, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[1] = ((const struct div_attrs *)call->attrs)->other;
}

static stn_tensor *input_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    const struct div_attrs *attrs = call->attrs;
    return call->in[1] ? stn_div(grad, stni_conjugate(call->in[1])) : stn_div_number(grad, attrs->other.f);
}

/* d(x / y) = -(x / y) dy / y */
static stn_tensor *other_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_neg(stn_div(stn_mul(grad, stni_conjugate(call->out[0])), stni_conjugate(call->in[1])));
}

/* A rounded quotient is piecewise constant. */
static const struct stni_pointwise_rule *variant(const void *attrs)
{
    static const struct stni_pointwise_rule towards_zero = {.op = STNI_POINTWISE_div_trunc,
                                                            .dtypes = STNI_FLOATING | STNI_INTEGER,
                                                            .divides = 1,
                                                            .numbers = read_numbers},
                                            down = {.op = STNI_POINTWISE_div_floor,
                                                    .dtypes = STNI_FLOATING | STNI_INTEGER,
                                                    .divides = 1,
                                                    .numbers = read_numbers};
    int64_t mode = ((const struct div_attrs *)attrs)->rounding_mode;
    return mode == STN_ROUND_NONE ? NULL : mode == STN_ROUND_TRUNC ? &towards_zero : &down;
}

static const char *const roundings[] = {"none", "trunc", "floor", NULL};

static const stn_attr_schema attrs_schema[] = {
    {"other", STN_ATTR_NUMBER, offsetof(struct div_attrs, other), NULL},
    {"rounding_mode", STN_ATTR_CHOICE, offsetof(struct div_attrs, rounding_mode), roundings},
};

static const struct stni_pointwise_rule rule = {
    .op = STNI_POINTWISE_div, .result = stni_dtype_floating, .dtypes = STNI_FLOATING | STNI_COMPLEX, .linear = {1},
    .numbers = read_numbers, .variant = variant,
    .derivative = {{input_derivative, STNI_READS_IN(1)}, {other_derivative, STNI_READS_IN(1) | STNI_READS_OUT}},
};

const stn_op_desc stni_op_div = {
    .size = sizeof(stn_op_desc), .name = "div", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct div_attrs), STNI_POINTWISE(&rule),
    .signature = "input, other, *, rounding_mode=None",
};
const stn_op_desc stni_op_div_ = {
    .size = sizeof(stn_op_desc), .name = "div_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct div_attrs), STNI_POINTWISE(&rule), .flags = STN_OP_IN_PLACE,
    .signature = "input, other, *, rounding_mode=None",
};
