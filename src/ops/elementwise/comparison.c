/* Comparisons, logic and tests: a bool for each element, without gradient. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_pointwise.h>

struct compare_attrs {
    stn_number other;
};

static stn_tensor *compare(enum stni_op_index op, stn_tensor *input, stn_tensor *other)
{
    return stni_call(op, 2, (stn_tensor *[]){input, other}, NULL);
}

static stn_tensor *compare_number(enum stni_op_index op, stn_tensor *input, double other)
{
    const struct compare_attrs attrs = {stni_number(other)};
    return stni_call(op, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_eq(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_eq, input, other);
}

stn_tensor *stn_eq_number(stn_tensor *input, double other)
{
    return compare_number(STNI_OP_eq, input, other);
}

stn_tensor *stn_ne(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_ne, input, other);
}

stn_tensor *stn_ne_number(stn_tensor *input, double other)
{
    return compare_number(STNI_OP_ne, input, other);
}

stn_tensor *stn_lt(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_lt, input, other);
}

stn_tensor *stn_lt_number(stn_tensor *input, double other)
{
    return compare_number(STNI_OP_lt, input, other);
}

stn_tensor *stn_le(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_le, input, other);
}

stn_tensor *stn_le_number(stn_tensor *input, double other)
{
    return compare_number(STNI_OP_le, input, other);
}

stn_tensor *stn_gt(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_gt, input, other);
}

stn_tensor *stn_gt_number(stn_tensor *input, double other)
{
    return compare_number(STNI_OP_gt, input, other);
}

stn_tensor *stn_ge(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_ge, input, other);
}

stn_tensor *stn_ge_number(stn_tensor *input, double other)
{
    return compare_number(STNI_OP_ge, input, other);
}

stn_tensor *stn_logical_and(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_logical_and, input, other);
}

stn_tensor *stn_logical_or(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_logical_or, input, other);
}

stn_tensor *stn_logical_xor(stn_tensor *input, stn_tensor *other)
{
    return compare(STNI_OP_logical_xor, input, other);
}

stn_tensor *stn_logical_not(stn_tensor *input)
{
    return stni_call(STNI_OP_logical_not, 1, &input, NULL);
}

stn_tensor *stn_isnan(stn_tensor *input)
{
    return stni_call(STNI_OP_isnan, 1, &input, NULL);
}

stn_tensor *stn_isinf(stn_tensor *input)
{
    return stni_call(STNI_OP_isinf, 1, &input, NULL);
}

stn_tensor *stn_isfinite(stn_tensor *input)
{
    return stni_call(STNI_OP_isfinite, 1, &input, NULL);
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[1] = ((const struct compare_attrs *)call->attrs)->other;
}

static const stn_attr_schema attrs_schema[] = {{"other", STN_ATTR_NUMBER, 0, NULL}};
static const stn_input_schema pair_inputs[] = {{"input", 0, 0}, {"other", 0, 0}};

/* Comparisons: the operands are compared in the dtype that they are promoted to. */

enum { ORDERED = STNI_FLOATING | STNI_INTEGER | STNI_BOOL };

static const struct stni_pointwise_rule eq_rule = {
    .op = STNI_POINTWISE_eq, .result = stni_dtype_bool, .compute = stni_dtype_same, .numbers = read_numbers,
};
const stn_op_desc stni_op_eq = {
    .size = sizeof(stn_op_desc), .name = "eq", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct compare_attrs), STNI_POINTWISE(&eq_rule),
};

static const struct stni_pointwise_rule ne_rule = {
    .op = STNI_POINTWISE_ne, .result = stni_dtype_bool, .compute = stni_dtype_same, .numbers = read_numbers,
};
const stn_op_desc stni_op_ne = {
    .size = sizeof(stn_op_desc), .name = "ne", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct compare_attrs), STNI_POINTWISE(&ne_rule),
};

