/* Sixteen 16-bit floats at a time, in f32: vectors of gcc and clang, which become registers or loops. Included by
 * sources that are compiled once per instruction set. */
#ifndef STNI_CORE_BOX_BOX_HALF_H
#define STNI_CORE_BOX_BOX_HALF_H

#include "core/base/dtype.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

/* Without AVX the ABI returns vectors in another way, which does not matter here: all of these functions are
 * inlined. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float vector __attribute__((vector_size(32)));
typedef int32_t vector_mask __attribute__((vector_size(32)));
typedef uint32_t vector_bits __attribute__((vector_size(32)));

enum { WIDE = 16 };

/* 16 elements in an order of the dtype's own: loading and storing agree on it. */
struct wide {
    vector a, b;
};

/* Up to 16 elements in memory, zeros behind them. */
struct tail {
    uint16_t v[WIDE];
};

static inline struct tail tail_of(const uint16_t *from, int64_t n)
{
    struct tail tail = {{0}};
    memcpy(tail.v, from, (size_t)n * sizeof *from);
    return tail;
}

static inline struct wide wide_get(const float *from)
{
    vector a, b;
    memcpy(&a, from, sizeof a);
    memcpy(&b, from + WIDE / 2, sizeof b);
    return (struct wide){a, b};
}

static inline void wide_put(float *to, struct wide w)
{
    memcpy(to, &w.a, sizeof w.a);
    memcpy(to + WIDE / 2, &w.b, sizeof w.b);
}

/* Where `mask` is set a, else b. */
static inline vector vector_select(vector_mask mask, vector a, vector b)
{
    return (vector)((mask & (vector_mask)a) | (~mask & (vector_mask)b));
}

static inline vector vector_sum(vector a, vector b) { return a + b; }
static inline vector vector_prod(vector a, vector b) { return a * b; }
static inline vector vector_min(vector a, vector b) { return vector_select((a <= b) | (a != a), a, b); }
static inline vector vector_max(vector a, vector b) { return vector_select((a >= b) | (a != a), a, b); }

/* Two bf16 share 32 bits: one half of them is an f32 as it stands, the other after a shift. No element changes its
 * place. */
static inline struct wide load_bf16(const uint16_t *from)
{
    vector_bits u;
    memcpy(&u, from, sizeof u);
    return (struct wide){(vector)(u << 16), (vector)(u & 0xffff0000u)};
}

/* As stni_f32_to_bf16, in the upper halves; what the lower ones hold is of no meaning. */
static inline vector_bits round_bf16(vector v)
{
    vector_bits u = (vector_bits)v;
    vector_bits rounded = u + 0x7fff + (u >> 16 & 1), nan = u | 0x400000;
    return (vector_bits)vector_select(v != v, (vector)nan, (vector)rounded);
}

static inline void store_bf16(uint16_t *to, struct wide w)
{
    vector_bits u = (round_bf16(w.a) >> 16) | (round_bf16(w.b) & 0xffff0000u);
    memcpy(to, &u, sizeof u);
}

#ifdef __F16C__
static inline struct wide load_f16(const uint16_t *from)
{
    const __m128i *h = (const void *)from;
    return (struct wide){(vector)_mm256_cvtph_ps(_mm_loadu_si128(h)), (vector)_mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}

static inline void store_f16(uint16_t *to, struct wide w)
{
    __m128i *h = (void *)to;
    _mm_storeu_si128(h, _mm256_cvtps_ph((__m256)w.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(h + 1, _mm256_cvtps_ph((__m256)w.b, _MM_FROUND_TO_NEAREST_INT));
}
#else
static inline struct wide load_f16(const uint16_t *from)
{
    float f[WIDE];
    for (int i = 0; i < WIDE; i++)
        f[i] = stni_f16_to_f32(from[i]);
    return wide_get(f);
}

static inline void store_f16(uint16_t *to, struct wide w)
{
    float f[WIDE];
    wide_put(f, w);
    for (int i = 0; i < WIDE; i++)
        to[i] = stni_f32_to_f16(f[i]);
}
#endif

#endif
