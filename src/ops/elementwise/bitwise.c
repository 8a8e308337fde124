/* Bits of integers, and truths: and, or, xor, not. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"

#include <shardtensor/ops_in_place.h>

#include <stddef.h>

struct bitwise_attrs {
    stn_number other;
};

static stn_tensor *call_pair(enum stni_op_index op, stn_tensor *input, stn_tensor *other)
{
    return stni_call(op, 2, (stn_tensor *[]){input, other}, NULL);
}

static stn_tensor *call_number(enum stni_op_index op, stn_tensor *input, int64_t other)
{
    const struct bitwise_attrs attrs = {{STN_NUMBER_INT, other, (double)other}};
    return stni_call(op, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_bitwise_and(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_bitwise_and, input, other);
}

stn_tensor *stn_bitwise_and_number(stn_tensor *input, int64_t other)
{
    return call_number(STNI_OP_bitwise_and, input, other);
}

stn_tensor *stn_bitwise_and_(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_bitwise_and_, input, other);
}

stn_tensor *stn_bitwise_and_number_(stn_tensor *input, int64_t other)
{
    return call_number(STNI_OP_bitwise_and_, input, other);
}

stn_tensor *stn_bitwise_or(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_bitwise_or, input, other);
}

stn_tensor *stn_bitwise_or_number(stn_tensor *input, int64_t other)
{
    return call_number(STNI_OP_bitwise_or, input, other);
}

stn_tensor *stn_bitwise_or_(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_bitwise_or_, input, other);
}

stn_tensor *stn_bitwise_or_number_(stn_tensor *input, int64_t other)
{
    return call_number(STNI_OP_bitwise_or_, input, other);
}

stn_tensor *stn_bitwise_xor(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_bitwise_xor, input, other);
}

stn_tensor *stn_bitwise_xor_number(stn_tensor *input, int64_t other)
{
    return call_number(STNI_OP_bitwise_xor, input, other);
}

stn_tensor *stn_bitwise_xor_(stn_tensor *input, stn_tensor *other)
{
    return call_pair(STNI_OP_bitwise_xor_, input, other);
}

stn_tensor *stn_bitwise_xor_number_(stn_tensor *input, int64_t other)
{
    return call_number(STNI_OP_bitwise_xor_, input, other);
}

stn_tensor *stn_bitwise_not(stn_tensor *input)
{
    return stni_call(STNI_OP_bitwise_not, 1, &input, NULL);
}

stn_tensor *stn_bitwise_not_(stn_tensor *input)
{
    return stni_call(STNI_OP_bitwise_not_, 1, &input, NULL);
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[1] = ((const struct bitwise_attrs *)call->attrs)->other;
}

static const stn_attr_schema attrs_schema[] = {
    {"other", STN_ATTR_NUMBER, offsetof(struct bitwise_attrs, other), NULL}};

static const struct stni_pointwise_rule and_rule = {
    .op = STNI_POINTWISE_bitwise_and, .dtypes = STNI_INTEGER | STNI_BOOL, .numbers = read_numbers,
};
const stn_op_desc stni_op_bitwise_and = {
    .size = sizeof(stn_op_desc), .name = "bitwise_and", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct bitwise_attrs), STNI_POINTWISE(&and_rule),
};
const stn_op_desc stni_op_bitwise_and_ = {
    .size = sizeof(stn_op_desc), .name = "bitwise_and_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct bitwise_attrs), STNI_POINTWISE(&and_rule), .flags = STN_OP_IN_PLACE,
};

static const struct stni_pointwise_rule or_rule = {
    .op = STNI_POINTWISE_bitwise_or, .dtypes = STNI_INTEGER | STNI_BOOL, .numbers = read_numbers,
};
const stn_op_desc stni_op_bitwise_or = {
    .size = sizeof(stn_op_desc), .name = "bitwise_or", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct bitwise_attrs), STNI_POINTWISE(&or_rule),
};
const stn_op_desc stni_op_bitwise_or_ = {
    .size = sizeof(stn_op_desc), .name = "bitwise_or_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct bitwise_attrs), STNI_POINTWISE(&or_rule), .flags = STN_OP_IN_PLACE,
};

static const struct stni_pointwise_rule xor_rule = {
    .op = STNI_POINTWISE_bitwise_xor, .dtypes = STNI_INTEGER | STNI_BOOL, .numbers = read_numbers,
};
const stn_op_desc stni_op_bitwise_xor = {
    .size = sizeof(stn_op_desc), .name = "bitwise_xor", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct bitwise_attrs), STNI_POINTWISE(&xor_rule),
};
const stn_op_desc stni_op_bitwise_xor_ = {
    .size = sizeof(stn_op_desc), .name = "bitwise_xor_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct bitwise_attrs), STNI_POINTWISE(&xor_rule), .flags = STN_OP_IN_PLACE,
};

static const struct stni_pointwise_rule not_rule = {
    .op = STNI_POINTWISE_bitwise_not, .dtypes = STNI_INTEGER | STNI_BOOL,
};
const stn_op_desc stni_op_bitwise_not = {
    .size = sizeof(stn_op_desc), .name = "bitwise_not", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&not_rule),
};
const stn_op_desc stni_op_bitwise_not_ = {
    .size = sizeof(stn_op_desc), .name = "bitwise_not_", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&not_rule),
    .flags = STN_OP_IN_PLACE,
};
