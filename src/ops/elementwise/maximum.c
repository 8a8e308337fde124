/* maximum, minimum, clamp. Their cotangents go through gates, which let them pass where operands compare so; where
 * maximum's or minimum's operands are equal, half goes to each; where one is NaN, all to each, as in PyTorch. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_in_place.h>

#include <math.h>
#include <stddef.h>

/* Gates: of the cotangent, by two operands. They are linear in the cotangent and piecewise constant in the others. */

static stn_tensor *gate(enum stni_op_index op, stn_tensor *grad, stn_tensor *left, stn_tensor *right)
{
    return stni_call(op, 3, (stn_tensor *[]){grad, left, right}, NULL);
}

static stn_tensor *maximum_gate_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return gate(STNI_OP_gate_maximum, grad, call->in[1], call->in[2]);
}

static const stn_input_schema gate_inputs[] = {{.name = "grad"}, {.name = "left"}, {.name = "right"}};

static const struct stni_pointwise_rule gate_maximum_rule = {
    .op = STNI_POINTWISE_gate_maximum, .dtypes = STNI_FLOATING, .linear = {1},
    .derivative = {{maximum_gate_derivative, STNI_READS_IN(1) | STNI_READS_IN(2)}},
};

const stn_op_desc stni_op_gate_maximum = {
    .size = sizeof(stn_op_desc), .name = "gate_maximum", STN_INPUTS(gate_inputs), STNI_POINTWISE(&gate_maximum_rule),
    .flags = STN_OP_INTERNAL,
};

/* maximum, minimum */

stn_tensor *stn_maximum(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_maximum, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_minimum(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_minimum, 2, (stn_tensor *[]){input, other}, NULL);
}

/* To the first operand where it is the greater. */
static stn_tensor *to_input_if_greater(const stn_backward_call *call, stn_tensor *grad)
{
    return gate(STNI_OP_gate_maximum, grad, call->in[0], call->in[1]);
}

static stn_tensor *to_input_if_less(const stn_backward_call *call, stn_tensor *grad)
{
    return gate(STNI_OP_gate_maximum, grad, call->in[1], call->in[0]);
}

static const stn_input_schema pair_inputs[] = {{"input", 0, 0}, {"other", 0, 0}};

enum { BOTH = STNI_READS_IN(0) | STNI_READS_IN(1), REALS = STNI_FLOATING | STNI_INTEGER };

static const struct stni_pointwise_rule maximum_rule = {
    .op = STNI_POINTWISE_maximum, .dtypes = REALS | STNI_BOOL,
    .derivative = {{to_input_if_greater, BOTH}, {to_input_if_less, BOTH}},
};
const stn_op_desc stni_op_maximum = {
    .size = sizeof(stn_op_desc), .name = "maximum", STN_INPUTS(pair_inputs), STNI_POINTWISE(&maximum_rule),
};

static const struct stni_pointwise_rule minimum_rule = {
    .op = STNI_POINTWISE_minimum, .dtypes = REALS | STNI_BOOL,
    .derivative = {{to_input_if_less, BOTH}, {to_input_if_greater, BOTH}},
};
const stn_op_desc stni_op_minimum = {
    .size = sizeof(stn_op_desc), .name = "minimum", STN_INPUTS(pair_inputs), STNI_POINTWISE(&minimum_rule),
};

/* clamp */

struct clamp_attrs {
    stn_number min, max;
};

enum { INPUT, MIN, MAX };

static stn_number bound(double value)
{
    return isinf(value) ? (stn_number){STN_NUMBER_NONE, 0, 0} : stni_number(value);
}

stn_tensor *stn_clamp(stn_tensor *input, double min, double max)
{
    const struct clamp_attrs attrs = {bound(min), bound(max)};
    return stni_call(STNI_OP_clamp, 3, (stn_tensor *[]){input, NULL, NULL}, &attrs);
}

stn_tensor *stn_clamp_tensor(stn_tensor *input, stn_tensor *min, stn_tensor *max)
{
    return stni_call(STNI_OP_clamp, 3, (stn_tensor *[]){input, min, max}, NULL);
}

