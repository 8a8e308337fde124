/* Complex numbers made of real ones and taken apart: real, imag, angle, complex, polar; and of points of the plane
 * atan2 and hypot. */
#include "core/base/dtype.h"
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"

#include <shardtensor/ops_pointwise.h>

stn_tensor *stn_real(stn_tensor *input)
{
    return stni_call(STNI_OP_real, 1, &input, NULL);
}

stn_tensor *stn_imag(stn_tensor *input)
{
    return stni_call(STNI_OP_imag, 1, &input, NULL);
}

stn_tensor *stn_angle(stn_tensor *input)
{
    return stni_call(STNI_OP_angle, 1, &input, NULL);
}

stn_tensor *stn_complex(stn_tensor *real, stn_tensor *imag)
{
    return stni_call(STNI_OP_complex, 2, (stn_tensor *[]){real, imag}, NULL);
}

stn_tensor *stn_polar(stn_tensor *abs, stn_tensor *angle)
{
    return stni_call(STNI_OP_polar, 2, (stn_tensor *[]){abs, angle}, NULL);
}

stn_tensor *stn_atan2(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_atan2, 2, (stn_tensor *[]){input, other}, NULL);
}

stn_tensor *stn_hypot(stn_tensor *input, stn_tensor *other)
{
    return stni_call(STNI_OP_hypot, 2, (stn_tensor *[]){input, other}, NULL);
}

/* Of complex parts it is no complex dtype, so that the rules refuse them. */
static stn_dtype dtype_complex(const void *attrs, stn_dtype promoted)
{
    if (stni_dtype_is_complex(promoted))
        return stni_dtype_real(attrs, promoted);
    return promoted == STN_DTYPE_F32 ? STN_DTYPE_C64 : promoted == STN_DTYPE_F64 ? STN_DTYPE_C128 : promoted;
}

static stn_dtype angle_dtype(const void *attrs, stn_dtype promoted)
{
    return stni_dtype_real(attrs, stni_dtype_floating(attrs, promoted));
}

/* Derivatives. A cotangent is real where the result is, and the input's complex one is made of it. */

static stn_tensor *imag_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    (void)call;
    return stni_call(STNI_OP_imag_backward, 1, &grad, NULL);
}

static stn_tensor *imag_part(const stn_backward_call *call, stn_tensor *grad)
{
    (void)call;
    return stn_imag(grad);
}

static stn_tensor *real_part(const stn_backward_call *call, stn_tensor *grad)
{
    (void)call;
    return stn_real(grad);
}

/* i z / |z|^2, and 0 where z is, of ops that are differentiated again: nothing is divided by 0, which would make NaN of
 * a further derivative even where its result is left out. */
static stn_tensor *angle_again(stn_tensor *grad, stn_tensor *z)
{
    stn_tensor *re = stn_real(z), *im = stn_imag(z), *origin = stn_eq_number(z, 0);
    stn_tensor *over = stn_div(grad, stn_masked_fill(stn_add(stn_square(re), stn_square(im)), origin, 1));
    return stn_masked_fill(stn_complex(stn_neg(stn_mul(im, over)), stn_mul(re, over)), origin, 0);
}

static stn_tensor *angle_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    if (!stni_dtype_is_complex(stn_spec_dtype(call->in_spec[0])))
        return NULL;
    return stn_grad_enabled(call->context)
               ? angle_again(grad, call->in[0])
               : stni_call(STNI_OP_angle_backward, 2, (stn_tensor *[]){grad, call->in[0]}, NULL);
}

/* r e^(i t) has the derivatives e^(i t) and i r e^(i t), worked out in the dtype that the result was. */
static stn_tensor *abs_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *re = stn_real(grad), *angle = stn_cast(call->in[1], stn_tensor_dtype(re));
    return stn_add(stn_mul(re, stn_cos(angle)), stn_mul(stn_imag(grad), stn_sin(angle)));
}

