/* exp for kernels of every device: branch-free, so that loops over it are vectorised. NaN, infinities and subnormal
 * results are as the C library's.
 *
 * x = k ln 2 + r, |r| <= ln 2 / 2, and e^r is a polynomial: for f32 the one of degree 6 whose largest relative error
 * there is least among those that begin with 1 + r (4e-9), for f64 Taylor's of degree 13 (5e-18). 2^k is multiplied
 * in two steps, so that nothing overflows or is rounded twice where the result is not. Where the result is 0 so is the
 * first factor: a product that underflows takes x86 processors some 150 cycles. */
#ifndef STNI_OPS_CPU_EXP_H
#define STNI_OPS_CPU_EXP_H

#include "core/base/inline.h"
#include "ops/cpu/fused.h"

#include <stdint.h>
#include <string.h>

/* Smallest and largest argument; what lies beyond gives 0 and infinity as they do. From the smallest comes the k for
 * which the first factor is 0, and which no argument has whose result is not. The third is the smallest of
 * stni_exp_addend. C reads them from a source of its own: of a comparison with a constant that it sees, gcc 12 makes
 * up to four instructions, with one that it does not see the processor's minimum or maximum. CUDA devices have that
 * instruction for constants, and cannot read an object of the host. */
#ifdef __cplusplus
#define STNI_EXP_LEAST_F32 -105.0f
#define STNI_EXP_MOST_F32 89.0f
#define STNI_EXP_ADDEND_F32 -87.3f
#define STNI_EXP_LEAST_F64 -746.0
#define STNI_EXP_MOST_F64 710.0
#define STNI_EXP_ADDEND_F64 -708.3
#else
extern const float stni_exp_range_f32[3];
extern const double stni_exp_range_f64[3];
#define STNI_EXP_LEAST_F32 stni_exp_range_f32[0]
#define STNI_EXP_MOST_F32 stni_exp_range_f32[1]
#define STNI_EXP_ADDEND_F32 stni_exp_range_f32[2]
#define STNI_EXP_LEAST_F64 stni_exp_range_f64[0]
#define STNI_EXP_MOST_F64 stni_exp_range_f64[1]
#define STNI_EXP_ADDEND_F64 stni_exp_range_f64[2]
#endif

