/* layer_norm: normalised over the last dims, which `normalized_shape` names. */
#include "ops/norm/norm.h"

#include "ops/util/call.h"
#include "ops/util/dims.h"

#include <shardtensor/ops.h>

static const struct stni_norm_attrs defaults = {.normalized_shape = {.n = -1}, .eps = 1e-5};

stn_tensor *stn_layer_norm(stn_tensor *input, int n_dims, const int64_t *normalized_shape, stn_tensor *weight, stn_tensor *bias, double eps)
{
    struct stni_norm_attrs attrs = defaults;
    if (n_dims < 1 || n_dims > STN_MAX_NDIM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "layer_norm: 'n_dims' got %d, wanted 1 to %d", n_dims, STN_MAX_NDIM);
    attrs.normalized_shape.n = n_dims;
    for (int d = 0; d < n_dims; d++)
        attrs.normalized_shape.v[d] = normalized_shape[d];
    attrs.eps = eps;
    return stni_call(STNI_OP_layer_norm, 3, (stn_tensor *[]){input, weight, bias}, &attrs);
}

static stn_status describe(const stn_op_call *call, const struct stni_layout *x, struct stni_norm *out)
{
    const stn_ints *shape = &((const struct stni_norm_attrs *)call->attrs)->normalized_shape;
    const int n = (int)shape->n, first = x->ndim - n;
    char text[2][STNI_SHAPE_TEXT];
    int same = n >= 1 && first >= 0;
    *out = (struct stni_norm){.group_dim = -1, .per_group = 1, .count = 1};
    for (int d = 0; same && d < n; d++) {
        same = x->shape[first + d] == shape->v[d];
        out->count *= shape->v[d];
    }
    if (!same)
        return stn_op_fail(call, STN_ERR_SHAPE, "'normalized_shape' got %s, wanted the last dims of 'input', of shape %s",
                           stni_shape_text(n < 0 ? 0 : n, shape->v, text[0]), stni_shape_text(x->ndim, x->shape, text[1]));
    out->stat_dims = (1u << first) - 1;
    out->param_dims = ((1u << n) - 1) << first;
    return STN_OK;
}

static stn_tensor *group_mean(stn_tensor *t, const struct stni_norm_attrs *attrs)
{
    int dims[STN_MAX_NDIM], n = (int)attrs->normalized_shape.n;
    for (int d = 0; d < n; d++)
        dims[d] = d - n;
    return stn_mean(t, n, dims, 1);
}

static const struct stni_norm_rule rule = {STNI_OP_layer_norm, STNI_OP_layer_norm_backward, describe, group_mean};

static const stn_attr_schema attrs_schema[] = {
    {"normalized_shape", STN_ATTR_INTS, offsetof(struct stni_norm_attrs, normalized_shape), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct stni_norm_attrs, eps), NULL},
};

const stn_op_desc stni_op_layer_norm = {
    STNI_NORM_FIELDS("layer_norm", &rule), .attrs = attrs_schema, .n_attrs = 2, .attrs_init = &defaults,
};

const stn_op_desc stni_op_layer_norm_backward = {
    STNI_NORM_BACKWARD_FIELDS("layer_norm_backward", &rule), .attrs = attrs_schema, .n_attrs = 2, .attrs_init = &defaults,
};