static stn_tensor *turn_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *re = stn_real(grad), *angle = stn_cast(call->in[1], stn_tensor_dtype(re));
    return stn_mul(call->in[0], stn_sub(stn_mul(stn_imag(grad), stn_cos(angle)), stn_mul(re, stn_sin(angle))));
}

/* b / (a^2 + b^2) of ops that are differentiated again: q is the smaller of a and b over the larger, so that on the
 * axes, too, nothing is divided by 0. */
static stn_tensor *over_square_again(stn_tensor *grad, stn_tensor *a, stn_tensor *b, stn_tensor *origin)
{
    const stn_dtype dtype = stn_tensor_dtype(grad);
    a = stn_cast(a, dtype), b = stn_cast(b, dtype);
    stn_tensor *steep = stn_gt(stn_abs(a), stn_abs(b)), *small = stn_where(steep, b, a);
    stn_tensor *large = stn_masked_fill(stn_where(steep, a, b), origin, 1), *q = stn_div(small, large);
    stn_tensor *part = stn_mul(grad, stn_masked_fill(q, stn_logical_not(steep), 1));
    return stn_masked_fill(stn_div(part, stn_add(large, stn_mul(small, q))), origin, 0);
}

/* The angle of (a, b) has the derivatives b / (a^2 + b^2) and -a / (a^2 + b^2), at the origin 0, as in PyTorch. */
static stn_tensor *over_square(const stn_backward_call *call, stn_tensor *grad, stn_tensor *a, stn_tensor *b)
{
    if (stn_grad_enabled(call->context))
        return over_square_again(grad, a, b, stn_logical_not(stn_logical_or(a, b)));
    return stni_call(STNI_OP_atan2_backward, 3, (stn_tensor *[]){grad, a, b}, NULL);
}

static stn_tensor *atan2_by_input(const stn_backward_call *call, stn_tensor *grad)
{
    return over_square(call, grad, call->in[0], call->in[1]);
}

static stn_tensor *atan2_by_other(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_neg(over_square(call, grad, call->in[1], call->in[0]));
}

static stn_tensor *hypot_by_input(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, stn_div(call->in[0], call->out[0]));
}

static stn_tensor *hypot_by_other(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, stn_div(call->in[1], call->out[0]));
}

static const stn_input_schema parts[] = {{"real", 0, 0}, {"imag", 0, 0}}, polars[] = {{"abs", 0, 0}, {"angle", 0, 0}},
                              pair[] = {{"input", 0, 0}, {"other", 0, 0}},
                              backward_inputs[] = {{"grad", 0, 0}, {"input", 0, 0}},
                              slope_inputs[] = {{"grad", 0, 0}, {"input", 0, 0}, {"other", 0, 0}};

static const struct stni_pointwise_rule real_rule = {
    .op = STNI_POINTWISE_real, .result = stni_dtype_real, .compute = stni_dtype_same, .linear = {1},
    .derivative = {{stni_derivative_same, STNI_READS_NOTHING}},
};
const stn_op_desc stni_op_real = {
    .size = sizeof(stn_op_desc), .name = "real", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&real_rule),
};

static const struct stni_pointwise_rule imag_rule = {
    .op = STNI_POINTWISE_imag, .result = stni_dtype_real, .compute = stni_dtype_same,
    .dtypes = STNI_COMPLEX, .linear = {1}, .derivative = {{imag_derivative, STNI_READS_NOTHING}},
};
const stn_op_desc stni_op_imag = {
    .size = sizeof(stn_op_desc), .name = "imag", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&imag_rule),
};

static const struct stni_pointwise_rule imag_backward_rule = {
    .op = STNI_POINTWISE_imag_backward, .result = dtype_complex, .dtypes = STNI_COMPLEX,
    .linear = {1}, .derivative = {{imag_part, STNI_READS_NOTHING}},
};
const stn_op_desc stni_op_imag_backward = {
    .size = sizeof(stn_op_desc), .name = "imag_backward", STN_INPUTS(stni_unary_inputs),
    STNI_POINTWISE(&imag_backward_rule), .flags = STN_OP_INTERNAL,
};

