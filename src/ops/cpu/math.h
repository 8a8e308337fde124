/* Elementary functions for kernels of every device: branch-free, so that loops over them are vectorised. Those of f64
 * are in math_f64.h. Errors of those of f32 are a few units in the last place over the whole range; NaN, infinities,
 * signed zeros where they matter and subnormal results are as the C library's.
 *
 * The polynomials are Taylor's, long enough that what is left out is below half a unit in the last place. */
#ifndef STNI_OPS_CPU_MATH_H
#define STNI_OPS_CPU_MATH_H

#include "ops/cpu/exp.h"
#include "ops/cpu/math_f64.h"

#include <float.h>
#include <math.h>

/* x^2 and next to nothing, where it is added to 1 and its like: small numbers have squares that are subnormal, and each
 * product with one takes x86 processors some 150 cycles. */
STNI_KERNEL_INLINE float stni_square_f32(float x)
{
    return STNI_FMA_F32(x, x, 0x1p-70f);
}

STNI_KERNEL_INLINE double stni_square_f64(double x)
{
    return STNI_FMA_F64(x, x, 0x1p-70);
}

/* m and *k of x = 2^k m > 0, sqrt(1/2) <= m < sqrt(2). */
STNI_KERNEL_INLINE float stni_mantissa_f32(float x, int32_t *k)
{
    const uint32_t root_half = 0x3f3504f3u;
    const int subnormal = x < FLT_MIN;
    const float scaled = subnormal ? x * 0x1p25f : x;
    float m;
    uint32_t bits;
    memcpy(&bits, &scaled, sizeof bits);
    const int32_t exponent = (int32_t)(bits - root_half) >> 23;
    *k = exponent - (subnormal ? 25 : 0);
    bits -= (uint32_t)exponent << 23;
    memcpy(&m, &bits, sizeof m);
    return m;
}

/* log m and *k. With f = m - 1 and s = f / (2 + f): log m = 2 atanh s = 2 s + 2 s^3 / 3 + 2 s^5 / 5 …, and
 * 2 s = f - s f, in which the leading term is exact. */
STNI_KERNEL_INLINE float stni_log_split_f32(float x, float *k)
{
    int32_t exponent;
    float m = stni_mantissa_f32(x, &exponent), f = m - 1.0f, s = f / (2.0f + f), z = s * s;
    float p = 2.0f / 9.0f;
    p = STNI_FMA_F32(p, z, 2.0f / 7.0f);
    p = STNI_FMA_F32(p, z, 2.0f / 5.0f);
    p = STNI_FMA_F32(p, z, 2.0f / 3.0f);
    *k = (float)exponent;
    return f - s * (f - p * z);
}

/* What a logarithm of x is where the formula above does not hold, else `value`. */
STNI_KERNEL_INLINE float stni_log_ends_f32(float x, float value)
{
    value = x > FLT_MAX ? x : value;
    value = x == 0.0f ? -INFINITY : value;
    return x >= 0.0f ? value : NAN;
}

STNI_KERNEL_INLINE float stni_log_f32(float x)
{
    float k, m = stni_log_split_f32(x, &k);
    /* ln 2 in two parts; k times the first is exact. */
    return stni_log_ends_f32(x, k * 0.693145752f + (m + k * 1.42860677e-6f));
}

STNI_KERNEL_INLINE float stni_log2_f32(float x)
{
    float k, m = stni_log_split_f32(x, &k);
    return stni_log_ends_f32(x, k + m * 1.44269504f);
}

/* log10 2 in two parts; k times the first is exact. */
STNI_KERNEL_INLINE float stni_log10_f32(float x)
{
    float k, m = stni_log_split_f32(x, &k);
    return stni_log_ends_f32(x, k * 0.301025391f + STNI_FMA_F32(m, 0.434294482f, k * 4.60503898e-6f));
}

/* With w = 1 + x rounded, log(1 + x) is log w less what the rounding added, over w. */
STNI_KERNEL_INLINE float stni_log1p_f32(float x)
{
    float w = 1.0f + x, value = stni_log_f32(w);
    return copysignf(w > 0.0f && w <= FLT_MAX ? value - ((w - 1.0f) - x) / w : value, x);
}