/* 2^k, -126 <= k <= 127; 0 for k = -127. */
STNI_KERNEL_INLINE float stni_pow2_f32(uint32_t k)
{
    uint32_t bits = (k + 127u) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* p 2^k in two steps, the first of which is exact where the result is a normal number: -150 <= k <= 129. 0 for -151
 * and -152. */
STNI_KERNEL_INLINE float stni_scale_f32(float p, uint32_t k)
{
    const uint32_t half = (uint32_t)((int32_t)(k - 102u) >> 1);
    return p * stni_pow2_f32(half) * stni_pow2_f32(k - half);
}

/* e^r for |r| <= ln 2 / 2. */
STNI_KERNEL_INLINE float stni_exp_near_f32(float r)
{
    float p = 0.00138145406f;
    p = STNI_FMA_F32(p, r, 0.00836874545f);
    p = STNI_FMA_F32(p, r, 0.041668389f);
    p = STNI_FMA_F32(p, r, 0.166665211f);
    p = STNI_FMA_F32(p, r, 0.49999994f);
    p = STNI_FMA_F32(p, r, 1.0f);
    return STNI_FMA_F32(p, r, 1.0f);
}

/* r and *k of x within the range. */
STNI_KERNEL_INLINE float stni_exp_split_f32(float x, uint32_t *k)
{
    /* Added to a small number, it leaves the nearest integer in the low bits. */
    const float round = 12582912.0f;
    float shifted = STNI_FMA_F32(x, 1.44269504f, round), whole = shifted - round;
    memcpy(k, &shifted, sizeof shifted);
    *k -= 0x4b400000u;
    /* ln 2 in two parts; k times the first is exact. */
    return STNI_FMA_F32(whole, -1.42860677e-6f, STNI_FMA_F32(whole, -0.693145752f, x));
}

/* Of x below `lowest`, e^lowest. */
STNI_KERNEL_INLINE float stni_exp_from_f32(float x, float lowest)
{
    uint32_t k;
    const float highest = STNI_EXP_MOST_F32;
    x = lowest > x ? lowest : x;
    x = highest < x ? highest : x;
    float p = stni_exp_near_f32(stni_exp_split_f32(x, &k));
    return stni_scale_f32(p, k);
}

STNI_KERNEL_INLINE float stni_exp_f32(float x)
{
    return stni_exp_from_f32(x, STNI_EXP_LEAST_F32);
}

/* For x <= 0, a quarter cheaper: 2^(k + steps) has no end above to mind. Of x below `lowest`, e^lowest. */
STNI_KERNEL_INLINE float stni_exp_below_f32(float x, float lowest, int32_t steps)
{
    uint32_t k;
    x = lowest > x ? lowest : x;
    float p = stni_exp_near_f32(stni_exp_split_f32(x, &k));
    return p * stni_pow2_f32(k + (uint32_t)steps) * stni_pow2_f32((uint32_t)-steps);
}

STNI_KERNEL_INLINE float stni_exp_negative_f32(float x)
{
    return stni_exp_below_f32(x, STNI_EXP_LEAST_F32, 24);
}

/* For x <= 0, as an addend beside what is not far below 1: 0 where it would be less than 2^-125, so that neither it nor
 * its products with usual numbers are subnormal. */
STNI_KERNEL_INLINE float stni_exp_addend_f32(float x)
{
    return stni_exp_below_f32(x, STNI_EXP_ADDEND_F32, -1);
}

/* 2^k, -1022 <= k <= 1023; 0 for k = -1023. */
STNI_KERNEL_INLINE double stni_pow2_f64(uint64_t k)
{
    uint64_t bits = (k + 1023u) << 52;
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2. Line by line: a loop over coefficients in here keeps gcc 12 from making
 * vectors of the loop around it. */
STNI_KERNEL_INLINE double stni_exp_rest_f64(double r)
{
    double p = 1.0 / 6227020800.0;
    p = STNI_FMA_F64(p, r, 1.0 / 479001600.0);
    p = STNI_FMA_F64(p, r, 1.0 / 39916800.0);
    p = STNI_FMA_F64(p, r, 1.0 / 3628800.0);
    p = STNI_FMA_F64(p, r, 1.0 / 362880.0);
    p = STNI_FMA_F64(p, r, 1.0 / 40320.0);
    p = STNI_FMA_F64(p, r, 1.0 / 5040.0);
    p = STNI_FMA_F64(p, r, 1.0 / 720.0);
    p = STNI_FMA_F64(p, r, 1.0 / 120.0);
    p = STNI_FMA_F64(p, r, 1.0 / 24.0);
    p = STNI_FMA_F64(p, r, 1.0 / 6.0);
    p = STNI_FMA_F64(p, r, 0.5);
    return p;
}

STNI_KERNEL_INLINE double stni_exp_near_f64(double r)
{
    return STNI_FMA_F64(STNI_FMA_F64(stni_exp_rest_f64(r), r, 1.0), r, 1.0);
}

STNI_KERNEL_INLINE double stni_exp_split_f64(double x, uint64_t *k)
{
    const double round = 6755399441055744.0;
    double shifted = STNI_FMA_F64(x, 1.4426950408889634, round), whole = shifted - round;
    memcpy(k, &shifted, sizeof shifted);
    *k -= 0x4338000000000000u;
    return STNI_FMA_F64(whole, -1.9082149292705877e-10, STNI_FMA_F64(whole, -0.69314718036912382, x));
}

STNI_KERNEL_INLINE double stni_exp_f64(double x)
{
    uint64_t k;
    const double lowest = STNI_EXP_LEAST_F64, highest = STNI_EXP_MOST_F64;
    x = lowest > x ? lowest : x;
    x = highest < x ? highest : x;
    double p = stni_exp_near_f64(stni_exp_split_f64(x, &k));
    uint64_t half = (uint64_t)((int64_t)(k - 969u) >> 1);
    return p * stni_pow2_f64(half) * stni_pow2_f64(k - half);
}

STNI_KERNEL_INLINE double stni_exp_below_f64(double x, double lowest, int64_t steps)
{
    uint64_t k;
    x = lowest > x ? lowest : x;
    double p = stni_exp_near_f64(stni_exp_split_f64(x, &k));
    return p * stni_pow2_f64(k + (uint64_t)steps) * stni_pow2_f64((uint64_t)-steps);
}

STNI_KERNEL_INLINE double stni_exp_negative_f64(double x)
{
    return stni_exp_below_f64(x, STNI_EXP_LEAST_F64, 53);
}

STNI_KERNEL_INLINE double stni_exp_addend_f64(double x)
{
    return stni_exp_below_f64(x, STNI_EXP_ADDEND_F64, -1);
}

#endif
