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

stn_tensor *stn_isfinite(stn_tensor *input)
{
    return stni_call(STNI_OP_isfinite, 1, &input, NULL);
}

static void take_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[1] = ((const struct compare_attrs *)call->attrs)->other;
}

static const stn_attr_schema attrs_schema[] = {{"other", STN_ATTR_NUMBER, 0, NULL}};
static const stn_input_schema pair_inputs[] = {{"input", 0, 0}, {"other", 0, 0}};

enum { ORDERED = STNI_FLOATING | STNI_INTEGER | STNI_BOOL, ALL = 0 };

/* The operands are compared in the dtype that they are promoted to. */
#define COMPARISON(name_, types)                                                                                       \
    static const struct stni_pointwise_rule name_##_rule = {                                                           \
        .op = STNI_POINTWISE_##name_, .result = stni_dtype_bool, .compute = stni_dtype_same, .dtypes = types,          \
        .numbers = take_numbers,                                                                                       \
    };                                                                                                                 \
    const stn_op_desc stni_op_##name_ = {                                                                              \
        .size = sizeof(stn_op_desc), .name = #name_, STN_INPUTS(stni_binary_inputs),                                   \
        STN_ATTRS(attrs_schema, struct compare_attrs), STNI_POINTWISE(&name_##_rule),                                  \
    }
/* Operands are read as bools: whether they are not 0. */
#define LOGIC(name_, inputs)                                                                                           \
    static const struct stni_pointwise_rule name_##_rule = {.op = STNI_POINTWISE_##name_, .result = stni_dtype_bool};  \
    const stn_op_desc stni_op_##name_ = {                                                                              \
        .size = sizeof(stn_op_desc), .name = #name_, STN_INPUTS(inputs), STNI_POINTWISE(&name_##_rule),                \
    }
#define TEST(name_)                                                                                                    \
    static const struct stni_pointwise_rule name_##_rule = {                                                           \
        .op = STNI_POINTWISE_##name_, .result = stni_dtype_bool, .compute = stni_dtype_same,                           \
    };                                                                                                                 \
    const stn_op_desc stni_op_##name_ = {                                                                              \
        .size = sizeof(stn_op_desc), .name = #name_, STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&name_##_rule),     \
    }

COMPARISON(eq, ALL);
COMPARISON(ne, ALL);
COMPARISON(lt, ORDERED);
COMPARISON(le, ORDERED);
COMPARISON(gt, ORDERED);
COMPARISON(ge, ORDERED);
LOGIC(logical_and, pair_inputs);
LOGIC(logical_or, pair_inputs);
LOGIC(logical_xor, pair_inputs);
LOGIC(logical_not, stni_unary_inputs);
TEST(isnan);
TEST(isfinite);
