/* clone, copy_ and fill_: values in memory of their own, and into memory that is there. */
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/promote.h"
#include "ops/elementwise/pointwise.h"

#include <shardtensor/ops_in_place.h>

#include <stddef.h>

/* clone: its layout is the input's whatever that is, so that it is no row of arithmetic, which reduces what it is
 * not linear in. */

stn_tensor *stn_clone(stn_tensor *input)
{
    return stni_call(STNI_OP_clone, 1, &input, NULL);
}

static stn_status run_clone(stn_op_call *call)
{
    return stni_tensor_copy_elements(call->out[0], call->in[0]);
}

static stn_status backward_clone(stn_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    return STN_OK;
}

const stn_op_desc stni_op_clone = {
    .size = sizeof(stn_op_desc),
    .name = "clone",
    STN_INPUTS(stni_unary_inputs),
    .n_outputs = 1,
    .impl =
        &(const stn_op_impl){
            .check = stni_check_same, .place = stni_place_same, .run = run_clone, .backward = backward_clone},
};

/* copy_: the second operand, read and written with the conversions of cast. A pending sum takes another, or one that
 * sends nothing to become so. */

stn_tensor *stn_copy_(stn_tensor *input, stn_tensor *src)
{
    return stni_call(STNI_OP_copy_, 2, (stn_tensor *[]){input, src}, NULL);
}

enum { TO, FROM };

static const stn_input_schema copy_inputs[] = {{"input", 0, 0}, {"src", 0, 0}};

static const struct stni_pointwise_rule copy_rule = {
    .op = STNI_POINTWISE_copy, .promotes = 1 << TO, .linear = {1 << TO | 1 << FROM},
    .derivative = {[FROM] = {stni_derivative_same, STNI_READS_NOTHING}},
};
const stn_op_desc stni_op_copy_ = {
    .size = sizeof(stn_op_desc),
    .name = "copy_",
    STN_INPUTS(copy_inputs),
    STNI_POINTWISE(&copy_rule),
    .flags = STN_OP_IN_PLACE,
};

/* fill_ */

struct fill_attrs {
    stn_number value;
};

stn_tensor *stn_fill_(stn_tensor *input, double value)
{
    const struct fill_attrs attrs = {stni_number(value)};
    return stni_call(STNI_OP_fill_, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

static void read_value(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    const stn_number *value = &((const struct fill_attrs *)call->attrs)->value;
    const int to_bool = call->in_spec[TO]->layout.dtype == STN_DTYPE_BOOL && value->kind != STN_NUMBER_NONE;
    out->operand[FROM] = to_bool ? (stn_number){STN_NUMBER_BOOL, value->f != 0, value->f != 0} : *value;
}

#define FILL_RULE                                                                              \
    .op = STNI_POINTWISE_copy, .promotes = 1 << TO, .elements = 1 << FROM, .numbers = read_value, \
    .derivative = {[FROM] = {stni_derivative_same, STNI_READS_NOTHING}}

/* A pending sum of zeros is zeros on each rank. */
static const struct stni_pointwise_rule *fill_variant(const void *attrs)
{
    static const struct stni_pointwise_rule zeroes = {FILL_RULE, .linear = {1 << TO}},
                                            tensor = {FILL_RULE, .linear = {1 << TO | 1 << FROM}};
    const stn_number *value = &((const struct fill_attrs *)attrs)->value;
    if (value->kind == STN_NUMBER_NONE)
        return &tensor;
    return value->f == 0 ? &zeroes : NULL;
}

static const stn_input_schema fill_inputs[] = {{"input", 0, 0}, {"value", 1, 0}};
static const stn_attr_schema fill_schema[] = {{"value", STN_ATTR_NUMBER, offsetof(struct fill_attrs, value), NULL}};

static const struct stni_pointwise_rule fill_rule = {
    FILL_RULE,
    .variant = fill_variant,
};
const stn_op_desc stni_op_fill_ = {
    .size = sizeof(stn_op_desc), .name = "fill_", STN_INPUTS(fill_inputs), STN_ATTRS(fill_schema, struct fill_attrs),
    STNI_POINTWISE(&fill_rule), .flags = STN_OP_IN_PLACE,
};