static const struct stni_pointwise_rule lt_rule = {
    .op = STNI_POINTWISE_lt, .result = stni_dtype_bool, .compute = stni_dtype_same, .dtypes = ORDERED,
    .numbers = read_numbers,
};
const stn_op_desc stni_op_lt = {
    .size = sizeof(stn_op_desc), .name = "lt", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct compare_attrs), STNI_POINTWISE(&lt_rule),
};

static const struct stni_pointwise_rule le_rule = {
    .op = STNI_POINTWISE_le, .result = stni_dtype_bool, .compute = stni_dtype_same, .dtypes = ORDERED,
    .numbers = read_numbers,
};
const stn_op_desc stni_op_le = {
    .size = sizeof(stn_op_desc), .name = "le", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct compare_attrs), STNI_POINTWISE(&le_rule),
};

static const struct stni_pointwise_rule gt_rule = {
    .op = STNI_POINTWISE_gt, .result = stni_dtype_bool, .compute = stni_dtype_same, .dtypes = ORDERED,
    .numbers = read_numbers,
};
const stn_op_desc stni_op_gt = {
    .size = sizeof(stn_op_desc), .name = "gt", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct compare_attrs), STNI_POINTWISE(&gt_rule),
};

static const struct stni_pointwise_rule ge_rule = {
    .op = STNI_POINTWISE_ge, .result = stni_dtype_bool, .compute = stni_dtype_same, .dtypes = ORDERED,
    .numbers = read_numbers,
};
const stn_op_desc stni_op_ge = {
    .size = sizeof(stn_op_desc), .name = "ge", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct compare_attrs), STNI_POINTWISE(&ge_rule),
};

/* Logic: operands are read as bools, whether they are not 0. */

static const struct stni_pointwise_rule logical_and_rule = {.op = STNI_POINTWISE_logical_and,
                                                            .result = stni_dtype_bool};
const stn_op_desc stni_op_logical_and = {
    .size = sizeof(stn_op_desc), .name = "logical_and", STN_INPUTS(pair_inputs), STNI_POINTWISE(&logical_and_rule),
};

static const struct stni_pointwise_rule logical_or_rule = {.op = STNI_POINTWISE_logical_or, .result = stni_dtype_bool};
const stn_op_desc stni_op_logical_or = {
    .size = sizeof(stn_op_desc), .name = "logical_or", STN_INPUTS(pair_inputs), STNI_POINTWISE(&logical_or_rule),
};

static const struct stni_pointwise_rule logical_xor_rule = {.op = STNI_POINTWISE_logical_xor,
                                                            .result = stni_dtype_bool};
const stn_op_desc stni_op_logical_xor = {
    .size = sizeof(stn_op_desc), .name = "logical_xor", STN_INPUTS(pair_inputs), STNI_POINTWISE(&logical_xor_rule),
};

static const struct stni_pointwise_rule logical_not_rule = {.op = STNI_POINTWISE_logical_not,
                                                            .result = stni_dtype_bool};
const stn_op_desc stni_op_logical_not = {
    .size = sizeof(stn_op_desc),
    .name = "logical_not",
    STN_INPUTS(stni_unary_inputs),
    STNI_POINTWISE(&logical_not_rule),
};

/* Tests */

static const struct stni_pointwise_rule isnan_rule = {
    .op = STNI_POINTWISE_isnan, .result = stni_dtype_bool, .compute = stni_dtype_same,
};
const stn_op_desc stni_op_isnan = {
    .size = sizeof(stn_op_desc), .name = "isnan", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&isnan_rule),
};

static const struct stni_pointwise_rule isinf_rule = {
    .op = STNI_POINTWISE_isinf, .result = stni_dtype_bool, .compute = stni_dtype_same,
};
const stn_op_desc stni_op_isinf = {
    .size = sizeof(stn_op_desc), .name = "isinf", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&isinf_rule),
};

static const struct stni_pointwise_rule isfinite_rule = {
    .op = STNI_POINTWISE_isfinite, .result = stni_dtype_bool, .compute = stni_dtype_same,
};
const stn_op_desc stni_op_isfinite = {
    .size = sizeof(stn_op_desc), .name = "isfinite", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&isfinite_rule),
};
