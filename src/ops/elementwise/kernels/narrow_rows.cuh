/* Rows whose operands and results are 16-bit floats, by formulas no longer than their digits need: e^x and reciprocals
 * are the device's own instructions, half the instructions of a row of f32 or fewer.
 *
 * The power of 2 is wrong by 2^-22 of itself, its exponent x / ln 2 by 2^-24 of itself, which is at most 150: e^x is
 * wrong by 1e-5 of itself in bf16 and, where f16 has results, 2e-6. Half a unit in the last place is 2e-3 of bf16 and
 * 2.4e-4 of f16, so that results are within 0.51 of a unit of the exact ones. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_NARROW_ROWS_CUH
#define STNI_OPS_ELEMENTWISE_KERNELS_NARROW_ROWS_CUH

#include "core/device/cuda/elements.cuh"
#include "ops/elementwise/kernels/activation_bf16_functions.h"
#include "ops/elementwise/kernels/pointwise_rows.cuh"

#include <math.h>

namespace {

/* e^x; subnormal numbers, which bf16 has too, are kept. */
STNI_KERNEL_INLINE float exp_for_16_bits(float x)
{
    const float y = x * 1.44269504f;
#ifdef __CUDA_ARCH__
    float value;
    asm("ex2.approx.f32 %0, %1;" : "=f"(value) : "f"(y));
    return value;
#else
    return exp2f(y);
#endif
}

/* 1 / (1 + e^-x) and 1 / (1 + e^x), from the power that is at most 1. */
struct sigmoids {
    float of, of_negative;
};

STNI_KERNEL_INLINE sigmoids sigmoids_for_16_bits(float x)
{
    const float e = exp_for_16_bits(-fabsf(x)), r = reciprocal_for_bf16(1.0f + e);
    return {(x < 0 ? e : 1.0f) * r, (x < 0 ? 1.0f : e) * r};
}

STNI_KERNEL_INLINE float silu_slope_for_16_bits(float x)
{
    const sigmoids s = sigmoids_for_16_bits(x);
    return s.of * (1 + x * s.of_negative);
}

/* Whether elements of S have the row OP here. */
template <int OP, class S> constexpr bool has_narrow_row =
    (is_same<S, bf16> && OP == STNI_POINTWISE_gelu) ||
    ((is_same<S, bf16> || is_same<S, f16>) &&
     (OP == STNI_POINTWISE_exp || OP == STNI_POINTWISE_exp_of_difference || OP == STNI_POINTWISE_sigmoid ||
      OP == STNI_POINTWISE_silu || OP == STNI_POINTWISE_silu_backward));

template <int OP> STNI_KERNEL_INLINE float narrow_row_value(const row_operands<float> &in)
{
    if constexpr (OP == STNI_POINTWISE_gelu)
        return gelu_for_bf16(in.x);
    else if constexpr (OP == STNI_POINTWISE_exp)
        return exp_for_16_bits(in.x);
    else if constexpr (OP == STNI_POINTWISE_exp_of_difference)
        return in.z * exp_for_16_bits(in.x - in.y);
    else if constexpr (OP == STNI_POINTWISE_sigmoid)
        return sigmoids_for_16_bits(in.x).of;
    else if constexpr (OP == STNI_POINTWISE_silu)
        return in.x * sigmoids_for_16_bits(in.x).of;
    else if constexpr (OP == STNI_POINTWISE_silu_backward)
        return in.x * silu_slope_for_16_bits(in.y);
    else
        return in.x;
}

/* A row for operands that lie in memory as elements of S. */
template <int OP, class S, class T> STNI_KERNEL_INLINE T row_value_in(const row_operands<T> &in)
{
    if constexpr (has_narrow_row<OP, S>)
        return narrow_row_value<OP>(in);
    else
        return row_value<OP, T>(in);
}

}

#endif
