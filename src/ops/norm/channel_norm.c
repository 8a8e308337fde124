/* channel_norm: (n, channels, …), each channel normalised over all samples, or over each sample by itself. What
 * batch_norm and instance_norm are where statistics are the input's; it gives these too: y, mean, rstd, variance of
 * all elements but one. */
#include "ops/norm/norm.h"

#include "ops/common/dims.h"

#include <shardtensor/ops.h>

static const struct stni_norm_attrs defaults = {.normalized_shape = {.n = -1}, .eps = 1e-5};

static stn_status describe(const stn_op_call *call, const struct stni_layout *x, struct stni_norm *out)
{
    const struct stni_norm_attrs *attrs = call->attrs;
    char text[STNI_SHAPE_TEXT];
    if (x->ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape %s, wanted (n, channels, …)",
                           stni_shape_text(x->ndim, x->shape, text));
    *out = (struct stni_norm){.stat_dims = attrs->per_sample ? 3 : 2, .param_dims = 2, .group_dim = 1, .per_group = 1, .count = 1,
                              .eps = attrs->eps};
    for (int d = 0; d < x->ndim; d++)
        if (!(out->stat_dims >> d & 1))
            out->count *= x->shape[d];
    return STN_OK;
}

static stn_tensor *group_mean(stn_tensor *t, const struct stni_norm_attrs *attrs)
{
    int dims[STN_MAX_NDIM], n = 0;
    for (int d = attrs->per_sample ? 2 : 0; d < stn_tensor_ndim(t); d++)
        if (d != 1)
            dims[n++] = d;
    return n > 0 ? stn_mean(t, n, dims, 1) : t;
}

static const struct stni_norm_rule rule = {STNI_OP_channel_norm, STNI_OP_channel_norm_backward, describe, group_mean};

static const stn_attr_schema attrs_schema[] = {
    {"per_sample", STN_ATTR_BOOL, offsetof(struct stni_norm_attrs, per_sample), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct stni_norm_attrs, eps), NULL},
};

const stn_op_desc stni_op_channel_norm = {
    .size = sizeof(stn_op_desc), .name = "channel_norm", STN_INPUTS(stni_norm_inputs),
    STN_ATTRS(attrs_schema, struct stni_norm_attrs), .attrs_init = &defaults, .n_outputs = 4, .impl = &stni_norm_impl,
    .arg = (void *)&rule, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_channel_norm_backward = {
    .size = sizeof(stn_op_desc), .name = "channel_norm_backward", STN_INPUTS(stni_norm_backward_inputs),
    STN_ATTRS(attrs_schema, struct stni_norm_attrs), .attrs_init = &defaults, .n_outputs = 3,
    .impl = &stni_norm_backward_impl, .arg = (void *)&rule, .flags = STN_OP_INTERNAL,
};
