/* floor, ceil, trunc, round, which have no gradient; and nan_to_num. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_in_place.h>

#include <float.h>
#include <math.h>
#include <stddef.h>

struct round_attrs {
    int64_t decimals;
};

struct nan_attrs {
    double nan;
    stn_number posinf, neginf; /* kind NONE: the largest and the least finite value of the dtype */
};

stn_tensor *stn_floor(stn_tensor *input)
{
    return stni_call(STNI_OP_floor, 1, &input, NULL);
}

stn_tensor *stn_floor_(stn_tensor *input)
{
    return stni_call(STNI_OP_floor_, 1, &input, NULL);
}

stn_tensor *stn_ceil(stn_tensor *input)
{
    return stni_call(STNI_OP_ceil, 1, &input, NULL);
}

stn_tensor *stn_ceil_(stn_tensor *input)
{
    return stni_call(STNI_OP_ceil_, 1, &input, NULL);
}

stn_tensor *stn_trunc(stn_tensor *input)
{
    return stni_call(STNI_OP_trunc, 1, &input, NULL);
}

stn_tensor *stn_trunc_(stn_tensor *input)
{
    return stni_call(STNI_OP_trunc_, 1, &input, NULL);
}

stn_tensor *stn_round(stn_tensor *input, int decimals)
{
    const struct round_attrs attrs = {decimals};
    return stni_call(STNI_OP_round, 1, &input, &attrs);
}

stn_tensor *stn_round_(stn_tensor *input, int decimals)
{
    const struct round_attrs attrs = {decimals};
    return stni_call(STNI_OP_round_, 1, &input, &attrs);
}

static stn_tensor *replace(enum stni_op_index op, stn_tensor *input, double nan, const double *posinf,
                           const double *neginf)
{
    struct nan_attrs attrs = {.nan = nan};
    if (posinf)
        attrs.posinf = (stn_number){STN_NUMBER_FLOAT, 0, *posinf};
    if (neginf)
        attrs.neginf = (stn_number){STN_NUMBER_FLOAT, 0, *neginf};
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stn_nan_to_num(stn_tensor *input, double nan, const double *posinf, const double *neginf)
{
    return replace(STNI_OP_nan_to_num, input, nan, posinf, neginf);
}

stn_tensor *stn_nan_to_num_(stn_tensor *input, double nan, const double *posinf, const double *neginf)
{
    return replace(STNI_OP_nan_to_num_, input, nan, posinf, neginf);
}

/* a is a power of ten, the sign of b says whether to multiply or to divide by it. */
static void read_decimals(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    double decimals = (double)((const struct round_attrs *)call->attrs)->decimals;
    out->a = (stn_number){STN_NUMBER_FLOAT, 0, pow(10, fabs(decimals))};
    out->b = (stn_number){STN_NUMBER_FLOAT, 0, decimals};
}

static void read_replacements(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    static const double largest[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = FLT_MAX, [STN_DTYPE_F64] = DBL_MAX, [STN_DTYPE_BF16] = 0x1.fep127, [STN_DTYPE_F16] = 65504};
    const struct nan_attrs *attrs = call->attrs;
    stn_dtype dtype = stn_spec_dtype(call->in_spec[0]);
    if (!(STNI_FLOATING >> dtype & 1))
        return; /* nothing is replaced */
    out->a = (stn_number){STN_NUMBER_FLOAT, 0, attrs->nan};
    out->b = attrs->posinf.kind != STN_NUMBER_NONE ? attrs->posinf : (stn_number){STN_NUMBER_FLOAT, 0, largest[dtype]};
    out->c = attrs->neginf.kind != STN_NUMBER_NONE ? attrs->neginf : (stn_number){STN_NUMBER_FLOAT, 0, -largest[dtype]};
}

/* To what was not replaced. */
static stn_tensor *finite_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_masked_fill(grad, stn_logical_not(stn_isfinite(call->in[0])), 0);
}

