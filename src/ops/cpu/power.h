/* x to the power of y in f32, for kernels of every device: branch-free, as math.h. The logarithm, its product with y
 * and the exponential are computed in f64 to 1e-9 of the result, so that almost every result is the nearest f32.
 * Signs, zeros, infinities and NaN are as the C library's, which serves where vectors are too narrow to be faster. */
#ifndef STNI_OPS_CPU_POWER_H
#define STNI_OPS_CPU_POWER_H

#include "ops/cpu/math.h"

#include <float.h>
#include <math.h>

#ifdef __AVX2__
/* The integer nearest to x, |x| < 2^51. */
STNI_KERNEL_INLINE double stni_nearest_f64(double x)
{
    const double round = 6755399441055744.0;
    return (x + round) - round;
}

/* The logarithm of x > 0 to the base of 2. As stni_log_split_f32; of the series in s^2 <= 0.0295 what is left out is
 * 2e-12 of the sum. */
STNI_KERNEL_INLINE double stni_log2_wide_f32(float x)
{
    int32_t k;
    const double f = (double)stni_mantissa_f32(x, &k) - 1.0, s = f / (2.0 + f), z = s * s;
    double p = 1.0 / 13.0;
    p = STNI_FMA_F64(p, z, 1.0 / 11.0);
    p = STNI_FMA_F64(p, z, 1.0 / 9.0);
    p = STNI_FMA_F64(p, z, 1.0 / 7.0);
    p = STNI_FMA_F64(p, z, 1.0 / 5.0);
    p = STNI_FMA_F64(p, z, 1.0 / 3.0);
    p = STNI_FMA_F64(p, z, 1.0);
    return STNI_FMA_F64(s * 2.8853900817779268, p, (double)k);
}

/* 2^x as f32, for -160 <= x <= 140; of e^r = 2^x / 2^k what is left out is 2e-10. */
STNI_KERNEL_INLINE float stni_exp2_wide_f32(double x)
{
    const double round = 6755399441055744.0;
    const double shifted = x + round, r = (x - (shifted - round)) * 0.69314718055994531;
    uint64_t k;
    memcpy(&k, &shifted, sizeof k);
    double p = 1.0 / 40320.0;
    p = STNI_FMA_F64(p, r, 1.0 / 5040.0);
    p = STNI_FMA_F64(p, r, 1.0 / 720.0);
    p = STNI_FMA_F64(p, r, 1.0 / 120.0);
    p = STNI_FMA_F64(p, r, 1.0 / 24.0);
    p = STNI_FMA_F64(p, r, 1.0 / 6.0);
    p = STNI_FMA_F64(p, r, 0.5);
    p = STNI_FMA_F64(p, r, 1.0);
    p = STNI_FMA_F64(p, r, 1.0);
    return (float)(p * stni_pow2_f64(k - 0x4338000000000000u));
}

/* a to the power of y, a >= 0. */
STNI_KERNEL_INLINE float stni_pow_magnitude_f32(float a, float y)
{
    double e = (double)y * stni_log2_wide_f32(a);
    e = e > -160.0 ? e : -160.0;
    e = e < 140.0 ? e : 140.0;
    const float at_zero = y > 0.0f ? 0.0f : INFINITY, at_infinity = y > 0.0f ? INFINITY : 0.0f;
    float value = stni_exp2_wide_f32(e);
    value = a == 0.0f ? at_zero : value;
    value = a > FLT_MAX ? at_infinity : value;
    return a == 1.0f ? 1.0f : value;
}

/* From 2^24 on every f32 is an even integer. Conditions are joined by operators that evaluate both sides: gcc makes
 * vectors of them. */
STNI_KERNEL_INLINE float stni_pow_f32(float x, float y)
{
    const float a = fabsf(x), large = 16777216.0f, small = fabsf(y) < large ? y : 0.0f;
    const float half = 0.5f * small, whole = (float)stni_nearest_f64((double)small),
        whole_half = (float)stni_nearest_f64((double)half);
    const float power = stni_pow_magnitude_f32(a, y), sum = x + y, none = NAN;
    float value = whole_half != half ? copysignf(power, x) : power;
    const float of_negative = whole != small ? none : value;
    value = whole != small ? power : value;
    value = ((x < 0.0f) & (a <= FLT_MAX)) ? of_negative : value;
    value = sum != sum ? (((a <= INFINITY) & (fabsf(y) <= INFINITY)) ? value : sum) : value;
    value = y == 0.0f ? 1.0f : value;
    return x == 1.0f ? 1.0f : value;
}
#else
STNI_KERNEL_INLINE float stni_pow_f32(float x, float y)
{
    return powf(x, y);
}
#endif

#endif