/* For 0 <= x <= 1: log(1 + x) = 2 atanh s, s = x / (2 + x) <= 1 / 3. */
STNI_KERNEL_INLINE float stni_log1p_unit_f32(float x)
{
    float s = x / (2.0f + x), z = stni_square_f32(s);
    float p = 2.0f / 15.0f;
    p = STNI_FMA_F32(p, z, 2.0f / 13.0f);
    p = STNI_FMA_F32(p, z, 2.0f / 11.0f);
    p = STNI_FMA_F32(p, z, 2.0f / 9.0f);
    p = STNI_FMA_F32(p, z, 2.0f / 7.0f);
    p = STNI_FMA_F32(p, z, 2.0f / 5.0f);
    p = STNI_FMA_F32(p, z, 2.0f / 3.0f);
    return s * (p * z + 2.0f);
}

STNI_KERNEL_INLINE float stni_exp2_f32(float x)
{
    const float round = 12582912.0f; /* added to a small number, it leaves the nearest integer in the low bits */
    x = x < -151.0f ? -151.0f : x;
    x = x > 129.0f ? 129.0f : x;
    float shifted = x + round;
    float p = stni_exp_near_f32((x - (shifted - round)) * 0.693147181f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return stni_scale_f32(p, bits - 0x4b400000u);
}

/* For |x| <= 1. */
STNI_KERNEL_INLINE float stni_expm1_taylor_f32(float x)
{
    float p = 1.0f / 3628800.0f;
    p = STNI_FMA_F32(p, x, 1.0f / 362880.0f);
    p = STNI_FMA_F32(p, x, 1.0f / 40320.0f);
    p = STNI_FMA_F32(p, x, 1.0f / 5040.0f);
    p = STNI_FMA_F32(p, x, 1.0f / 720.0f);
    p = STNI_FMA_F32(p, x, 1.0f / 120.0f);
    p = STNI_FMA_F32(p, x, 1.0f / 24.0f);
    p = STNI_FMA_F32(p, x, 1.0f / 6.0f);
    p = STNI_FMA_F32(p, x, 0.5f);
    return STNI_FMA_F32(x * p, x, x);
}

STNI_KERNEL_INLINE float stni_expm1_f32(float x)
{
    float small = stni_expm1_taylor_f32(x), large = stni_exp_from_f32(x, STNI_EXP_ADDEND_F32) - 1.0f;
    return copysignf(fabsf(x) < 0.7f ? small : large, x);
}

/* tanh x = (1 - e^-2x) / (1 + e^-2x), x > 0; where that loses digits, x + x^3 times the polynomial in x^2 whose
 * largest error for |x| <= 1/2 is least (2e-8). */
STNI_KERNEL_INLINE float stni_tanh_f32(float x)
{
    float a = fabsf(x), e = stni_exp_addend_f32(-2.0f * a), z = stni_square_f32(x);
    float p = 0.017241491f;
    p = STNI_FMA_F32(p, z, -0.0530454926f);
    p = STNI_FMA_F32(p, z, 0.13325879f);
    p = STNI_FMA_F32(p, z, -0.333331436f);
    return copysignf(a < 0.5f ? STNI_FMA_F32(p * z, a, a) : (1.0f - e) / (1.0f + e), x);
}

/* Halves of the argument, so that neither overflows before the result does. */
STNI_KERNEL_INLINE float stni_sinh_f32(float x)
{
    float z = stni_square_f32(x), h = stni_exp_f32(0.5f * fabsf(x));
    float p = 1.0f / 362880.0f;
    p = STNI_FMA_F32(p, z, 1.0f / 5040.0f);
    p = STNI_FMA_F32(p, z, 1.0f / 120.0f);
    p = STNI_FMA_F32(p, z, 1.0f / 6.0f);
    return fabsf(x) < 1.0f ? STNI_FMA_F32(z * p, x, x) : copysignf(0.5f * h * h - 0.5f / (h * h), x);
}

STNI_KERNEL_INLINE float stni_cosh_f32(float x)
{
    float h = stni_exp_f32(0.5f * fabsf(x));
    return 0.5f * h * h + 0.5f / (h * h);
}

/* log(x + root), root = sqrt(x^2 + 1) or sqrt(x^2 - 1), for x >= 1; log 2x where these are no other number. */
STNI_KERNEL_INLINE float stni_log_with_root_f32(float x, float root)
{
    const int large = x > 4096.0f;
    const float w = large ? x : x + root;
    float k, m = stni_log_split_f32(w, &k);
    k = large ? k + 1.0f : k;
    return stni_log_ends_f32(w, k * 0.693145752f + (m + k * 1.42860677e-6f));
}

/* Inverse hyperbolic functions: near their zeros by the polynomial of least largest relative error in the result (less
 * than 5e-10, of atanh 1.5e-9), beyond by logarithms. */

/* asinh a = a + a^3 P(a^2) for a <= 1. */
STNI_KERNEL_INLINE float stni_asinh_f32(float x)
{
    const float a = fabsf(x), z = stni_square_f32(a);
    float p = -0.000391224316f;
    p = STNI_FMA_F32(p, z, 0.0024118808f);
    p = STNI_FMA_F32(p, z, -0.00704583711f);
    p = STNI_FMA_F32(p, z, 0.0136099287f);
    p = STNI_FMA_F32(p, z, -0.0210073186f);
    p = STNI_FMA_F32(p, z, 0.0300658218f);
    p = STNI_FMA_F32(p, z, -0.0446001911f);
    p = STNI_FMA_F32(p, z, 0.0749971258f);
    p = STNI_FMA_F32(p, z, -0.166666599f);
    const float near = STNI_FMA_F32(p * z, a, a), far = stni_log_with_root_f32(a, sqrtf(z + 1.0f));
    return copysignf(a < 1.0f ? near : far, x);
}

/* With t = x - 1, acosh x = sqrt(2t) (1 + t P(t)) for t <= 1. */
STNI_KERNEL_INLINE float stni_acosh_f32(float x)
{
    const float t = x - 1.0f, root = sqrtf(2.0f * t);
    float p = -2.69995807e-05f;
    p = STNI_FMA_F32(p, t, 0.000175846191f);
    p = STNI_FMA_F32(p, t, -0.000632168334f);
    p = STNI_FMA_F32(p, t, 0.00187123618f);
    p = STNI_FMA_F32(p, t, -0.00557405443f);
    p = STNI_FMA_F32(p, t, 0.0187493064f);
    p = STNI_FMA_F32(p, t, -0.0833333073f);
    const float near = STNI_FMA_F32(p * t, root, root);
    return x < 2.0f ? near : stni_log_with_root_f32(x, sqrtf(STNI_FMA_F32(x, x, -1.0f)));
}

/* atanh a = a + a^3 P(a^2) for |a| <= 1/2. */
STNI_KERNEL_INLINE float stni_atanh_near_f32(float a)
{
    const float z = stni_square_f32(a);
    float p = 0.176691488f;
    p = STNI_FMA_F32(p, z, 0.0513580066f);
    p = STNI_FMA_F32(p, z, 0.118237375f);
    p = STNI_FMA_F32(p, z, 0.142227608f);
    p = STNI_FMA_F32(p, z, 0.200025184f);
    p = STNI_FMA_F32(p, z, 0.333333001f);
    return STNI_FMA_F32(p * z, a, a);
}

/* Beyond 1/2 log((1 + a) / (1 - a)) / 2, which is NaN beyond 1. */
STNI_KERNEL_INLINE float stni_atanh_f32(float x)
{
    const float a = fabsf(x), near = stni_atanh_near_f32(a), far = 0.5f * stni_log_f32((1.0f + a) / (1.0f - a));
    return copysignf(a < 0.5f ? near : far, x);
}

/* log(x / (1 - x)), near 1/2, where it is small, 2 atanh(2x - 1), of which the argument is exact. */
STNI_KERNEL_INLINE float stni_logit_f32(float x)
{
    const float a = 2.0f * x - 1.0f, near = 2.0f * stni_atanh_near_f32(a), far = stni_log_f32(x / (1.0f - x));
    return fabsf(a) < 0.5f ? near : far;
}

/* 1 / (1 + e^-x); e is at most 1, so that nothing overflows and small results keep their digits. */
STNI_KERNEL_INLINE float stni_sigmoid_f32(float x)
{
    float e = stni_exp_negative_f32(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

STNI_KERNEL_INLINE double stni_sigmoid_f64(double x)
{
    double e = stni_exp_negative_f64(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* erf x = x + x P(x^2) for |x| < 1, beyond it 1 - e^(-a Q(a)) with a = |x|; from 4 on it is 1. Both polynomials are
 * those of least largest error in the result (1.2e-9, 4e-10). */
STNI_KERNEL_INLINE float stni_erf_f32(float x)
{
    float a = fabsf(x), z = stni_square_f32(x);
    float p = 7.853858e-05f;
    p = STNI_FMA_F32(p, z, -0.00080101925f);
    p = STNI_FMA_F32(p, z, 0.0051883277f);
    p = STNI_FMA_F32(p, z, -0.026853811f);
    p = STNI_FMA_F32(p, z, 0.112835854f);
    p = STNI_FMA_F32(p, z, -0.37612626f);
    p = STNI_FMA_F32(p, z, 0.12837917f);
    float b = a > 4.0f ? 4.0f : a;
    float q = 1.3541946e-05f;
    q = STNI_FMA_F32(q, b, -0.00034620275f);
    q = STNI_FMA_F32(q, b, 0.0037388096f);
    q = STNI_FMA_F32(q, b, -0.02396865f);
    q = STNI_FMA_F32(q, b, 0.10648028f);
    q = STNI_FMA_F32(q, b, 0.6350018f);
    q = STNI_FMA_F32(q, b, 1.128686f);
    float near = a + a * p, far = 1.0f - stni_exp_addend_f32(-b * q);
    return copysignf(a < 1.0f ? near : far, x);
}

/* 1 - erf x for |x| < 1/2, beyond it e^(-a^2) / (1 + 2 a) times a polynomial in u = (a - 3) / (a + 3), a = |x|, to
 * 2^-29. What rounding took from a^2 the power makes up for. From 10.2 on it is 0. */
STNI_KERNEL_INLINE float stni_erfc_f32(float x)
{
    const float a = fabsf(x) > 10.2f ? 10.2f : fabsf(x), near = 1.0f - stni_erf_f32(x);
    const float u = (a - 3.0f) / (a + 3.0f), square = a * a, rest = STNI_SQUARE_REST_F32(a, square);
    float p = -0.000267178431f;
    p = STNI_FMA_F32(p, u, -0.000775115623f);
    p = STNI_FMA_F32(p, u, 0.00200335286f);
    p = STNI_FMA_F32(p, u, 0.00256655924f);
    p = STNI_FMA_F32(p, u, -0.0237985384f);
    p = STNI_FMA_F32(p, u, 0.068295747f);
    p = STNI_FMA_F32(p, u, -0.119270794f);
    p = STNI_FMA_F32(p, u, 0.129646435f);
    p = STNI_FMA_F32(p, u, -0.0475624092f);
    p = STNI_FMA_F32(p, u, -0.135621145f);
    p = STNI_FMA_F32(p, u, 1.25300801f);
    const float value = stni_exp_negative_f32(-square) * (p / (1.0f + 2.0f * a));
    const float tail = value - rest * value, far = x < 0.0f ? 2.0f - tail : tail;
    return a < 0.5f ? near : far;
}

/* asin s for 0 <= s <= 1/2, z = s^2. */
STNI_KERNEL_INLINE float stni_asin_near_f32(float s, float z)
{
    float p = 0.0375782549f;
    p = STNI_FMA_F32(p, z, 0.014393731f);
    p = STNI_FMA_F32(p, z, 0.031819839f);
    p = STNI_FMA_F32(p, z, 0.0445154682f);
    p = STNI_FMA_F32(p, z, 0.0750051215f);
    p = STNI_FMA_F32(p, z, 0.166666597f);
    return STNI_FMA_F32(s * z, p, s);
}

/* asin a for a <= 1/2, beyond it half of acos a: asin sqrt((1 - a) / 2), which is NaN beyond 1. */
STNI_KERNEL_INLINE float stni_asin_or_half_acos_f32(float a)
{
    const float half = 0.5f * (1.0f - a), root = sqrtf(half);
    return stni_asin_near_f32(a > 0.5f ? root : a, a > 0.5f ? half : stni_square_f32(a));
}

STNI_KERNEL_INLINE float stni_asin_f32(float x)
{
    const float a = fabsf(x), angle = stni_asin_or_half_acos_f32(a);
    return copysignf(a > 0.5f ? 1.57079637f - (2.0f * angle + 4.37113883e-8f) : angle, x);
}

STNI_KERNEL_INLINE float stni_acos_f32(float x)
{
    const float a = fabsf(x), angle = stni_asin_or_half_acos_f32(a), twice = 2.0f * angle;
    const float beyond = x < 0.0f ? 3.14159274f - (twice + 8.74227766e-8f) : twice;
    return a > 0.5f ? beyond : 1.57079637f - (copysignf(angle, x) + 4.37113883e-8f);
}

/* In f64, in which no square overflows; an infinite side has an infinite diagonal, whatever the other one is. */
STNI_KERNEL_INLINE float stni_hypot_f32(float x, float y)
{
#ifdef __CUDACC__ /* most GPUs have few units for f64 */
    return hypotf(x, y);
#else
    const double a = (double)x, b = (double)y;
    const float value = (float)sqrt(a * a + b * b);
    return ((fabsf(x) > FLT_MAX) | (fabsf(y) > FLT_MAX)) ? INFINITY : value;
#endif
}

/* atan t for 0 <= t <= 1: t + t^3 P(t^2), the polynomial of least largest relative error (2.6e-9). */
STNI_KERNEL_INLINE float stni_atan_unit_f32(float t)
{
    float z = stni_square_f32(t);
    float p = -0.0017935939f;
    p = STNI_FMA_F32(p, z, 0.010914481f);
    p = STNI_FMA_F32(p, z, -0.031177614f);
    p = STNI_FMA_F32(p, z, 0.057957359f);
    p = STNI_FMA_F32(p, z, -0.084034368f);
    p = STNI_FMA_F32(p, z, 0.10952181f);
    p = STNI_FMA_F32(p, z, -0.14264241f);
    p = STNI_FMA_F32(p, z, 0.19998549f);
    p = STNI_FMA_F32(p, z, -0.33333299f);
    return STNI_FMA_F32(p * z, t, t);
}

/* The angle of the smaller coordinate over the larger, then by symmetry; pi and pi / 2 in two parts. Of two zeros
 * the quotient counts as 0 / 1, of two infinities as 1. */
STNI_KERNEL_INLINE float stni_atan2_f32(float y, float x)
{
    float a = fabsf(x), b = fabsf(y), small = b < a ? b : a, large = b < a ? a : b;
    float t = small / (large == 0.0f ? 1.0f : large);
    t = small > FLT_MAX ? 1.0f : t;
    float angle = stni_atan_unit_f32(t);
    angle = b > a ? (1.57079637f - angle) - 4.37113883e-8f : angle;
    angle = copysignf(1.0f, x) < 0.0f ? (3.14159274f - angle) - 8.74227766e-8f : angle;
    return x != x || y != y ? x + y : copysignf(angle, y);
}

STNI_KERNEL_INLINE float stni_atan_f32(float x)
{
    float a = fabsf(x), angle = stni_atan_unit_f32(a > 1.0f ? 1.0f / a : a);
    return copysignf(a > 1.0f ? (1.57079637f - angle) - 4.37113883e-8f : angle, x);
}

/* Sine, cosine and tangent where |x| <= STNI_NEAR_F32. x = k pi / 2 + r, |r| <= pi / 4, is computed in f64 with pi /
 * 2 in two parts, of which k times the first is exact: so r keeps its digits beside a multiple of pi. */
#define STNI_NEAR_F32 524288.0f

STNI_KERNEL_INLINE float stni_reduce_near_f32(float x, int32_t *quadrant)
{
    const double round = 6755399441055744.0; /* added to a small number, it leaves the nearest integer */
    double d = (double)x, k = (d * 0.63661977236758134308 + round) - round;
    *quadrant = (int32_t)k;
    return (float)((d - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34);
}

/* In quadrant 0 the sine of r, in the others by symmetry. */
STNI_KERNEL_INLINE float stni_sine_f32(float r, int32_t quadrant)
{
    float z = stni_square_f32(r);
    float s = -1.0f / 39916800.0f;
    s = STNI_FMA_F32(s, z, 1.0f / 362880.0f);
    s = STNI_FMA_F32(s, z, -1.0f / 5040.0f);
    s = STNI_FMA_F32(s, z, 1.0f / 120.0f);
    s = STNI_FMA_F32(s, z, -1.0f / 6.0f);
    s = STNI_FMA_F32(z * s, r, r);
    float c = -1.0f / 3628800.0f;
    c = STNI_FMA_F32(c, z, 1.0f / 40320.0f);
    c = STNI_FMA_F32(c, z, -1.0f / 720.0f);
    c = STNI_FMA_F32(c, z, 1.0f / 24.0f);
    c = STNI_FMA_F32(c, z, -0.5f);
    c = 1.0f + z * c;
    float value = quadrant & 1 ? c : s;
    return quadrant & 2 ? -value : value;
}

STNI_KERNEL_INLINE float stni_sin_near_f32(float x)
{
    int32_t quadrant;
    float r = stni_reduce_near_f32(x, &quadrant), value = stni_sine_f32(r, quadrant);
    return x == 0.0f ? x : value;
}

STNI_KERNEL_INLINE float stni_cos_near_f32(float x)
{
    int32_t quadrant;
    float r = stni_reduce_near_f32(x, &quadrant);
    return stni_sine_f32(r, quadrant + 1);
}

STNI_KERNEL_INLINE float stni_tan_near_f32(float x)
{
    int32_t quadrant;
    float r = stni_reduce_near_f32(x, &quadrant), value = stni_sine_f32(r, quadrant) / stni_sine_f32(r, quadrant + 1);
    return x == 0.0f ? x : value;
}

#endif
