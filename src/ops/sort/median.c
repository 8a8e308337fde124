/* kthvalue and median: order_select under the names that users know. */
#include "core/base/dtype.h"
#include "ops/sort/sort_family.h"
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>

struct kth_attrs {
    int64_t k, dim, keepdim;
};

struct median_attrs {
    stn_ints dim;
    int64_t keepdim;
};

stn_tensor *stn_kthvalue(stn_tensor *input, int64_t k, int dim, int keepdim, stn_tensor **indices)
{
    const struct kth_attrs attrs = {k, dim, keepdim != 0};
    return stni_sort_call(STNI_OP_kthvalue, input, &attrs, indices);
}

stn_tensor *stn_median(stn_tensor *input)
{
    return stni_sort_call(STNI_OP_median, input, NULL, NULL);
}

stn_tensor *stn_median_dim(stn_tensor *input, int dim, int keepdim, stn_tensor **indices)
{
    const struct median_attrs attrs = {stni_sort_dim(&dim), keepdim != 0};
    return stni_sort_call(STNI_OP_median, input, &attrs, indices);
}

static stn_status kthvalue(stn_op_call *call)
{
    const struct kth_attrs *attrs = call->attrs;
    const struct stni_sort_select_attrs select = {{1, {attrs->dim}}, attrs->k, 0, attrs->keepdim};
    uint32_t dims;
    STNI_TRY(stni_sort_check(call, &select.dim, 1, &dims));
    int64_t n = stni_reduction_count(call->in_spec[0], dims);
    if (attrs->k < 1 || attrs->k > n)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'k' got %" PRId64 ", wanted 1 <= k <= %" PRId64, attrs->k, n);
    call->out[0] = stni_sort_call(STNI_OP_order_select, call->in[0], &select, &call->out[1]);
    return STN_OK;
}

static stn_status median(stn_op_call *call)
{
    const struct median_attrs *attrs = call->attrs;
    struct stni_sort_select_attrs select = {attrs->dim, 1, stni_dtype_is_floating(call->in_spec[0]->layout.dtype),
                                            attrs->keepdim};
    uint32_t dims;
    STNI_TRY(stni_sort_check(call, &attrs->dim, attrs->dim.n > 0, &dims));
    select.k = (stni_reduction_count(call->in_spec[0], dims) + 1) / 2;
    if (attrs->dim.n > 0) {
        call->out[0] = stni_sort_call(STNI_OP_order_select, call->in[0], &select, &call->out[1]);
        return STN_OK;
    }
    select.keepdim = 0;
    call->n_out = 1;
    if (select.k == 0 && !select.nans)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'input' got %s without elements, wanted a floating dtype or at least one",
                           stn_dtype_name(call->in_spec[0]->layout.dtype));
    if (select.k == 0) { /* a line without elements: NaN, as its mean is */
        call->out[0] = stn_mean(call->in[0], 0, NULL, 0);
        return STN_OK;
    }
    call->out[0] = stni_sort_call(STNI_OP_order_select, call->in[0], &select, NULL);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema kth_schema[] = {
    {"k", STN_ATTR_INT, offsetof(struct kth_attrs, k), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct kth_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct kth_attrs, keepdim), NULL},
};
static const stn_attr_schema median_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct median_attrs, dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct median_attrs, keepdim), NULL},
};
static const struct kth_attrs kth_init = {.dim = -1};
static const struct median_attrs median_init = {.dim = {.n = -1}};

const stn_op_desc stni_op_kthvalue = {
    .size = sizeof(stn_op_desc),
    .name = "kthvalue",
    STN_INPUTS(inputs),
    STN_ATTRS(kth_schema, struct kth_attrs),
    .attrs_init = &kth_init,
    .n_outputs = 2,
    .impl = &(const stn_op_impl){.compose = kthvalue},
    .signature = "input, k, dim=, keepdim=",
};

const stn_op_desc stni_op_median = {
    .size = sizeof(stn_op_desc),
    .name = "median",
    STN_INPUTS(inputs),
    STN_ATTRS(median_schema, struct median_attrs),
    .attrs_init = &median_init,
    .n_outputs = 2,
    .impl = &(const stn_op_impl){.compose = median},
    .signature = "input, dim=, keepdim= -> Tensor | (Tensor, Tensor)",
};
