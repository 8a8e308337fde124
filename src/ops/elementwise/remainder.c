/* Integer quotients and remainders: floor_divide, fmod (its result has the sign of the dividend) and remainder (the
 * sign of the divisor). */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_in_place.h>

#include <stddef.h>

struct rest_attrs {
    stn_number other;
};

static stn_tensor *with_number(enum stni_op_index op, stn_tensor *input, double other)
{
    const struct rest_attrs attrs = {stni_number(other)};
    return stni_call(op, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_floor_divide(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_floor_divide, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_floor_divide_number(stn_tensor *input, double other)
{
    return with_number(STNI_OP_floor_divide, input, other);
}

stn_tensor *stn_floor_divide_(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_floor_divide_, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_floor_divide_number_(stn_tensor *input, double other)
{
    return with_number(STNI_OP_floor_divide_, input, other);
}

stn_tensor *stn_fmod(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_fmod, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_fmod_number(stn_tensor *input, double other)
{
    return with_number(STNI_OP_fmod, input, other);
}

stn_tensor *stn_fmod_(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_fmod_, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_fmod_number_(stn_tensor *input, double other)
{
    return with_number(STNI_OP_fmod_, input, other);
}

stn_tensor *stn_remainder(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_remainder, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_remainder_number(stn_tensor *input, double other)
{
    return with_number(STNI_OP_remainder, input, other);
}

stn_tensor *stn_remainder_(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_remainder_, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_remainder_number_(stn_tensor *input, double other)
{
    return with_number(STNI_OP_remainder_, input, other);
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[1] = ((const struct rest_attrs *)call->attrs)->other;
}

/* The remainder is x - q y with an integer q, which is piecewise constant. */
static stn_tensor *fmod_by_other(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_neg(stn_mul(grad, stn_div_rounded(call->in[0], call->in[1], STN_ROUND_TRUNC)));
}

static stn_tensor *remainder_by_other(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_neg(stn_mul(grad, stn_div_rounded(call->in[0], call->in[1], STN_ROUND_FLOOR)));
}

static const stn_attr_schema schema[] = {{"other", STN_ATTR_NUMBER, offsetof(struct rest_attrs, other), NULL}};

static const struct stni_pointwise_rule floor_rule = {
    .op = STNI_POINTWISE_div_floor, .dtypes = STNI_FLOATING | STNI_INTEGER, .divides = 1, .numbers = read_numbers,
};
static const struct stni_pointwise_rule fmod_rule = {
    .op = STNI_POINTWISE_fmod, .dtypes = STNI_FLOATING | STNI_INTEGER, .divides = 1, .numbers = read_numbers,
    .derivative = {{stni_derivative_same, STNI_READS_NOTHING}, {fmod_by_other, STNI_READS_IN(0) | STNI_READS_IN(1)}},
};
static const struct stni_pointwise_rule remainder_rule = {
    .op = STNI_POINTWISE_remainder,
    .dtypes = STNI_FLOATING | STNI_INTEGER,
    .divides = 1,
    .numbers = read_numbers,
    .derivative = {{stni_derivative_same, STNI_READS_NOTHING},
                   {remainder_by_other, STNI_READS_IN(0) | STNI_READS_IN(1)}},
};

const stn_op_desc stni_op_floor_divide = {
    .size = sizeof(stn_op_desc), .name = "floor_divide", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(schema, struct rest_attrs), STNI_POINTWISE(&floor_rule),
};
const stn_op_desc stni_op_floor_divide_ = {
    .size = sizeof(stn_op_desc), .name = "floor_divide_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(schema, struct rest_attrs), STNI_POINTWISE(&floor_rule), .flags = STN_OP_IN_PLACE,
};

const stn_op_desc stni_op_fmod = {
    .size = sizeof(stn_op_desc), .name = "fmod", STN_INPUTS(stni_binary_inputs), STN_ATTRS(schema, struct rest_attrs),
    STNI_POINTWISE(&fmod_rule),
};
const stn_op_desc stni_op_fmod_ = {
    .size = sizeof(stn_op_desc), .name = "fmod_", STN_INPUTS(stni_binary_inputs), STN_ATTRS(schema, struct rest_attrs),
    STNI_POINTWISE(&fmod_rule), .flags = STN_OP_IN_PLACE,
};

const stn_op_desc stni_op_remainder = {
    .size = sizeof(stn_op_desc), .name = "remainder", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(schema, struct rest_attrs), STNI_POINTWISE(&remainder_rule),
};
const stn_op_desc stni_op_remainder_ = {
    .size = sizeof(stn_op_desc), .name = "remainder_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(schema, struct rest_attrs), STNI_POINTWISE(&remainder_rule), .flags = STN_OP_IN_PLACE,
};
