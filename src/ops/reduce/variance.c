/* var and std: y = sum (x - mean)^2 / (n - correction), and its root. */
#include "ops/reduce/statistic.h"
#include "ops/common/call.h"
#include "ops/common/list.h"
#include "ops/cpu/widen.h"
#include "ops/elementwise/pointwise.h"
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>


static const struct stni_statistic_attrs defaults = {.dim = {.n = -1}, .correction = 1, .unbiased = -1};

static stn_tensor *call_op(enum stni_op_index op, const char *name, stn_tensor *input, int n_dims, const int *dims,
                           double correction, int keepdim)
{
    struct stni_statistic_attrs attrs = defaults;
    if (!stni_list_read_dims_or_all(input, &(struct stni_list){name, "n_dims", "dims", 0}, n_dims, dims,
                                    &attrs.dim))
        return stni_call_error(input);
    attrs.correction = correction;
    attrs.keepdim = keepdim != 0;
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stn_var(stn_tensor *input, int n_dims, const int *dims, double correction, int keepdim)
{
    return call_op(STNI_OP_var, "var", input, n_dims, dims, correction, keepdim);
}

stn_tensor *stn_std(stn_tensor *input, int n_dims, const int *dims, double correction, int keepdim)
{
    return call_op(STNI_OP_std, "std", input, n_dims, dims, correction, keepdim);
}

/* The dims that are reduced, and n - correction. */
struct reduced {
    int n, dims[STN_MAX_NDIM];
    double divisor;
};

static struct reduced reduced_of(const stn_backward_call *call, uint32_t mask)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct reduced r = {0};
    double count = 1;
    for (int d = 0; d < in->ndim; d++)
        if (mask >> d & 1) {
            r.dims[r.n++] = d;
            count *= (double)in->shape[d];
        }
    r.divisor = count - stni_statistic_correction(call->attrs);
    if (r.divisor < 0)
        r.divisor = 0;
    return r;
}

static stn_tensor *wide(const stn_backward_call *call, stn_tensor *t)
{
    return stn_cast(t, stni_wide_dtype(call->in_spec[0]->layout.dtype));
}

/* factor (x - mean), in one pass over x: mean and factor, of 16-bit floats in f32, are as small as the result. */
static stn_tensor *scaled_deviation(const stn_backward_call *call, const struct reduced *r, stn_tensor *factor)
{
    stn_tensor *x = call->in[0];
    stn_tensor *mean = stni_reduction_call(STNI_OP_mean_wide, "mean_wide", x, r->n, r->dims, 1);
    return stni_call(STNI_OP_scaled_difference, 3, (stn_tensor *[]){x, mean, factor}, NULL);
}

/* dy / dx = 2 (x - mean) / (n - correction) */
static void var_backward(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t mask)
{
    const struct reduced r = reduced_of(call, mask);
    (void)out;
    call->grad_in[0] = scaled_deviation(call, &r, stn_mul_number(wide(call, grad), 2 / r.divisor));
}

/* dy / dx = (x - mean) / (y (n - correction)), and 0 where y is, as in PyTorch; y from x, so that it is
 * differentiated again. */
static void std_backward(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t mask)
{
    const struct reduced r = reduced_of(call, mask);
    if (stn_grad_enabled(call->context))
        out = stn_std(call->in[0], r.n, r.dims, stni_statistic_correction(call->attrs), 1);
    stn_tensor *quotient = stn_masked_fill(stn_div(wide(call, grad), out), stn_eq_number(out, 0), 0);
    call->grad_in[0] = scaled_deviation(call, &r, stn_mul_number(quotient, 1 / r.divisor));
}

/* Derivatives of z (x - y). */

static stn_tensor *by_input(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, call->in[2]);
}

static stn_tensor *by_mean(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_neg(stn_mul(grad, call->in[2]));
}

static stn_tensor *by_factor(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, stn_sub(call->in[0], call->in[1]));
}

/* The input alone says which dtype the result has. */
static const struct stni_pointwise_rule difference_rule = {
    .op = STNI_POINTWISE_scaled_difference, .dtypes = STNI_FLOATING, .promotes = 1,
    .derivative = {{by_input, STNI_READS_IN(2)}, {by_mean, STNI_READS_IN(2)},
                   {by_factor, STNI_READS_IN(0) | STNI_READS_IN(1)}},
};

static const stn_input_schema difference_inputs[] = {{"input", 0, 0}, {"mean", 0, 0}, {"factor", 0, 0}};

const stn_op_desc stni_op_scaled_difference = {
    .size = sizeof(stn_op_desc), .name = "scaled_difference", STN_INPUTS(difference_inputs),
    STNI_POINTWISE(&difference_rule), .flags = STN_OP_INTERNAL,
};

static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct stni_statistic_attrs, dim), NULL},
    {"correction", STN_ATTR_FLOAT, offsetof(struct stni_statistic_attrs, correction), NULL},
    {"unbiased", STN_ATTR_BOOL, offsetof(struct stni_statistic_attrs, unbiased), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct stni_statistic_attrs, keepdim), NULL},
};

static const stn_input_schema inputs[] = {{.name = "input"}};

const stn_op_desc stni_op_var = {
    .size = sizeof(stn_op_desc), .name = "var", STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_statistic_attrs), .attrs_init = &defaults, .n_outputs = 1,
    .impl = &stni_statistic_impl,
    .arg = (void *)&(const struct stni_statistic_rule){.what = STNI_STATISTIC_VARIANCE, .backward = var_backward},
    .signature = "input, dim=, *, correction=1, unbiased=, keepdim=",
};

const stn_op_desc stni_op_std = {
    .size = sizeof(stn_op_desc), .name = "std", STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_statistic_attrs), .attrs_init = &defaults, .n_outputs = 1,
    .impl = &stni_statistic_impl,
    .arg = (void *)&(const struct stni_statistic_rule){.what = STNI_STATISTIC_DEVIATION, .backward = std_backward},
    .signature = "input, dim=, *, correction=1, unbiased=, keepdim=",
};
