/* Element types inside the library: conversions of 16-bit floats, and what a dtype accumulates in. */
#ifndef STNI_CORE_DTYPE_H
#define STNI_CORE_DTYPE_H

#include <shardtensor/dtype.h>

#include <string.h>

static inline int stni_dtype_is_complex(stn_dtype d) { return d == STN_DTYPE_C64 || d == STN_DTYPE_C128; }
static inline int stni_dtype_is_floating(stn_dtype d) { return d <= STN_DTYPE_F16; }
static inline int stni_dtype_is_integer(stn_dtype d) { return d == STN_DTYPE_I64 || d == STN_DTYPE_I32 || d == STN_DTYPE_U8; }

/* bf16 is the upper half of an f32; rounding to nearest even, NaN stays NaN. */
static inline float stni_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint16_t stni_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* IEEE binary16, round to nearest even. */
float stni_f16_to_f32(uint16_t h);
uint16_t stni_f32_to_f16(float f);

#endif
