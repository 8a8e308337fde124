/* vector_norm: of order 2 an op of its own (euclidean_norm.c), of other orders made of other reductions. */
#include "ops/reduce/vector_norm.h"

#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/reduce/reduction.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

#include <math.h>

struct norm_attrs {
    stn_ints dim;
    int64_t keepdim;
    double ord;
    int64_t infinite; /* which of stni_vector_norm_infinities; -1: ord says it */
};

static const struct norm_attrs defaults = {.dim = {.n = -1}, .ord = 2, .infinite = -1};

stn_tensor *stn_vector_norm(stn_tensor *input, double ord, int n_dims, const int *dims, int keepdim)
{
    struct norm_attrs attrs = defaults;
    if (!stni_list_read_dims_or_all(input, &(struct stni_list){"vector_norm", "n_dims", "dims", 0}, n_dims, dims,
                                    &attrs.dim))
        return stni_call_error(input);
    attrs.keepdim = keepdim != 0;
    attrs.ord = ord;
    return stni_call(STNI_OP_vector_norm, 1, &input, &attrs);
}

stn_tensor *stni_vector_norm_root(stn_tensor *s, double p)
{
    s = stni_call_complete(s);
    stn_tensor *none = stn_eq_number(s, 0);
    return stn_masked_fill(stn_pow_number(stn_masked_fill(s, none, 1), 1 / p), none, p > 0 ? 0 : INFINITY);
}

/* The largest |x|, the smallest, and how many are not 0, for infinity, -infinity and 0; else (sum |x|^p)^(1/p). */
static stn_tensor *reduced(stn_tensor *a, double p, int n, const int *dims, int keepdim)
{
    if (isinf(p))
        return p > 0 ? stn_amax(a, n, dims, keepdim) : stn_amin(a, n, dims, keepdim);
    if (p == 0)
        return stn_sum(stn_ne_number(a, 0), n, dims, keepdim);
    return p == 1 ? stn_sum(a, n, dims, keepdim)
                  : stni_vector_norm_root(stn_sum(stn_pow_number(a, p), n, dims, keepdim), p);
}

stn_tensor *stni_vector_norm(stn_tensor *x, double p, int n, const int *dims, int keepdim, int wide)
{
    const stn_dtype dtype = stn_tensor_dtype(x), computed = stni_wide_dtype(dtype);
    if (stn_tensor_is_error(x))
        return x;
    if (stni_dtype_is_complex(dtype))
        return stni_vector_norm(stn_abs(x), p, n, dims, keepdim, wide);
    if (p == 2)
        return stni_euclidean_norm(x, n, dims, keepdim, wide);
    const int exact = isinf(p) || (p == 1 && !wide); /* in 16 bits too, but for one rounding */
    return stn_cast(reduced(stn_abs(exact ? x : stn_cast(x, computed)), p, n, dims, keepdim), wide ? computed : dtype);
}

const char *const stni_vector_norm_infinities[] = {"inf", "-inf", NULL};

double stni_vector_norm_order(int64_t infinite, double p)
{
    if (infinite < 0)
        return p;
    return infinite == 0 ? INFINITY : -INFINITY;
}

stn_status stni_vector_norm_check(const stn_op_call *call, double p, const stn_ints *dims)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    char text[STNI_SHAPE_TEXT];
    if (!isinf(p) || stni_reduction_count(call->in_spec[0], stni_dims_mask_of(dims, in->ndim)) > 0)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted at least one element to reduce",
                       stni_shape_text(in->ndim, in->shape, text));
}

static stn_status vector_norm(stn_op_call *call)
{
    const struct norm_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const double p = stni_vector_norm_order(attrs->infinite, attrs->ord);
    struct stni_dims_list over;
    if (!stn_dtype_is_differentiable(in->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a floating or complex dtype",
                           stn_dtype_name(in->dtype));
    STNI_TRY(stni_dims_list(call, "dim", &attrs->dim, in->ndim, &over));
    STNI_TRY(stni_vector_norm_check(call, p, &attrs->dim));
    call->out[0] = stni_vector_norm(call->in[0], p, over.n, over.dims, (int)attrs->keepdim, 0);
    return STN_OK;
}

static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct norm_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct norm_attrs, keepdim), NULL},
    {"ord", STN_ATTR_FLOAT, offsetof(struct norm_attrs, ord), NULL},
    {"ord", STN_ATTR_CHOICE, offsetof(struct norm_attrs, infinite), stni_vector_norm_infinities},
};

const stn_op_desc stni_op_vector_norm = {
    .size = sizeof(stn_op_desc),
    .name = "vector_norm",
    STN_INPUTS(stni_reduction_inputs),
    STN_ATTRS(attrs_schema, struct norm_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = vector_norm},
    .signature = "input, ord=, dim=, keepdim=",
};
