/* exp for kernels: branch-free, so that loops over it become vectors. NaN, infinities and subnormal results are as the C library's.
 *
 * x = k ln 2 + r, |r| <= ln 2 / 2; e^r is its Taylor polynomial (relative error below 6e-9 for f32, 5e-18 for f64), and 2^k is
 * multiplied in two halves, so that neither overflows where the result does not. */
#ifndef STNI_OPS_UTIL_EXP_KERNEL_H
#define STNI_OPS_UTIL_EXP_KERNEL_H

#include <stdint.h>
#include <string.h>

/* 2^k, -126 <= k <= 127. */
static inline float stni_pow2_f32(uint32_t k)
{
    uint32_t bits = (k + 127u) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float stni_exp_f32(float x)
{
    /* Added to a small number, it leaves the nearest integer in the low bits. */
    const float round = 12582912.0f;
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 1.44269504f + round;
    float k = shifted - round;
    /* ln 2 in two parts; k times the first is exact. */
    float r = (x - k * 0.693145752f) - k * 1.42860677e-6f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits -= 0x4b400000u;
    uint32_t half = (uint32_t)((int32_t)bits >> 1);
    return p * stni_pow2_f32(half) * stni_pow2_f32(bits - half);
}

/* 2^k, -1022 <= k <= 1023. */
static inline double stni_pow2_f64(uint64_t k)
{
    uint64_t bits = (k + 1023u) << 52;
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline double stni_exp_f64(double x)
{
    static const double inverse_factorial[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                                               1.0 / 362880.0,     1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,
                                               1.0 / 120.0,        1.0 / 24.0,        1.0 / 6.0,        0.5,
                                               1.0,                1.0};
    const double round = 6755399441055744.0;
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    double shifted = x * 1.4426950408889634 + round;
    double k = shifted - round;
    double r = (x - k * 0.69314718036912382) - k * 1.9082149292705877e-10;
    double p = inverse_factorial[0];
    for (int i = 1; i < 14; i++)
        p = p * r + inverse_factorial[i];
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits -= 0x4338000000000000u;
    uint64_t half = (uint64_t)((int64_t)bits >> 1);
    return p * stni_pow2_f64(half) * stni_pow2_f64(bits - half);
}

#endif
