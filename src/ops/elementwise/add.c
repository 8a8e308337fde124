/* add and sub: input + alpha * other, input - alpha * other. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops.h>

#include <stddef.h>

struct add_attrs {
    stn_number other, alpha;
};

static const struct add_attrs defaults = {.alpha = {STN_NUMBER_INT, 1, 1.0}};

stn_tensor *stn_add(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_add, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_add_scaled(stn_tensor *input, stn_tensor *other, double alpha)
{
    const struct add_attrs attrs = {.alpha = stni_number(alpha)};
    return stni_call(STNI_OP_add, 2, (stn_tensor *[]){input, other}, &attrs);
}

stn_tensor *stn_add_number(stn_tensor *input, double other)
{
    const struct add_attrs attrs = {.other = stni_number(other), .alpha = defaults.alpha};
    return stni_call(STNI_OP_add, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_add_(stn_tensor *input, stn_tensor *other, double alpha)
{
    const struct add_attrs attrs = {.alpha = stni_number(alpha)};
    return stni_call(STNI_OP_add_, 2, (stn_tensor *[]){input, other}, &attrs);
}

stn_tensor *stn_sub(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_sub, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_sub_scaled(stn_tensor *input, stn_tensor *other, double alpha)
{
    const struct add_attrs attrs = {.alpha = stni_number(alpha)};
    return stni_call(STNI_OP_sub, 2, (stn_tensor *[]){input, other}, &attrs);
}

stn_tensor *stn_sub_number(stn_tensor *input, double other)
{
    const struct add_attrs attrs = {.other = stni_number(other), .alpha = defaults.alpha};
    return stni_call(STNI_OP_sub, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_sub_(stn_tensor *input, stn_tensor *other, double alpha)
{
    const struct add_attrs attrs = {.alpha = stni_number(alpha)};
    return stni_call(STNI_OP_sub_, 2, (stn_tensor *[]){input, other}, &attrs);
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    const struct add_attrs *add = call->attrs;
    out->a = add->alpha;
    out->operand[1] = add->other;
}

static stn_tensor *added_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    const struct add_attrs *attrs = call->attrs;
    return attrs->alpha.f == 1.0 ? grad : stn_mul_number(grad, attrs->alpha.f);
}

static stn_tensor *subtracted_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    const struct add_attrs *attrs = call->attrs;
    return attrs->alpha.f == 1.0 ? stn_neg(grad) : stn_mul_number(grad, -attrs->alpha.f);
}

enum { NOT_BOOL = STNI_FLOATING | STNI_INTEGER | STNI_COMPLEX };

static const stn_attr_schema attrs_schema[] = {
    {"other", STN_ATTR_NUMBER, offsetof(struct add_attrs, other), NULL},
    {"alpha", STN_ATTR_NUMBER, offsetof(struct add_attrs, alpha), NULL},
};

static const struct stni_pointwise_rule add_rule = {
    .op = STNI_POINTWISE_add, .linear = {3}, .numbers = read_numbers,
    .derivative = {{stni_derivative_same, STNI_READS_NOTHING}, {added_derivative, STNI_READS_NOTHING}},
};
static const struct stni_pointwise_rule sub_rule = {
    .op = STNI_POINTWISE_sub, .dtypes = NOT_BOOL, .linear = {3}, .numbers = read_numbers,
    .derivative = {{stni_derivative_same, STNI_READS_NOTHING}, {subtracted_derivative, STNI_READS_NOTHING}},
};

const stn_op_desc stni_op_add = {
    .size = sizeof(stn_op_desc), .name = "add", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct add_attrs), STNI_POINTWISE(&add_rule), .attrs_init = &defaults,
    .signature = "input, other, *, alpha=",
};
const stn_op_desc stni_op_add_ = {
    .size = sizeof(stn_op_desc), .name = "add_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct add_attrs), STNI_POINTWISE(&add_rule), .attrs_init = &defaults,
    .flags = STN_OP_IN_PLACE,
    .signature = "input, other, *, alpha=",
};

const stn_op_desc stni_op_sub = {
    .size = sizeof(stn_op_desc), .name = "sub", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct add_attrs), STNI_POINTWISE(&sub_rule), .attrs_init = &defaults,
    .signature = "input, other, *, alpha=",
};
const stn_op_desc stni_op_sub_ = {
    .size = sizeof(stn_op_desc), .name = "sub_", STN_INPUTS(stni_binary_inputs),
    STN_ATTRS(attrs_schema, struct add_attrs), STNI_POINTWISE(&sub_rule), .attrs_init = &defaults,
    .flags = STN_OP_IN_PLACE,
    .signature = "input, other, *, alpha=",
};
