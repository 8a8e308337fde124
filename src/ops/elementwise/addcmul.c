/* addcmul and addcdiv: input + value * tensor1 * tensor2, input + value * tensor1 / tensor2. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_in_place.h>

#include <stddef.h>

struct addc_attrs {
    stn_number value;
};

static const struct addc_attrs defaults = {{STN_NUMBER_INT, 1, 1.0}};

stn_tensor *stn_addcmul(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value)
{
    const struct addc_attrs attrs = {stni_number(value)};
    return stni_call(STNI_OP_addcmul, 3, (stn_tensor *[]){input, tensor1, tensor2}, &attrs);
}

stn_tensor *stn_addcmul_(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value)
{
    const struct addc_attrs attrs = {stni_number(value)};
    return stni_call(STNI_OP_addcmul_, 3, (stn_tensor *[]){input, tensor1, tensor2}, &attrs);
}

stn_tensor *stn_addcdiv(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value)
{
    const struct addc_attrs attrs = {stni_number(value)};
    return stni_call(STNI_OP_addcdiv, 3, (stn_tensor *[]){input, tensor1, tensor2}, &attrs);
}

stn_tensor *stn_addcdiv_(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value)
{
    const struct addc_attrs attrs = {stni_number(value)};
    return stni_call(STNI_OP_addcdiv_, 3, (stn_tensor *[]){input, tensor1, tensor2}, &attrs);
}

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->a = ((const struct addc_attrs *)call->attrs)->value;
}

static stn_tensor *scaled(const stn_backward_call *call, stn_tensor *t)
{
    return stn_mul_number(t, ((const struct addc_attrs *)call->attrs)->value.f);
}

static stn_tensor *first_factor(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, stni_conjugate(scaled(call, call->in[2])));
}

static stn_tensor *second_factor(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, stni_conjugate(scaled(call, call->in[1])));
}

static stn_tensor *dividend(const stn_backward_call *call, stn_tensor *grad)
{
    return scaled(call, stn_div(grad, stni_conjugate(call->in[2])));
}

/* d(u / v) = -u / v^2 dv */
static stn_tensor *divisor(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *v = stni_conjugate(call->in[2]), *product = stn_mul(grad, stni_conjugate(call->in[1]));
    return stn_neg(scaled(call, stn_div(stn_div(product, v), v)));
}

static const stn_input_schema inputs[] = {{"input", 0, 0}, {"tensor1", 0, 0}, {"tensor2", 0, 0}};
static const stn_attr_schema schema[] = {{"value", STN_ATTR_NUMBER, offsetof(struct addc_attrs, value), NULL}};

static const struct stni_pointwise_rule mul_rule = {
    .op = STNI_POINTWISE_addcmul,
    .dtypes = STNI_FLOATING | STNI_INTEGER | STNI_COMPLEX,
    .linear = {3, 5},
    .numbers = read_numbers,
    .derivative = {{stni_derivative_same, STNI_READS_NOTHING},
                   {first_factor, STNI_READS_IN(2)},
                   {second_factor, STNI_READS_IN(1)}},
};
static const struct stni_pointwise_rule div_rule = {
    .op = STNI_POINTWISE_addcdiv, .dtypes = STNI_FLOATING | STNI_COMPLEX, .linear = {3}, .numbers = read_numbers,
    .derivative = {{stni_derivative_same, STNI_READS_NOTHING}, {dividend, STNI_READS_IN(2)},
                   {divisor, STNI_READS_IN(1) | STNI_READS_IN(2)}},
};

const stn_op_desc stni_op_addcmul = {
    .size = sizeof(stn_op_desc), .name = "addcmul", STN_INPUTS(inputs), STN_ATTRS(schema, struct addc_attrs),
    STNI_POINTWISE(&mul_rule), .attrs_init = &defaults,
    .signature = "input, tensor1, tensor2, *, value=",
};
const stn_op_desc stni_op_addcmul_ = {
    .size = sizeof(stn_op_desc), .name = "addcmul_", STN_INPUTS(inputs), STN_ATTRS(schema, struct addc_attrs),
    STNI_POINTWISE(&mul_rule), .attrs_init = &defaults, .flags = STN_OP_IN_PLACE,
    .signature = "input, tensor1, tensor2, *, value=",
};

const stn_op_desc stni_op_addcdiv = {
    .size = sizeof(stn_op_desc), .name = "addcdiv", STN_INPUTS(inputs), STN_ATTRS(schema, struct addc_attrs),
    STNI_POINTWISE(&div_rule), .attrs_init = &defaults,
    .signature = "input, tensor1, tensor2, *, value=",
};
const stn_op_desc stni_op_addcdiv_ = {
    .size = sizeof(stn_op_desc), .name = "addcdiv_", STN_INPUTS(inputs), STN_ATTRS(schema, struct addc_attrs),
    STNI_POINTWISE(&div_rule), .attrs_init = &defaults, .flags = STN_OP_IN_PLACE,
    .signature = "input, tensor1, tensor2, *, value=",
};
