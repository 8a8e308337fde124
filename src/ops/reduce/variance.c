/* var and std: y = sum (x - mean)^2 / (n - correction), and its root. */
#include "ops/reduce/statistic.h"
#include "ops/common/call.h"
#include "ops/common/list.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

#include <limits.h>

static const struct stni_statistic_attrs defaults = {.dim = {.n = -1}, .correction = 1, .unbiased = -1};

static stn_tensor *call_op(enum stni_op_index op, const char *name, stn_tensor *input, int n_dims, const int *dims, double correction,
                           int keepdim)
{
    struct stni_statistic_attrs attrs = defaults;
    if (!stni_list_read_dims_or_all(input, &(struct stni_list){name, "n_dims", "dims", INT_MIN}, n_dims, dims, &attrs.dim))
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

/* x - mean, of 16-bit floats in f32, and what it is divided by: n - correction. */
static stn_tensor *deviation(const stn_backward_call *call, uint32_t reduced, double *divisor)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int dims[STN_MAX_NDIM], n = 0;
    double count = 1;
    for (int d = 0; d < in->ndim; d++)
        if (reduced >> d & 1) {
            dims[n++] = d;
            count *= (double)in->shape[d];
        }
    *divisor = count - stni_statistic_correction(call->attrs);
    if (*divisor < 0)
        *divisor = 0;
    stn_tensor *x = stn_cast(call->in[0], stni_wide_dtype(in->dtype));
    return stn_sub(x, stn_mean(x, n, dims, 1));
}

/* dy / dx = 2 (x - mean) / (n - correction) */
static void var_backward(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t reduced)
{
    double divisor;
    stn_tensor *d = deviation(call, reduced, &divisor);
    (void)out;
    call->grad_in[0] = stn_cast(stn_mul(d, stn_mul_number(stn_cast(grad, stn_tensor_dtype(d)), 2 / divisor)), stn_spec_dtype(call->in_spec[0]));
}

/* dy / dx = (x - mean) / (y (n - correction)); y from x, so that it is differentiated again. */
static void std_backward(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t reduced)
{
    double divisor;
    stn_tensor *d = deviation(call, reduced, &divisor);
    if (stn_grad_enabled(call->context)) {
        int dims[STN_MAX_NDIM], n = 0;
        for (int k = 0; k < call->in_spec[0]->layout.ndim; k++)
            if (reduced >> k & 1)
                dims[n++] = k;
        out = stn_std(call->in[0], n, dims, stni_statistic_correction(call->attrs), 1);
    }
    grad = stn_mul_number(stn_div(stn_cast(grad, stn_tensor_dtype(d)), out), 1 / divisor);
    call->grad_in[0] = stn_cast(stn_mul(d, grad), stn_spec_dtype(call->in_spec[0]));
}

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
