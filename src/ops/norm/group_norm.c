/* group_norm: (n, channels, …), normalised over each group of channels of an n. */
#include "ops/norm/norm.h"

#include "ops/common/call.h"
#include "ops/common/dims.h"

#include <shardtensor/ops.h>

#include <inttypes.h>

static const struct stni_norm_attrs defaults = {.normalized_shape = {.n = -1}, .eps = 1e-5};

stn_tensor *stn_group_norm(stn_tensor *input, int64_t groups, stn_tensor *weight, stn_tensor *bias, double eps)
{
    struct stni_norm_attrs attrs = defaults;
    attrs.num_groups = groups;
    attrs.eps = eps;
    return stni_call(STNI_OP_group_norm, 3, (stn_tensor *[]){input, weight, bias}, &attrs);
}

static stn_status describe(const stn_op_call *call, const struct stni_layout *x, struct stni_norm *out)
{
    const struct stni_norm_attrs *attrs = call->attrs;
    char text[STNI_SHAPE_TEXT];
    if (x->ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted (n, channels, …)",
                           stni_shape_text(x->ndim, x->shape, text));
    if (attrs->num_groups < 1 || x->shape[1] % attrs->num_groups != 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'num_groups' got %" PRId64 ", wanted a divisor of the %" PRId64 " channels",
                           attrs->num_groups, x->shape[1]);
    /* No channels make no groups, of whatever size but 0. */
    const int64_t per_group = x->shape[1] > 0 ? x->shape[1] / attrs->num_groups : 1;
    *out = (struct stni_norm){.stat_dims = 3, .param_dims = 2, .group_dim = 1, .per_group = per_group, .eps = attrs->eps};
    out->count = out->per_group;
    for (int d = 2; d < x->ndim; d++)
        out->count *= x->shape[d];
    return STN_OK;
}

static stn_tensor *group_mean(stn_tensor *t, const struct stni_norm_attrs *attrs)
{
    const int ndim = stn_tensor_ndim(t);
    const int64_t *shape = stn_tensor_shape(t);
    int64_t whole[STN_MAX_NDIM],
        grouped[STN_MAX_NDIM + 1] = {shape[0], attrs->num_groups, shape[1] / attrs->num_groups};
    int dims[STN_MAX_NDIM];
    for (int d = 0; d < ndim; d++)
        whole[d] = shape[d];
    for (int d = 2; d <= ndim; d++) {
        dims[d - 2] = d;
        grouped[d] = d == 2 ? grouped[2] : shape[d - 1];
    }
    stn_tensor *mean = stn_mean(stn_view(t, ndim + 1, grouped), ndim - 1, dims, 1);
    return stn_view(stn_expand(mean, ndim + 1, grouped), ndim, whole);
}

static const struct stni_norm_rule rule = {STNI_OP_group_norm, STNI_OP_group_norm_backward, describe, group_mean};

static const stn_attr_schema attrs_schema[] = {
    {"num_groups", STN_ATTR_INT, offsetof(struct stni_norm_attrs, num_groups), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct stni_norm_attrs, eps), NULL},
};

const stn_op_desc stni_op_group_norm = {
    .size = sizeof(stn_op_desc), .name = "group_norm", STN_INPUTS(stni_norm_inputs),
    STN_ATTRS(attrs_schema, struct stni_norm_attrs), .attrs_init = &defaults, .n_outputs = 3, .n_private = 2,
    .impl = &stni_norm_impl, .arg = (void *)&rule,
    .signature = "input, num_groups, weight=, bias=, eps=",
};

const stn_op_desc stni_op_group_norm_backward = {
    .size = sizeof(stn_op_desc), .name = "group_norm_backward", STN_INPUTS(stni_norm_backward_inputs),
    STN_ATTRS(attrs_schema, struct stni_norm_attrs), .attrs_init = &defaults, .n_outputs = 3,
    .impl = &stni_norm_backward_impl, .arg = (void *)&rule, .flags = STN_OP_INTERNAL,
};