stn_tensor *stn_clamp_(stn_tensor *input, double min, double max)
{
    const struct clamp_attrs attrs = {bound(min), bound(max)};
    return stni_call(STNI_OP_clamp_, 3, (stn_tensor *[]){input, NULL, NULL}, &attrs);
}

stn_tensor *stn_clamp_tensor_(stn_tensor *input, stn_tensor *min, stn_tensor *max)
{
    return stni_call(STNI_OP_clamp_, 3, (stn_tensor *[]){input, min, max}, NULL);
}

/* What stands for one bound that is absent: it bounds nothing, and as the lowest kind of number it changes no dtype. */
static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    static const stn_number lowest = {STN_NUMBER_BOOL, INT64_MIN, -INFINITY},
                            highest = {STN_NUMBER_BOOL, INT64_MAX, INFINITY};
    const struct clamp_attrs *attrs = call->attrs;
    int has_min = call->in_spec[MIN] || attrs->min.kind != STN_NUMBER_NONE,
        has_max = call->in_spec[MAX] || attrs->max.kind != STN_NUMBER_NONE;
    out->operand[MIN] = has_min || !has_max ? attrs->min : lowest;
    out->operand[MAX] = has_max || !has_min ? attrs->max : highest;
}

/* Where both bounds are numbers: the cotangent passes between them, and not where the input is one of them. */

static stn_tensor *within_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_gate_within, 2, (stn_tensor *[]){grad, call->in[1]}, call->attrs);
}

/* What is no bound is NaN. */
static void read_bounds(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    static const stn_number none = {STN_NUMBER_FLOAT, 0, (double)NAN};
    const struct clamp_attrs *attrs = call->attrs;
    out->a = attrs->min.kind == STN_NUMBER_NONE ? none : attrs->min;
    out->b = attrs->max.kind == STN_NUMBER_NONE ? none : attrs->max;
}

/* Where both bounds are there, and one is a tensor: how many halves of the cotangent go to an operand. */

struct halves_attrs {
    struct clamp_attrs bounds; /* read_numbers reads it */
    int64_t of;
};

static void read_halves(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    static const enum stni_pointwise_op rows[] = {
        [INPUT] = STNI_POINTWISE_halves_input, [MIN] = STNI_POINTWISE_halves_min, [MAX] = STNI_POINTWISE_halves_max};
    read_numbers(call, out);
    out->op = rows[((const struct halves_attrs *)call->attrs)->of];
}

static stn_tensor *halves_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_gate_halves, 2, (stn_tensor *[]){grad, call->in[1]}, NULL);
}

/* What goes to operand `of`. Where both bounds decide the upper one does; where the input is one of two that differ
 * half goes to either; where they are equal all goes to an input that equals them. */
static stn_tensor *cotangent_of(const stn_backward_call *call, stn_tensor *grad, int of)
{
    const struct clamp_attrs *attrs = call->attrs;
    const struct halves_attrs halves = {*attrs, of};
    stn_tensor *x = call->in[INPUT], *min = call->in[MIN], *max = call->in[MAX];
    const int has_min = min || attrs->min.kind != STN_NUMBER_NONE, has_max = max || attrs->max.kind != STN_NUMBER_NONE;
    if (!min && !max && (isnan(attrs->min.f) || isnan(attrs->max.f)))
        return NULL; /* all is NaN */
    if (!min && !max)
        return stni_call(STNI_OP_gate_within, 2, (stn_tensor *[]){grad, x}, attrs);
    if (!has_max)
        return of == INPUT ? gate(STNI_OP_gate_maximum, grad, x, min) : gate(STNI_OP_gate_maximum, grad, min, x);
    if (!has_min)
        return of == INPUT ? gate(STNI_OP_gate_maximum, grad, max, x) : gate(STNI_OP_gate_maximum, grad, x, max);
    stn_tensor *n = stni_call(STNI_OP_clamp_halves, 3, (stn_tensor *[]){x, min, max}, &halves);
    return stni_call(STNI_OP_gate_halves, 2, (stn_tensor *[]){grad, n}, NULL);
}

