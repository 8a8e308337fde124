/* where and masked_fill: one of two values, as a bool says. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_in_place.h>

#include <stddef.h>

/* where */

struct where_attrs {
    stn_number input, other;
};

enum { CONDITION, INPUT, OTHER };

stn_tensor *stn_where(stn_tensor *condition, stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_where, 3, (stn_tensor *[]){condition, input, other}, NULL);
}

static void read_where_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    const struct where_attrs *attrs = call->attrs;
    out->operand[INPUT] = attrs->input;
    out->operand[OTHER] = attrs->other;
}

static const struct where_attrs zero_input = {.input = {STN_NUMBER_BOOL, 0, 0}},
                                zero_other = {.other = {STN_NUMBER_BOOL, 0, 0}};

static stn_tensor *input_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_where, 3, (stn_tensor *[]){call->in[CONDITION], grad, NULL}, &zero_other);
}

static stn_tensor *other_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_where, 3, (stn_tensor *[]){call->in[CONDITION], NULL, grad}, &zero_input);
}

static const stn_input_schema where_inputs[] = {{"condition", 0, 0}, {"input", 1, 0}, {"other", 1, 0}};
static const stn_attr_schema where_schema[] = {
    {"input", STN_ATTR_NUMBER, offsetof(struct where_attrs, input), NULL},
    {"other", STN_ATTR_NUMBER, offsetof(struct where_attrs, other), NULL},
};

static const struct stni_pointwise_rule where_rule = {
    .op = STNI_POINTWISE_where, .promotes = 1 << INPUT | 1 << OTHER, .booleans = 1 << CONDITION,
    .elements = 1 << INPUT | 1 << OTHER, .linear = {1 << INPUT | 1 << OTHER}, .numbers = read_where_numbers,
    .derivative = {[INPUT] = {input_derivative, STNI_READS_IN(CONDITION)},
                   [OTHER] = {other_derivative, STNI_READS_IN(CONDITION)}},
};
const stn_op_desc stni_op_where = {
    .size = sizeof(stn_op_desc), .name = "where", STN_INPUTS(where_inputs), STN_ATTRS(where_schema, struct where_attrs),
    STNI_POINTWISE(&where_rule),
};

/* masked_fill */

struct fill_attrs {
    stn_number value;
};

enum { FILLED, MASK, VALUE };

stn_tensor *stn_masked_fill(stn_tensor *input, stn_tensor *mask, double value)
{
    const struct fill_attrs attrs = {stni_number(value)};
    return stni_call(STNI_OP_masked_fill, 3, (stn_tensor *[]){input, mask, NULL}, &attrs);
}

stn_tensor *stn_masked_fill_(stn_tensor *input, stn_tensor *mask, double value)
{
    const struct fill_attrs attrs = {stni_number(value)};
    return stni_call(STNI_OP_masked_fill_, 3, (stn_tensor *[]){input, mask, NULL}, &attrs);
}

static void read_fill_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->operand[VALUE] = ((const struct fill_attrs *)call->attrs)->value;
}

static stn_tensor *filled_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_masked_fill(grad, call->in[MASK], 0);
}

static stn_tensor *value_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_where, 3, (stn_tensor *[]){call->in[MASK], grad, NULL}, &zero_other);
}

#define FILL_RULE                                                                                                       \
    .op = STNI_POINTWISE_masked_fill, .promotes = 1 << FILLED, .booleans = 1 << MASK, .elements = 1 << VALUE,           \
    .numbers = read_fill_numbers,                                                                                       \
    .derivative = {[FILLED] = {filled_derivative, STNI_READS_IN(MASK)}, [VALUE] = {value_derivative, STNI_READS_IN(MASK)}}

/* To fill with zeros is linear. */
static const struct stni_pointwise_rule *fill_variant(const void *attrs)
{
    static const struct stni_pointwise_rule zeroes = {FILL_RULE, .linear = {1 << FILLED}};
    const stn_number *value = &((const struct fill_attrs *)attrs)->value;
    return value->kind != STN_NUMBER_NONE && value->f == 0 ? &zeroes : NULL;
}

static const stn_input_schema fill_inputs[] = {{"input", 0, 0}, {"mask", 0, 0}, {"value", 1, 0}};
static const stn_attr_schema fill_schema[] = {{"value", STN_ATTR_NUMBER, offsetof(struct fill_attrs, value), NULL}};

static const struct stni_pointwise_rule fill_rule = {
    FILL_RULE,
    .variant = fill_variant,
};

const stn_op_desc stni_op_masked_fill = {
    .size = sizeof(stn_op_desc), .name = "masked_fill", STN_INPUTS(fill_inputs),
    STN_ATTRS(fill_schema, struct fill_attrs), STNI_POINTWISE(&fill_rule),
};
const stn_op_desc stni_op_masked_fill_ = {
    .size = sizeof(stn_op_desc), .name = "masked_fill_", STN_INPUTS(fill_inputs),
    STN_ATTRS(fill_schema, struct fill_attrs), STNI_POINTWISE(&fill_rule), .flags = STN_OP_IN_PLACE,
};
