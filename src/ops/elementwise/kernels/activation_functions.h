/* Functions that the rows of activation.h name.
 *
 * gelu(x) = x P(x), P the normal distribution, or its tanh approximation; with first and second derivatives.
 * Hendrycks and Gimpel 2016. f32: P's upper tail is 7.1.26 of Abramowitz and Stegun (absolute error below 1.5e-7)
 * with exp as a polynomial, so that loops become vectors. f64: erfc. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_ACTIVATION_FUNCTIONS_H
#define STNI_OPS_ELEMENTWISE_KERNELS_ACTIVATION_FUNCTIONS_H

#include "ops/elementwise/kernels/normal_distribution.h"

#define STNI_2RSQRTPI 1.12837916709551257390 /* 2 / sqrt(pi) */
/* The scale of selu, and its product with alpha. Klambauer et al. 2017. */
#define STNI_SELU 1.0507009873554804934
#define STNI_SELU_NEGATIVE 1.7580993408473768599

/* One set of formulas for both types. */
#define T float
#define NAME(name) name##_f32
#include "ops/elementwise/kernels/activation_functions_tmpl.h"
#define T double
#define NAME(name) name##_f64
#include "ops/elementwise/kernels/activation_functions_tmpl.h"

#define ERF(x) FLOATING(x, stni_erf_f32, stni_erf_f64)(x)
#define ERFC(x) FLOATING(x, stni_erfc_f32, stni_erfc_f64)(x)
#define NORMAL(x) FLOATING(x, normal_f32, normal_f64)(x)
#define DENSITY(x) FLOATING(x, density_f32, density_f64)(x)
#define GELU_SLOPE(x) FLOATING(x, gelu_derivative_f32, gelu_derivative_f64)(x)
#define GELU_TANH(x) FLOATING(x, gelu_tanh_f32, gelu_tanh_f64)(x)
#define GELU_TANH_SLOPE(x) FLOATING(x, gelu_tanh_derivative_f32, gelu_tanh_derivative_f64)(x)
#define GELU_TANH_BEND(x) FLOATING(x, gelu_tanh_second_derivative_f32, gelu_tanh_second_derivative_f64)(x)
#define SOFTPLUS(x) FLOATING(x, softplus_f32, softplus_f64)(x)
#define SILU_SLOPE(x) FLOATING(x, silu_derivative_f32, silu_derivative_f64)(x)
#define SILU_BEND(x) FLOATING(x, silu_second_derivative_f32, silu_second_derivative_f64)(x)
#define MISH_T(x) FLOATING(x, mish_t_f32, mish_t_f64)(x)
#define MISH_SLOPE(x) FLOATING(x, mish_derivative_f32, mish_derivative_f64)(x)
#define MISH_BEND(x) FLOATING(x, mish_second_derivative_f32, mish_second_derivative_f64)(x)
#define LOGIT_SLOPE(x, eps) FLOATING(x, logit_derivative_f32, logit_derivative_f64)(x, eps)
#define LOGIT_BEND(x, eps) FLOATING(x, logit_second_derivative_f32, logit_second_derivative_f64)(x, eps)
#define SOFTSIGN_SLOPE(x) FLOATING(x, softsign_derivative_f32, softsign_derivative_f64)(x)
#define SOFTSIGN_BEND(x) FLOATING(x, softsign_second_derivative_f32, softsign_second_derivative_f64)(x)

#endif
