/* layer_norm and rms_norm: normalised over the last dims, which `normalized_shape` names. */
#include "ops/norm/norm.h"

#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"

#include <shardtensor/ops.h>

#include <float.h>
#include <math.h>

static const struct stni_norm_attrs defaults = {.normalized_shape = {.n = -1}, .eps = 1e-5};
static const struct stni_norm_attrs rms_defaults = {.normalized_shape = {.n = -1}, .eps = (double)NAN};

static stn_tensor *call_op(enum stni_op_index op, const char *name, int n, stn_tensor *const *in, int n_dims,
                           const int64_t *shape, double eps)
{
    struct stni_norm_attrs attrs = defaults;
    if (!stni_list_read(in[0], &(struct stni_list){name, "n_dims", "normalized_shape", 1}, n_dims, shape,
                        &attrs.normalized_shape))
        return stni_call_error(in[0]);
    attrs.eps = eps;
    return stni_call(op, n, in, &attrs);
}

stn_tensor *stn_layer_norm(stn_tensor *input, int n_dims, const int64_t *normalized_shape, stn_tensor *weight,
                           stn_tensor *bias, double eps)
{
    return call_op(STNI_OP_layer_norm, "layer_norm", 3, (stn_tensor *[]){input, weight, bias}, n_dims, normalized_shape,
                   eps);
}

stn_tensor *stn_rms_norm(stn_tensor *input, int n_dims, const int64_t *normalized_shape, stn_tensor *weight, double eps)
{
    return call_op(STNI_OP_rms_norm, "rms_norm", 2, (stn_tensor *[]){input, weight}, n_dims, normalized_shape,
                   eps < 0 ? (double)NAN : eps);
}

static stn_status describe(const stn_op_call *call, const struct stni_layout *x, struct stni_norm *out)
{
    const stn_ints *shape = &((const struct stni_norm_attrs *)call->attrs)->normalized_shape;
    const int n = (int)shape->n, first = x->ndim - n;
    char text[2][STNI_SHAPE_TEXT];
    int same = n >= 1 && first >= 0;
    *out = (struct stni_norm){.group_dim = -1, .per_group = 1, .count = 1, .eps = ((const struct stni_norm_attrs *)call->attrs)->eps};
    for (int d = 0; same && d < n; d++) {
        same = x->shape[first + d] == shape->v[d];
        out->count *= shape->v[d];
    }
    if (!same)
        return stn_op_fail(
            call, STN_ERR_SHAPE, "'normalized_shape' got %s, wanted the last dims of 'input', of shape %s",
            stni_shape_text(n < 0 ? 0 : n, shape->v, text[0]), stni_shape_text(x->ndim, x->shape, text[1]));
    out->stat_dims = (1u << first) - 1;
    out->param_dims = ((1u << n) - 1) << first;
    return STN_OK;
}

/* An absent eps, which is NaN, is the spacing of the numbers in which is computed. */
static stn_status describe_rms(const stn_op_call *call, const struct stni_layout *x, struct stni_norm *out)
{
    STNI_TRY(describe(call, x, out));
    out->about_zero = 1;
    if (isnan(out->eps))
        out->eps = x->dtype == STN_DTYPE_F64 ? DBL_EPSILON : FLT_EPSILON;
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
static const struct stni_norm_rule rms_rule = {STNI_OP_rms_norm, STNI_OP_rms_norm_backward, describe_rms, group_mean};

static const stn_input_schema rms_inputs[] = {{.name = "input"}, {.name = "weight", .optional = 1}};
static const stn_attr_schema attrs_schema[] = {
    {"normalized_shape", STN_ATTR_INTS, offsetof(struct stni_norm_attrs, normalized_shape), NULL},
    {"eps", STN_ATTR_FLOAT, offsetof(struct stni_norm_attrs, eps), NULL},
};

const stn_op_desc stni_op_layer_norm = {
    .size = sizeof(stn_op_desc), .name = "layer_norm", STN_INPUTS(stni_norm_inputs),
    STN_ATTRS(attrs_schema, struct stni_norm_attrs), .attrs_init = &defaults, .n_outputs = 3, .n_private = 2,
    .impl = &stni_norm_impl, .arg = (void *)&rule,
    .signature = "input, normalized_shape, weight=, bias=, eps=",
};

const stn_op_desc stni_op_layer_norm_backward = {
    .size = sizeof(stn_op_desc), .name = "layer_norm_backward", STN_INPUTS(stni_norm_backward_inputs),
    STN_ATTRS(attrs_schema, struct stni_norm_attrs), .attrs_init = &defaults, .n_outputs = 3,
    .impl = &stni_norm_backward_impl, .arg = (void *)&rule, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_rms_norm = {
    .size = sizeof(stn_op_desc), .name = "rms_norm", STN_INPUTS(rms_inputs),
    STN_ATTRS(attrs_schema, struct stni_norm_attrs), .attrs_init = &rms_defaults, .n_outputs = 3, .n_private = 2,
    .impl = &stni_norm_impl, .arg = (void *)&rms_rule,
    .signature = "input, normalized_shape, weight=, eps=None",
};

const stn_op_desc stni_op_rms_norm_backward = {
    .size = sizeof(stn_op_desc), .name = "rms_norm_backward", STN_INPUTS(stni_norm_backward_inputs),
    STN_ATTRS(attrs_schema, struct stni_norm_attrs), .attrs_init = &rms_defaults, .n_outputs = 3,
    .impl = &stni_norm_backward_impl, .arg = (void *)&rms_rule, .flags = STN_OP_INTERNAL,
};
