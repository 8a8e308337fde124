/* weighted_mean and weighted_var: m = sum w x / W and sum w (x - m)^2 / W, W = sum w, the weights repeated for each
 * element that they belong to. */
#include "ops/reduce/statistic.h"
#include "ops/common/call.h"
#include "ops/common/list.h"
#include "ops/common/sum_to.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>


enum { INPUT, WEIGHT };

static const struct stni_statistic_attrs defaults = {.dim = {.n = -1}, .unbiased = -1};

static stn_tensor *call_op(enum stni_op_index op, const char *name, stn_tensor *input, stn_tensor *weight, int n_dims,
                           const int *dims, int keepdim)
{
    struct stni_statistic_attrs attrs = defaults;
    if (!stni_list_read_dims_or_all(input, &(struct stni_list){name, "n_dims", "dims", 0}, n_dims, dims,
                                    &attrs.dim))
        return stni_call_error(input);
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

/* What the cotangents are made of, of 16-bit floats in f32. */
struct parts {
    struct reduced over;
    stn_tensor *x, *w, *g; /* g: grad / W */
};

static stn_tensor *wide(const stn_backward_call *call, stn_tensor *t)
{
    return stn_cast(t, stni_wide_dtype(call->in_spec[INPUT]->layout.dtype));
}

static struct parts parts_of(const stn_backward_call *call, stn_tensor *grad, uint32_t mask)
{
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    struct parts p = {list(call, mask), wide(call, call->in[INPUT]), wide(call, call->in[WEIGHT]), NULL};
    p.g = stn_div(wide(call, grad), stn_sum(stn_expand(p.w, in->ndim, in->shape), p.over.n, p.over.dims, 1));
    return p;
}

/* The result from the operands: it knows how it depends on them, and is not rounded to 16 bits. */
static int is_made_again(const stn_backward_call *call, const struct parts *p)
{
    return stn_grad_enabled(call->context) || stn_tensor_dtype(p->x) != call->in_spec[INPUT]->layout.dtype;
}

static void give(stn_backward_call *call, int k, stn_tensor *grad)
{
    call->grad_in[k] = stn_cast(grad, call->in_spec[INPUT]->layout.dtype);
}

/* dm / dx = w / W, dm / dw = (x - m) / W */
static void mean_backward(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t mask)
{
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    const struct parts p = parts_of(call, grad, mask);
    if (is_made_again(call, &p))
        out = stn_weighted_mean(p.x, p.w, p.over.n, p.over.dims, 1);
    if (call->needs >> INPUT & 1)
        give(call, INPUT, stn_mul(stn_expand(p.w, in->ndim, in->shape), p.g));
    if (call->needs >> WEIGHT & 1)
        give(call, WEIGHT, stni_sum_to(stn_mul(stn_sub(p.x, out), p.g), call->in_spec[WEIGHT]));
}

/* dv / dx = 2 w (x - m) / W, dv / dw = ((x - m)^2 - v) / W */
static void var_backward(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t mask)
{
    const struct parts p = parts_of(call, grad, mask);
    stn_tensor *d = stn_sub(p.x, stn_weighted_mean(p.x, p.w, p.over.n, p.over.dims, 1));
    if (is_made_again(call, &p))
        out = stn_weighted_var(p.x, p.w, p.over.n, p.over.dims, 1);
    if (call->needs >> INPUT & 1)
        give(call, INPUT, stn_mul(stn_mul(d, p.w), stn_mul_number(p.g, 2)));
    if (call->needs >> WEIGHT & 1)
        give(call, WEIGHT, stni_sum_to(stn_mul(stn_sub(stn_mul(d, d), out), p.g), call->in_spec[WEIGHT]));
}

static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct stni_statistic_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct stni_statistic_attrs, keepdim), NULL},
};

static const stn_input_schema inputs[] = {[INPUT] = {.name = "input"}, [WEIGHT] = {.name = "weight"}};

const stn_op_desc stni_op_weighted_mean = {
    .size = sizeof(stn_op_desc), .name = "weighted_mean", STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_statistic_attrs), .attrs_init = &defaults, .n_outputs = 1,
    .impl = &stni_statistic_weighted_impl,
    .arg = (void *)&(const struct stni_statistic_rule){.what = STNI_STATISTIC_MEAN, .backward = mean_backward},
};

const stn_op_desc stni_op_weighted_var = {
    .size = sizeof(stn_op_desc), .name = "weighted_var", STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_statistic_attrs), .attrs_init = &defaults, .n_outputs = 1,
    .impl = &stni_statistic_weighted_impl,
    .arg = (void *)&(const struct stni_statistic_rule){.what = STNI_STATISTIC_VARIANCE, .backward = var_backward},
};
