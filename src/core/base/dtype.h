/* Element types inside the library: conversions of 16-bit floats, and what a dtype accumulates in. */
#ifndef STNI_CORE_BASE_DTYPE_H
#define STNI_CORE_BASE_DTYPE_H

#include "core/base/inline.h"

#include <shardtensor/dtype.h>

#include <string.h>

static inline int stni_dtype_is_complex(stn_dtype d) { return d == STN_DTYPE_C64 || d == STN_DTYPE_C128; }
static inline int stni_dtype_is_floating(stn_dtype d) { return d <= STN_DTYPE_F16; }
static inline int stni_dtype_is_integer(stn_dtype d)
{
    return d == STN_DTYPE_I64 || d == STN_DTYPE_I32 || d == STN_DTYPE_U8 || d == STN_DTYPE_I8 || d == STN_DTYPE_I16;
}

/* bf16 is the upper half of an f32; rounding to nearest even, NaN stays NaN. One select, of floats: gcc narrows one of
 * integers to 16 bits, and then packs three vectors instead of one. */
STNI_INLINE float stni_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

STNI_INLINE uint16_t stni_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint32_t quiet = u | 0x00400000u, nearest = u + 0x7fffu + (u >> 16 & 1u);
    float nan, rounded;
    memcpy(&nan, &quiet, sizeof nan);
    memcpy(&rounded, &nearest, sizeof rounded);
    rounded = f != f ? nan : rounded;
    memcpy(&u, &rounded, sizeof u);
    return (uint16_t)(u >> 16);
}

/* IEEE binary16. Selects instead of branches, so that loops over them become vector code; no subnormal f32 is
 * computed with, so the results do not depend on the processor's flush-to-zero mode. */
STNI_INLINE float stni_f16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t exponent = u & 0x0f800000u;
    float tiny = (float)(h & 0x3ffu) * 0x1p-24f;
    uint32_t bits;
    memcpy(&bits, &tiny, sizeof bits);
    u += 112u << 23; /* the exponents' biases are 15 and 127 */
    u = exponent == 0x0f800000u ? u + (112u << 23) : u;
    u = exponent == 0 ? bits : u;
    u |= (uint32_t)(h & 0x8000u) << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Rounds to nearest even, beyond 65504 to infinity; NaN stays NaN. */
STNI_INLINE uint16_t stni_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint32_t sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    uint32_t normal = (a - (112u << 23) + 0xfffu + (a >> 13 & 1u)) >> 13;
    /* 0.5 has the spacing of binary16's subnormals, so the addition rounds as they do. */
    float magnitude;
    memcpy(&magnitude, &a, sizeof magnitude);
    magnitude += 0.5f;
    uint32_t subnormal;
    memcpy(&subnormal, &magnitude, sizeof subnormal);
    uint32_t h = a < 0x38800000u ? subnormal - 0x3f000000u : normal;
    h = a >= 0x47800000u ? 0x7c00u : h;
    h = a > 0x7f800000u ? 0x7e00u | (a >> 13 & 0x3ffu) : h;
    return (uint16_t)(sign | h);
}

#endif