static const struct stni_pointwise_rule angle_rule = {
    .op = STNI_POINTWISE_angle, .result = angle_dtype, .compute = stni_dtype_floating,
    .dtypes = STNI_FLOATING | STNI_COMPLEX, .derivative = {{angle_derivative, STNI_READS_IN(0)}},
};
const stn_op_desc stni_op_angle = {
    .size = sizeof(stn_op_desc), .name = "angle", STN_INPUTS(stni_unary_inputs), STNI_POINTWISE(&angle_rule),
};

static const struct stni_pointwise_rule angle_backward_rule = {
    .op = STNI_POINTWISE_angle_backward, .dtypes = STNI_COMPLEX, .linear = {1},
};
const stn_op_desc stni_op_angle_backward = {
    .size = sizeof(stn_op_desc), .name = "angle_backward", STN_INPUTS(backward_inputs),
    STNI_POINTWISE(&angle_backward_rule), .flags = STN_OP_INTERNAL,
};

static const struct stni_pointwise_rule complex_rule = {
    .op = STNI_POINTWISE_complex, .result = dtype_complex, .dtypes = STNI_COMPLEX, .linear = {3},
    .derivative = {{real_part, STNI_READS_NOTHING}, {imag_part, STNI_READS_NOTHING}},
};
const stn_op_desc stni_op_complex = {
    .size = sizeof(stn_op_desc), .name = "complex", STN_INPUTS(parts), STNI_POINTWISE(&complex_rule),
};

static const struct stni_pointwise_rule polar_rule = {
    .op = STNI_POINTWISE_polar, .result = dtype_complex, .dtypes = STNI_COMPLEX, .linear = {1},
    .derivative = {{abs_derivative, STNI_READS_IN(1)}, {turn_derivative, STNI_READS_IN(0) | STNI_READS_IN(1)}},
};
const stn_op_desc stni_op_polar = {
    .size = sizeof(stn_op_desc), .name = "polar", STN_INPUTS(polars), STNI_POINTWISE(&polar_rule),
};

static const struct stni_pointwise_rule atan2_rule = {
    .op = STNI_POINTWISE_atan2, .result = stni_dtype_floating, .dtypes = STNI_FLOATING,
    .derivative = {{atan2_by_input, STNI_READS_IN(0) | STNI_READS_IN(1)},
                   {atan2_by_other, STNI_READS_IN(0) | STNI_READS_IN(1)}},
};
const stn_op_desc stni_op_atan2 = {
    .size = sizeof(stn_op_desc), .name = "atan2", STN_INPUTS(pair), STNI_POINTWISE(&atan2_rule),
};

static const struct stni_pointwise_rule atan2_backward_rule = {
    .op = STNI_POINTWISE_atan2_backward, .dtypes = STNI_FLOATING, .linear = {1},
};
const stn_op_desc stni_op_atan2_backward = {
    .size = sizeof(stn_op_desc), .name = "atan2_backward", STN_INPUTS(slope_inputs),
    STNI_POINTWISE(&atan2_backward_rule), .flags = STN_OP_INTERNAL,
};

static const struct stni_pointwise_rule hypot_rule = {
    .op = STNI_POINTWISE_hypot, .dtypes = STNI_FLOATING,
    .derivative = {{hypot_by_input, STNI_READS_IN(0) | STNI_READS_OUT},
                   {hypot_by_other, STNI_READS_IN(1) | STNI_READS_OUT}},
};
const stn_op_desc stni_op_hypot = {
    .size = sizeof(stn_op_desc), .name = "hypot", STN_INPUTS(pair), STNI_POINTWISE(&hypot_rule),
};