static stn_tensor *input_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return cotangent_of(call, grad, INPUT);
}

static stn_tensor *min_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return cotangent_of(call, grad, MIN);
}

static stn_tensor *max_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return cotangent_of(call, grad, MAX);
}

static const stn_input_schema clamp_inputs[] = {{"input", 0, 0}, {"min", 1, 0}, {"max", 1, 0}};
static const stn_attr_schema clamp_schema[] = {
    {"min", STN_ATTR_NUMBER, offsetof(struct clamp_attrs, min), NULL},
    {"max", STN_ATTR_NUMBER, offsetof(struct clamp_attrs, max), NULL},
};
static const stn_attr_schema halves_schema[] = {
    {"min", STN_ATTR_NUMBER, offsetof(struct halves_attrs, bounds.min), NULL},
    {"max", STN_ATTR_NUMBER, offsetof(struct halves_attrs, bounds.max), NULL},
    {"of", STN_ATTR_INT, offsetof(struct halves_attrs, of), NULL},
};

enum { ALL = STNI_READS_IN(INPUT) | STNI_READS_IN(MIN) | STNI_READS_IN(MAX) };

static const struct stni_pointwise_rule clamp_rule = {
    .op = STNI_POINTWISE_clamp, .dtypes = REALS, .numbers = read_numbers,
    .derivative = {[INPUT] = {input_derivative, ALL}, [MIN] = {min_derivative, ALL}, [MAX] = {max_derivative, ALL}},
};
static const struct stni_pointwise_rule gate_within_rule = {
    .op = STNI_POINTWISE_gate_within, .dtypes = STNI_FLOATING, .linear = {1}, .numbers = read_bounds,
    .derivative = {{within_derivative, STNI_READS_IN(1)}},
};
static const struct stni_pointwise_rule gate_halves_rule = {
    .op = STNI_POINTWISE_gate_halves, .dtypes = STNI_FLOATING, .linear = {1},
    .derivative = {{halves_derivative, STNI_READS_IN(1)}},
};
static const struct stni_pointwise_rule clamp_halves_rule = {
    .op = STNI_POINTWISE_halves_input, .dtypes = STNI_FLOATING, .numbers = read_halves,
};

const stn_op_desc stni_op_clamp = {
    .size = sizeof(stn_op_desc), .name = "clamp", STN_INPUTS(clamp_inputs), STN_ATTRS(clamp_schema, struct clamp_attrs),
    STNI_POINTWISE(&clamp_rule),
    .signature = "input, min=, max=",
};
const stn_op_desc stni_op_clamp_ = {
    .size = sizeof(stn_op_desc), .name = "clamp_", STN_INPUTS(clamp_inputs),
    STN_ATTRS(clamp_schema, struct clamp_attrs), STNI_POINTWISE(&clamp_rule), .flags = STN_OP_IN_PLACE,
    .signature = "input, min=, max=",
};

static const stn_input_schema within_inputs[] = {{"grad", 0, 0}, {"input", 0, 0}},
                              halves_inputs[] = {{"grad", 0, 0}, {"halves", 0, 0}};

const stn_op_desc stni_op_gate_within = {
    .size = sizeof(stn_op_desc), .name = "gate_within", STN_INPUTS(within_inputs),
    STN_ATTRS(clamp_schema, struct clamp_attrs), STNI_POINTWISE(&gate_within_rule), .flags = STN_OP_INTERNAL,
};
const stn_op_desc stni_op_gate_halves = {
    .size = sizeof(stn_op_desc), .name = "gate_halves", STN_INPUTS(halves_inputs), STNI_POINTWISE(&gate_halves_rule),
    .flags = STN_OP_INTERNAL,
};
const stn_op_desc stni_op_clamp_halves = {
    .size = sizeof(stn_op_desc), .name = "clamp_halves", STN_INPUTS(clamp_inputs),
    STN_ATTRS(halves_schema, struct halves_attrs), STNI_POINTWISE(&clamp_halves_rule), .flags = STN_OP_INTERNAL,
};