static const stn_attr_schema round_schema[] = {
    {"decimals", STN_ATTR_INT, offsetof(struct round_attrs, decimals), NULL}};
static const stn_attr_schema nan_schema[] = {
    {"nan", STN_ATTR_FLOAT, offsetof(struct nan_attrs, nan), NULL},
    {"posinf", STN_ATTR_NUMBER, offsetof(struct nan_attrs, posinf), NULL},
    {"neginf", STN_ATTR_NUMBER, offsetof(struct nan_attrs, neginf), NULL},
};

static const struct stni_pointwise_rule floor_rule = {
    .op = STNI_POINTWISE_floor, .dtypes = STNI_FLOATING | STNI_INTEGER,
};
static const struct stni_pointwise_rule ceil_rule = {
    .op = STNI_POINTWISE_ceil, .dtypes = STNI_FLOATING | STNI_INTEGER,
};
static const struct stni_pointwise_rule trunc_rule = {
    .op = STNI_POINTWISE_trunc, .dtypes = STNI_FLOATING | STNI_INTEGER,
};
static const struct stni_pointwise_rule round_rule = {
    .op = STNI_POINTWISE_round, .dtypes = STNI_FLOATING | STNI_INTEGER, .numbers = read_decimals,
};
static const struct stni_pointwise_rule nan_rule = {
    .op = STNI_POINTWISE_nan_to_num, .dtypes = STNI_FLOATING | STNI_INTEGER | STNI_BOOL, .numbers = read_replacements,
    .derivative = {{finite_derivative, STNI_READS_IN(0)}},
};

const stn_op_desc stni_op_floor = {
    .size = sizeof(stn_op_desc), .name = "floor", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&floor_rule),
};
const stn_op_desc stni_op_floor_ = {
    .size = sizeof(stn_op_desc), .name = "floor_", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&floor_rule),
    .flags = STN_OP_IN_PLACE,
};

const stn_op_desc stni_op_ceil = {
    .size = sizeof(stn_op_desc), .name = "ceil", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&ceil_rule),
};
const stn_op_desc stni_op_ceil_ = {
    .size = sizeof(stn_op_desc), .name = "ceil_", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&ceil_rule),
    .flags = STN_OP_IN_PLACE,
};

const stn_op_desc stni_op_trunc = {
    .size = sizeof(stn_op_desc), .name = "trunc", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&trunc_rule),
};
const stn_op_desc stni_op_trunc_ = {
    .size = sizeof(stn_op_desc), .name = "trunc_", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&trunc_rule),
    .flags = STN_OP_IN_PLACE,
};

const stn_op_desc stni_op_round = {
    .size = sizeof(stn_op_desc), .name = "round", STN_INPUTS(stni_unary_inputs),
    STN_ATTRS(round_schema, struct round_attrs), STNI_POINTWISE(&round_rule),
    .signature = "input, *, decimals=",
};
const stn_op_desc stni_op_round_ = {
    .size = sizeof(stn_op_desc), .name = "round_", STN_INPUTS(stni_unary_inputs),
    STN_ATTRS(round_schema, struct round_attrs), STNI_POINTWISE(&round_rule), .flags = STN_OP_IN_PLACE,
    .signature = "input, *, decimals=",
};

const stn_op_desc stni_op_nan_to_num = {
    .size = sizeof(stn_op_desc), .name = "nan_to_num", STN_INPUTS(stni_unary_inputs),
    STN_ATTRS(nan_schema, struct nan_attrs), STNI_POINTWISE(&nan_rule),
};
const stn_op_desc stni_op_nan_to_num_ = {
    .size = sizeof(stn_op_desc), .name = "nan_to_num_", STN_INPUTS(stni_unary_inputs),
    STN_ATTRS(nan_schema, struct nan_attrs), STNI_POINTWISE(&nan_rule), .flags = STN_OP_IN_PLACE,
};
