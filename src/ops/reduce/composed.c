/* Reductions made of others: logsumexp, vector_norm. */
#include "core/dtype.h"
#include "ops/reduce/reduction.h"
#include "ops/util/call.h"
#include "ops/util/check.h"
#include "ops/util/dims.h"

#include <shardtensor/ops.h>

#include <math.h>

struct norm_attrs {
    stn_ints dim;
    int64_t keepdim;
    double ord;
    int64_t infinite; /* which of `infinities`; -1: ord says it */
};

static const struct norm_attrs norm_defaults = {.dim = {.n = -1}, .ord = 2, .infinite = -1};

stn_tensor *stn_logsumexp(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_logsumexp, "logsumexp", input, n_dims, dims, keepdim);
}

stn_tensor *stn_vector_norm(stn_tensor *input, double ord, int n_dims, const int *dims, int keepdim)
{
    struct norm_attrs attrs = norm_defaults;
    if (n_dims > STN_MAX_NDIM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "vector_norm: 'n_dims' got %d, wanted at most %d", n_dims, STN_MAX_NDIM);
    attrs.dim.n = n_dims > 0 ? n_dims : -1;
    for (int i = 0; i < n_dims; i++)
        attrs.dim.v[i] = dims[i];
    attrs.keepdim = keepdim != 0;
    attrs.ord = ord;
    return stni_call(STNI_OP_vector_norm, 1, &input, &attrs);
}

/* The reduced dims, counted from the front. */
struct reduced {
    int n, dims[STN_MAX_NDIM];
    uint32_t mask;
};

static stn_status list(const stn_op_call *call, const stn_ints *dim, struct reduced *r)
{
    const int ndim = call->in_spec[0]->layout.ndim;
    STNI_TRY(stni_dims_mask(call, "dim", dim, ndim, &r->mask));
    r->n = 0;
    for (int d = 0; d < ndim; d++)
        if (r->mask >> d & 1)
            r->dims[r->n++] = d;
    return STN_OK;
}

/* log sum exp(x - m) + m with the largest x, where that is finite, for m. */
static stn_status logsumexp(stn_op_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t shape[STN_MAX_NDIM];
    struct reduced r;
    int n = 0;
    STNI_TRY(stni_check_floating(call, 0));
    STNI_TRY(list(call, &attrs->dim, &r));
    if (stni_reduction_count(call->in_spec[0], r.mask) == 0) {
        call->out[0] = stn_log(stn_sum(call->in[0], r.n, r.dims, (int)attrs->keepdim));
        return STN_OK;
    }
    stn_tensor *m = stn_amax(stn_detach(call->in[0]), r.n, r.dims, 1);
    m = stn_masked_fill(m, stn_logical_not(stn_isfinite(m)), 0);
    stn_tensor *y = stn_add(stn_log(stn_sum(stn_exp(stn_sub(call->in[0], m)), r.n, r.dims, 1)), m);
    for (int d = 0; d < in->ndim; d++)
        if (!(r.mask >> d & 1))
            shape[n++] = in->shape[d];
    call->out[0] = attrs->keepdim ? y : stn_view(y, n, shape);
    return STN_OK;
}

/* s^(1/p), with the gradient 0 where s is 0. */
static stn_tensor *root(stn_tensor *s, double p)
{
    stn_tensor *some = stn_ne_number(s, 0), *safe = stn_masked_fill(s, stn_logical_not(some), 1);
    return stn_mul(p == 2 ? stn_sqrt(safe) : stn_pow_number(safe, 1 / p), some);
}

/* (sum |x|^p)^(1/p); the largest |x|, the smallest, and how many are not 0, for infinity, -infinity and 0. */
static stn_status vector_norm(stn_op_call *call)
{
    const struct norm_attrs *attrs = call->attrs;
    const stn_dtype dtype = call->in_spec[0]->layout.dtype;
    const double p = attrs->infinite == 0 ? INFINITY : attrs->infinite == 1 ? -INFINITY : attrs->ord;
    const int keepdim = (int)attrs->keepdim;
    struct reduced r;
    if (!stn_dtype_is_differentiable(dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a floating or complex dtype", stn_dtype_name(dtype));
    STNI_TRY(list(call, &attrs->dim, &r));
    stn_tensor *x = call->in[0], *a = p == 2 && stni_dtype_is_floating(dtype) ? x : stn_abs(x);
    if (stn_tensor_is_error(a))
        call->out[0] = a;
    else if (isinf(p))
        call->out[0] = p > 0 ? stn_amax(a, r.n, r.dims, keepdim) : stn_amin(a, r.n, r.dims, keepdim);
    else if (p == 0)
        call->out[0] = stn_cast(stn_sum(stn_ne_number(a, 0), r.n, r.dims, keepdim), stn_tensor_dtype(a));
    else if (p == 1)
        call->out[0] = stn_sum(a, r.n, r.dims, keepdim);
    else
        call->out[0] = root(stn_sum(p == 2 ? stn_mul(a, a) : stn_pow_number(a, p), r.n, r.dims, keepdim), p);
    return STN_OK;
}

static const char *const infinities[] = {"inf", "-inf", NULL};

static const stn_attr_schema norm_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct norm_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct norm_attrs, keepdim), NULL},
    {"ord", STN_ATTR_FLOAT, offsetof(struct norm_attrs, ord), NULL},
    {"ord", STN_ATTR_CHOICE, offsetof(struct norm_attrs, infinite), infinities},
};

#define COMPOSED_FIELDS(text, function) \
    .size = sizeof(stn_op_desc), .name = text, .inputs = stni_reduction_inputs, .n_inputs = 1, .n_outputs = 1, .compose = function

const stn_op_desc stni_op_logsumexp = {
    COMPOSED_FIELDS("logsumexp", logsumexp), .attrs = stni_reduction_attrs_schema, .n_attrs = 2,
    .attrs_size = sizeof(struct stni_reduction_attrs), .attrs_init = &stni_reduction_defaults,
};

const stn_op_desc stni_op_vector_norm = {
    COMPOSED_FIELDS("vector_norm", vector_norm), .attrs = norm_schema, .n_attrs = 4, .attrs_size = sizeof(struct norm_attrs),
    .attrs_init = &norm_defaults,
};
