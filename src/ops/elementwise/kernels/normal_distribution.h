/* The normal distribution and its density, with the constants of gelu; activation_functions.h says by which
 * formulas. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_NORMAL_DISTRIBUTION_H
#define STNI_OPS_ELEMENTWISE_KERNELS_NORMAL_DISTRIBUTION_H

#include "ops/elementwise/kernels/functions.h"

/* sqrt(1 / 2), 1 / sqrt(2 pi), sqrt(2 / pi), and the cubic term of the approximation. */
#define GELU_R2 0.70710678118654752440
#define GELU_DENSITY 0.39894228040143267794
#define GELU_K 0.79788456080286535588
#define GELU_C 0.044715

STNI_KERNEL_INLINE float density_f32(float x)
{
    return (float)GELU_DENSITY * stni_exp_addend_f32(-0.5f * stni_square_f32(x));
}

STNI_KERNEL_INLINE double density_f64(double x)
{
    return GELU_DENSITY * stni_exp_addend_f64(-0.5 * x * x);
}

STNI_KERNEL_INLINE float normal_f32(float x)
{
    float z = fabsf(x) * (float)GELU_R2, t = 1.0f / (1.0f + 0.3275911f * z);
    float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    float tail = 0.5f * p * stni_exp_addend_f32(-0.5f * stni_square_f32(x));
    return x < 0 ? tail : 1.0f - tail;
}

STNI_KERNEL_INLINE double normal_f64(double x)
{
    return 0.5 * stni_erfc_f64(-x * GELU_R2);
}

#endif
