/* quantile: between the two elements of a line, in order, that are next to a place; each is one of order_select. */
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/reduce/reduction.h"
#include "ops/sort/sort_family.h"

#include <shardtensor/ops.h>

#include <math.h>
#include <stddef.h>

struct quantile_attrs {
    double q;
    stn_ints dim; /* absent: all */
    int64_t keepdim, interpolation;
};

static const char *const interpolations[] = {"linear", "lower", "higher", "midpoint", "nearest", NULL};

static stn_tensor *call_quantile(stn_tensor *input, const struct quantile_attrs *attrs)
{
    if (input && (attrs->interpolation < STN_QUANTILE_LINEAR || attrs->interpolation > STN_QUANTILE_NEAREST))
        return stni_call_fail(input, STN_ERR_ARGUMENT,
                              "quantile: interpolation got %d, wanted an stn_quantile_interpolation",
                              (int)attrs->interpolation);
    return stni_call(STNI_OP_quantile, 1, &input, attrs);
}

stn_tensor *stn_quantile(stn_tensor *input, double q, stn_quantile_interpolation interpolation)
{
    const struct quantile_attrs attrs = {q, stni_sort_dim(NULL), 0, (int64_t)interpolation};
    return call_quantile(input, &attrs);
}

stn_tensor *stn_quantile_dim(stn_tensor *input, double q, int dim, int keepdim,
                             stn_quantile_interpolation interpolation)
{
    const struct quantile_attrs attrs = {q, stni_sort_dim(&dim), keepdim != 0, (int64_t)interpolation};
    return call_quantile(input, &attrs);
}

/* Where in a line of n elements, from 0; of f32 computed in f32, as PyTorch has it, which decides next to which
 * element a place is that is one but for rounding. */
static double place_of(stn_dtype dtype, double q, int64_t n)
{
    return dtype == STN_DTYPE_F64 ? q * (double)(n - 1) : (double)((float)q * (float)(n - 1));
}

/* The element at a place of each line; NaN of a line that has one. */
static stn_tensor *element(stn_tensor *lines, const struct quantile_attrs *attrs, double place)
{
    const struct stni_sort_select_attrs select = {attrs->dim, (int64_t)place + 1, 1, attrs->keepdim};
    return stni_sort_call(STNI_OP_order_select, lines, &select, NULL);
}

static stn_tensor *quantile_of(stn_tensor *lines, const struct quantile_attrs *attrs, double place)
{
    switch (attrs->interpolation) {
    case STN_QUANTILE_LOWER: return element(lines, attrs, floor(place));
    case STN_QUANTILE_HIGHER: return element(lines, attrs, ceil(place));
    case STN_QUANTILE_NEAREST: return element(lines, attrs, nearbyint(place));
    default: break;
    }
    const double weight = attrs->interpolation == STN_QUANTILE_MIDPOINT ? 0.5 : place - floor(place);
    stn_tensor *below = element(lines, attrs, floor(place));
    return stn_lerp_number(below, floor(place) == place ? below : element(lines, attrs, ceil(place)), weight);
}

/* All elements are one line, of a tensor of one dim. */
static stn_tensor *quantile_of_all(const stn_op_call *call, double place)
{
    struct quantile_attrs attrs = *(const struct quantile_attrs *)call->attrs;
    static const int64_t ones[STN_MAX_NDIM] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int first = 0, ndim = attrs.keepdim ? call->in_spec[0]->layout.ndim : 0;
    attrs.dim = stni_sort_dim(&first);
    attrs.keepdim = 0;
    return stn_reshape(quantile_of(stn_flatten(call->in[0], 0, -1), &attrs, place), ndim, ones);
}

static stn_status quantile(stn_op_call *call)
{
    const struct quantile_attrs *attrs = call->attrs;
    const stn_dtype dtype = call->in_spec[0]->layout.dtype;
    uint32_t dims;
    STNI_TRY(stni_check_floating(call, 0));
    if (!(attrs->q >= 0 && attrs->q <= 1))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'q' got %g, wanted 0 to 1", attrs->q);
    STNI_TRY(stni_sort_check(call, &attrs->dim, 1, &dims));
    const double place = place_of(dtype, attrs->q, stni_reduction_count(call->in_spec[0], dims));
    call->out[0] = attrs->dim.n > 0 ? quantile_of(call->in[0], attrs, place) : quantile_of_all(call, place);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema schema[] = {
    {"q", STN_ATTR_FLOAT, offsetof(struct quantile_attrs, q), NULL},
    {"dim", STN_ATTR_INTS, offsetof(struct quantile_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct quantile_attrs, keepdim), NULL},
    {"interpolation", STN_ATTR_CHOICE, offsetof(struct quantile_attrs, interpolation), interpolations},
};
static const struct quantile_attrs attrs_init = {.q = NAN, .dim = {.n = -1}};

const stn_op_desc stni_op_quantile = {
    .size = sizeof(stn_op_desc),
    .name = "quantile",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct quantile_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = quantile},
    .signature = "input, q, dim=, keepdim=, interpolation=",
};
