/* gelu: x times the normal distribution at x, or the tanh approximation of it. gelu_backward is the cotangent times the slope, and
 * gelu_curvature the second derivative, so that gradients can be differentiated once more. */
#include "ops/elementwise/pointwise.h"
#include "ops/util/call.h"

#include <shardtensor/ops.h>

#include <stddef.h>

struct gelu_attrs {
    int64_t approximate; /* stn_gelu_approximation */
};

stn_tensor *stn_gelu(stn_tensor *input, stn_gelu_approximation approximation)
{
    const struct gelu_attrs attrs = {approximation};
    if (approximation != STN_GELU_ERF && approximation != STN_GELU_TANH)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "gelu: approximation got %d, wanted STN_GELU_ERF or STN_GELU_TANH", (int)approximation);
    return stni_call(STNI_OP_gelu, 1, &input, &attrs);
}

static void gelu_numbers(const void *attrs, struct stni_pointwise_numbers *out)
{
    out->a = (stn_number){STN_NUMBER_FLOAT, 0, (double)((const struct gelu_attrs *)attrs)->approximate};
}

static stn_tensor *times_slope(stn_tensor *grad, stn_tensor *input, const void *attrs)
{
    return stni_call(STNI_OP_gelu_backward, 2, (stn_tensor *[]){grad, input}, attrs);
}

static stn_tensor *gelu_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    return times_slope(grad, call->in[0], call->attrs);
}

static stn_tensor *backward_by_grad(const stn_backward_call *call, stn_tensor *grad)
{
    return times_slope(grad, call->in[1], call->attrs);
}

static stn_tensor *backward_by_input(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *curvature = stni_call(STNI_OP_gelu_curvature, 1, &call->in[1], call->attrs);
    return stn_mul(stn_mul(grad, call->in[0]), curvature);
}

static stn_tensor *third_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    (void)call;
    return stni_call_fail(grad, STN_ERR_UNSUPPORTED, "gelu: there is no third derivative");
}

enum { FLOATING = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

static const char *const approximations[] = {"none", "tanh", NULL};
static const stn_attr_schema schema[] = {{"approximate", STN_ATTR_CHOICE, offsetof(struct gelu_attrs, approximate), approximations}};
static const stn_input_schema backward_inputs[] = {{.name = "grad"}, {.name = "input"}};

#define GELU_ATTRS .attrs = schema, .n_attrs = 1, .attrs_size = sizeof(struct gelu_attrs)

const stn_op_desc stni_op_gelu = {
    STNI_UNARY_INPUTS, GELU_ATTRS,
    STNI_POINTWISE_FIELDS("gelu", .op = STNI_POINTWISE_gelu, .dtypes = FLOATING, .numbers = gelu_numbers,
                          .derivative = {{gelu_derivative, STNI_READS_IN(0)}}),
};

const stn_op_desc stni_op_gelu_backward = {
    .inputs = backward_inputs, .n_inputs = 2, GELU_ATTRS,
    STNI_POINTWISE_FIELDS("gelu_backward", .op = STNI_POINTWISE_gelu_backward, .dtypes = FLOATING, .linear = {1}, .numbers = gelu_numbers,
                          .derivative = {{backward_by_grad, STNI_READS_IN(1)},
                                         {backward_by_input, STNI_READS_IN(0) | STNI_READS_IN(1)}}),
};

const stn_op_desc stni_op_gelu_curvature = {
    STNI_UNARY_INPUTS, GELU_ATTRS,
    STNI_POINTWISE_FIELDS("gelu_curvature", .op = STNI_POINTWISE_gelu_curvature, .dtypes = FLOATING, .numbers = gelu_numbers,
                          .derivative = {{third_derivative, STNI_READS_NOTHING}}),
};
