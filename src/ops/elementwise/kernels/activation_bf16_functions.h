/* Activations of elements that are bf16, by formulas no longer than 8 bits need, for kernels of every device.
 *
 * gelu(x) = x P(x), P the normal distribution. Its upper tail is e^(-x^2/2) r(t), t = 1 / (1 + 0.36 |x|), with r
 * the polynomial of least largest relative error for |x| <= 14.6 (1.5e-5), where results end; the power of 2 is one
 * of degree 4 (2.6e-6). So results are within 0.51 units in the last place of bf16 of the exact ones, and those
 * that are tiny keep their digits. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_ACTIVATION_BF16_FUNCTIONS_H
#define STNI_OPS_ELEMENTWISE_KERNELS_ACTIVATION_BF16_FUNCTIONS_H

#include "ops/cpu/exp.h"

#include <math.h>

/* 1 / x, x >= 1: on CUDA devices the instruction that is wrong by at most a unit in the last place of f32. Division
 * is ten instructions there. */
#ifdef __CUDA_ARCH__
STNI_INLINE float reciprocal_for_bf16(float x)
{
    float value;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}
#else
STNI_INLINE float reciprocal_for_bf16(float x)
{
    return 1.0f / x;
}
#endif

/* 2^(y + 100), y <= 0; below -157 as there. */
STNI_INLINE float exp2_negative_for_bf16(float y)
{
    const float round = 12582912.0f; /* added to a small number, it leaves the nearest integer in the low bits */
    const float lowest = 1.5f * STNI_EXP_LEAST_F32;
    y = lowest > y ? lowest : y;
    const float shifted = y + round, f = y - (shifted - round);
    float p = 0.00957010194f * 0x1p100f;
    p = STNI_FMA_F32(p, f, 0.055917861f * 0x1p100f);
    p = STNI_FMA_F32(p, f, 0.240247448f * 0x1p100f);
    p = STNI_FMA_F32(p, f, 0.693121815f * 0x1p100f);
    p = STNI_FMA_F32(p, f, 0.999999261f * 0x1p100f);
    uint32_t whole, bits;
    memcpy(&whole, &shifted, sizeof whole);
    memcpy(&bits, &p, sizeof bits);
    bits += whole << 23; /* to the exponent; of the rounding constant nothing is left */
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* r(t) 2^-100 */
STNI_INLINE float normal_tail_for_bf16(float t)
{
    float r = -0.0979687268f * 0x1p-100f;
    r = STNI_FMA_F32(r, t, 0.252943159f * 0x1p-100f);
    r = STNI_FMA_F32(r, t, 0.0365432526f * 0x1p-100f);
    r = STNI_FMA_F32(r, t, 0.168041985f * 0x1p-100f);
    r = STNI_FMA_F32(r, t, 0.140262102f * 0x1p-100f);
    return STNI_FMA_F32(r, t, 0.000180578791f * 0x1p-100f);
}

STNI_INLINE float gelu_for_bf16(float x)
{
    const float c = x > 12.0f ? 12.0f : x; /* from there on the tail adds nothing */
    const float t = reciprocal_for_bf16(STNI_FMA_F32(0.36f, fabsf(x), 1.0f));
    const float tail = exp2_negative_for_bf16(-0.721347520f * STNI_FMA_F32(c, c, 0x1p-70f)) * normal_tail_for_bf16(t);
    return x * (x < 0 ? tail : 1.0f - tail);
}

#endif
