/* Activations that read a second tensor or a second half: prelu, whose negative slope is a learned tensor, and glu,
 * which halves a dim. Both are made of other ops, of which `gated` is glu's own. */
#include "core/base/dtype.h"
#include "core/shard/spec.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/elementwise/pointwise.h"

#include <shardtensor/ops.h>

struct glu_attrs {
    int64_t dim;
};

stn_tensor *stn_prelu(stn_tensor *input, stn_tensor *weight)
{
    return stni_call(STNI_OP_prelu, 2, (stn_tensor *[]){input, weight}, NULL);
}

stn_tensor *stn_glu(stn_tensor *input, int dim)
{
    const struct glu_attrs attrs = {dim};
    return stni_call(STNI_OP_glu, 1, &input, &attrs);
}

static stn_status check_prelu(const stn_op_call *call)
{
    const struct stni_layout *input = &call->in_spec[0]->layout, *weight = &call->in_spec[1]->layout;
    char got[STNI_SHAPE_TEXT];
    STNI_TRY(stni_check_floating(call, 0));
    if (weight->dtype != input->dtype)
        return stn_op_fail(call, STN_ERR_DTYPE, "'weight' is %s, wanted input's %s", stn_dtype_name(weight->dtype),
                           stn_dtype_name(input->dtype));
    int64_t channels = input->ndim > 1 ? input->shape[1] : 1;
    if (weight->ndim > 1 || (weight->ndim == 1 && weight->shape[0] != 1 && weight->shape[0] != channels))
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'weight' got shape %s, wanted (1) or (%lld), one for each channel of 'input'",
                           stni_shape_text(weight->ndim, weight->shape, got), (long long)channels);
    return STN_OK;
}

/* x where positive, else w x; w, reduced while it is small, seen along dim 1. The product has zeros in place of what is
 * positive, so that neither an infinite x nor a w that is infinite or NaN makes NaN of a cotangent of 0. */
static stn_status prelu(stn_op_call *call)
{
    STNI_TRY(check_prelu(call));
    stn_tensor *x = call->in[0], *weight = stni_call_complete(call->in[1]);
    int64_t shape[STN_MAX_NDIM];
    int ndim = stn_tensor_ndim(x) > 1 ? stn_tensor_ndim(x) - 1 : 0;
    for (int d = 0; d < ndim; d++)
        shape[d] = d == 0 && stn_tensor_ndim(weight) > 0 ? stn_tensor_shape(weight)[0] : 1;
    stn_tensor *positive = stn_gt_number(x, 0);
    stn_tensor *product = stn_mul(stn_masked_fill(x, positive, 0), stn_view(weight, ndim, shape));
    call->out[0] = stn_where(positive, x, product);
    return STN_OK;
}

/* The first half of the dim times the sigmoid of the second. Of 16-bit floats the sigmoid is not rounded by itself; of
 * others it is kept for the gradients, which take as long again without. */
static stn_status glu(stn_op_call *call)
{
    const struct stni_layout *input = &call->in_spec[0]->layout;
    int dim;
    STNI_TRY(stni_dim_wrap(call, "dim", ((const struct glu_attrs *)call->attrs)->dim, input->ndim, &dim));
    STNI_TRY(stni_check_floating(call, 0));
    int64_t size = input->ndim > 0 ? input->shape[dim] : 1;
    if (size % 2 != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got size %lld along dim %d, wanted an even one",
                           (long long)size, dim);
    stn_tensor *gate = stn_narrow(call->in[0], dim, size / 2, size / 2);
    stn_tensor *first = stn_narrow(call->in[0], dim, 0, size / 2);
    const int narrow = stn_dtype_size(input->dtype) == 2;
    call->out[0] = narrow ? stni_call(STNI_OP_gated, 2, (stn_tensor *[]){first, gate}, NULL)
                          : stn_mul(first, stn_sigmoid(gate));
    return STN_OK;
}

/* x times the sigmoid of y, rounded once. */

static stn_tensor *gated_by_input(const stn_backward_call *call, stn_tensor *grad)
{
    return stni_call(STNI_OP_gated, 2, (stn_tensor *[]){grad, call->in[1]}, NULL);
}

/* In one pass, or of ops that are differentiated again. */
static stn_tensor *gated_by_gate(const stn_backward_call *call, stn_tensor *grad)
{
    if (!stn_grad_enabled(call->context))
        return stni_call(STNI_OP_gated_backward, 3, (stn_tensor *[]){grad, call->in[0], call->in[1]}, NULL);
    stn_tensor *sigmoid = stn_sigmoid(call->in[1]);
    return stni_call(STNI_OP_sigmoid_backward, 2, (stn_tensor *[]){stn_mul(grad, call->in[0]), sigmoid}, NULL);
}

static const struct stni_pointwise_rule gated_rule = {
    .op = STNI_POINTWISE_gated, .dtypes = STNI_FLOATING, .linear = {1},
    .derivative = {{gated_by_input, STNI_READS_IN(1)}, {gated_by_gate, STNI_READS_IN(0) | STNI_READS_IN(1)}},
};
static const stn_input_schema gated_inputs[] = {{"input", 0, 0}, {"gate", 0, 0}};

const stn_op_desc stni_op_gated = {
    .size = sizeof(stn_op_desc), .name = "gated", STN_INPUTS(gated_inputs), STNI_POINTWISE(&gated_rule),
    .flags = STN_OP_INTERNAL,
};

static const struct stni_pointwise_rule gated_backward_rule = {
    .op = STNI_POINTWISE_gated_backward, .dtypes = STNI_FLOATING, .linear = {1},
};
static const stn_input_schema gated_backward_inputs[] = {{"grad", 0, 0}, {"input", 0, 0}, {"gate", 0, 0}};

const stn_op_desc stni_op_gated_backward = {
    .size = sizeof(stn_op_desc), .name = "gated_backward", STN_INPUTS(gated_backward_inputs),
    STNI_POINTWISE(&gated_backward_rule), .flags = STN_OP_INTERNAL,
};

static const stn_input_schema prelu_inputs[] = {{"input", 0, 0}, {"weight", 0, 0}}, glu_inputs[] = {{"input", 0, 0}};
static const stn_attr_schema glu_schema[] = {{"dim", STN_ATTR_INT, 0, NULL}};
static const struct glu_attrs glu_defaults = {-1};

const stn_op_desc stni_op_prelu = {
    .size = sizeof(stn_op_desc),
    .name = "prelu",
    STN_INPUTS(prelu_inputs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = prelu},
};

const stn_op_desc stni_op_glu = {
    .size = sizeof(stn_op_desc),
    .name = "glu",
    STN_INPUTS(glu_inputs),
    STN_ATTRS(glu_schema, struct glu_attrs),
    .attrs_init = &glu_defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = glu},
};
