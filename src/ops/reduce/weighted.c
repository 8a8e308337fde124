/* weighted_mean and weighted_var: m = sum w x / W and sum w (x - m)^2 / W, W = sum w, the weights repeated for each element that they belong to. */
#include "ops/reduce/statistic.h"
#include "ops/util/call.h"
#include "ops/util/sum_to.h"

#include <shardtensor/ops.h>

enum { INPUT, WEIGHT };

static const struct stni_statistic_attrs defaults = {.dim = {.n = -1}, .unbiased = -1};

static stn_tensor *call_op(enum stni_op_index op, const char *name, stn_tensor *input, stn_tensor *weight, int n_dims, const int *dims, int keepdim)
{
    struct stni_statistic_attrs attrs = defaults;
    if (n_dims > STN_MAX_NDIM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: 'n_dims' got %d, wanted at most %d", name, n_dims, STN_MAX_NDIM);
    attrs.dim.n = n_dims > 0 ? n_dims : -1;
    for (int i = 0; i < n_dims; i++)
        attrs.dim.v[i] = dims[i];
    attrs.keepdim = keepdim != 0;
    return stni_call(op, 2, (stn_tensor *[]){input, weight}, &attrs);
}

stn_tensor *stn_weighted_mean(stn_tensor *input, stn_tensor *weight, int n_dims, const int *dims, int keepdim)
{
    return call_op(STNI_OP_weighted_mean, "weighted_mean", input, weight, n_dims, dims, keepdim);
}

stn_tensor *stn_weighted_var(stn_tensor *input, stn_tensor *weight, int n_dims, const int *dims, int keepdim)
{
    return call_op(STNI_OP_weighted_var, "weighted_var", input, weight, n_dims, dims, keepdim);
}

struct reduced {
    int n, dims[STN_MAX_NDIM];
};

static struct reduced list(const stn_backward_call *call, uint32_t mask)
{
    struct reduced r = {0};
    for (int d = 0; d < call->in_spec[INPUT]->layout.ndim; d++)
        if (mask >> d & 1)
            r.dims[r.n++] = d;
    return r;
}

/* grad / W */
static stn_tensor *per_weight(const stn_backward_call *call, stn_tensor *grad, const struct reduced *r)
{
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    return stn_div(grad, stn_sum(stn_expand(call->in[WEIGHT], in->ndim, in->shape), r->n, r->dims, 1));
}

/* dm / dx = w / W, dm / dw = (x - m) / W */
static void mean_backward(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t mask)
{
    const struct reduced r = list(call, mask);
    stn_tensor *x = call->in[INPUT], *w = call->in[WEIGHT], *g = per_weight(call, grad, &r);
    if (stn_grad_enabled(call->context))
        out = stn_weighted_mean(x, w, r.n, r.dims, 1); /* which knows how it depends on them */
    if (call->needs >> INPUT & 1)
        call->grad_in[INPUT] = stn_mul(stn_expand(w, call->in_spec[INPUT]->layout.ndim, call->in_spec[INPUT]->layout.shape), g);
    if (call->needs >> WEIGHT & 1)
        call->grad_in[WEIGHT] = stni_sum_to(stn_mul(stn_sub(x, out), g), call->in_spec[WEIGHT]);
}

/* dv / dx = 2 w (x - m) / W, dv / dw = ((x - m)^2 - v) / W */
static void var_backward(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t mask)
{
    const struct reduced r = list(call, mask);
    stn_tensor *x = call->in[INPUT], *w = call->in[WEIGHT], *g = per_weight(call, grad, &r);
    stn_tensor *d = stn_sub(x, stn_weighted_mean(x, w, r.n, r.dims, 1));
    if (stn_grad_enabled(call->context))
        out = stn_weighted_var(x, w, r.n, r.dims, 1);
    if (call->needs >> INPUT & 1)
        call->grad_in[INPUT] = stn_mul(stn_mul(d, w), stn_mul_number(g, 2));
    if (call->needs >> WEIGHT & 1)
        call->grad_in[WEIGHT] = stni_sum_to(stn_mul(stn_sub(stn_mul(d, d), out), g), call->in_spec[WEIGHT]);
}

static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct stni_statistic_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct stni_statistic_attrs, keepdim), NULL},
};

const stn_op_desc stni_op_weighted_mean = {
    STNI_STATISTIC_FIELDS("weighted_mean", 2, .what = STNI_STATISTIC_MEAN, .backward = mean_backward),
    .attrs = attrs_schema, .n_attrs = 2, .attrs_init = &defaults,
};

const stn_op_desc stni_op_weighted_var = {
    STNI_STATISTIC_FIELDS("weighted_var", 2, .what = STNI_STATISTIC_VARIANCE, .backward = var_backward),
    .attrs = attrs_schema, .n_attrs = 2, .attrs_init = &defaults,
};
