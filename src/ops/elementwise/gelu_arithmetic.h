/* gelu(x) = x P(x), P the normal distribution, or its tanh approximation; with first and second derivatives. Hendrycks and Gimpel 2016.
 *
 * f32: P's upper tail is 7.1.26 of Abramowitz and Stegun (absolute error below 1.5e-7) with exp as a polynomial, so that loops become
 * vectors. f64: the C library's erfc. */
#ifndef STNI_OPS_ELEMENTWISE_GELU_ARITHMETIC_H
#define STNI_OPS_ELEMENTWISE_GELU_ARITHMETIC_H

#include "ops/util/exp_kernel.h"

#include <math.h>

/* sqrt(1 / 2), 1 / sqrt(2 pi), sqrt(2 / pi), and the cubic term of the approximation. */
#define GELU_R2 0.70710678118654752440
#define GELU_DENSITY 0.39894228040143267794
#define GELU_K 0.79788456080286535588
#define GELU_C 0.044715

static inline float gelu_density_f32(float x)
{
    return (float)GELU_DENSITY * stni_exp_f32(-0.5f * x * x);
}

static inline double gelu_density_f64(double x)
{
    return GELU_DENSITY * exp(-0.5 * x * x);
}

static inline float gelu_normal_f32(float x)
{
    float z = fabsf(x) * (float)GELU_R2, t = 1.0f / (1.0f + 0.3275911f * z);
    float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    float tail = 0.5f * p * stni_exp_f32(-0.5f * x * x);
    return x < 0 ? tail : 1.0f - tail;
}

static inline double gelu_normal_f64(double x)
{
    return 0.5 * erfc(-x * GELU_R2);
}

static inline float gelu_tanh_f32(float u)
{
    return 1.0f - 2.0f / (stni_exp_f32(2.0f * u) + 1.0f);
}

static inline double gelu_tanh_f64(double u)
{
    return tanh(u);
}

/* One set of formulas for both types; `approximate` is the same for a whole loop, which the compiler splits by it. */
#define GELU_T float
#define GELU_F(name) name##_f32
#include "ops/elementwise/gelu_formulas.inc"
#define GELU_T double
#define GELU_F(name) name##_f64
#include "ops/elementwise/gelu_formulas.inc"

#define GELU(x, approximate) _Generic((x), float: gelu_f32, default: gelu_f64)(x, approximate)
#define GELU_SLOPE(x, approximate) _Generic((x), float: gelu_slope_f32, default: gelu_slope_f64)(x, approximate)
#define GELU_CURVATURE(x, approximate) _Generic((x), float: gelu_curvature_f32, default: gelu_curvature_f64)(x, approximate)

#endif
