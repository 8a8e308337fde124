/* Vectors of the widest kind, four at a time: with their operands they stay in registers. What multi_reduce_tmpl.h
 * is written in. */
#ifndef STNI_CORE_COMM_MULTI_REDUCE_VECTOR_H
#define STNI_CORE_COMM_MULTI_REDUCE_VECTOR_H

#include "core/base/dtype.h"
#include "core/comm/multi_reduce.h"

#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

/* PAIRS: of each pair of 16-bit lanes, the first of `even` and the second of `odd`. SUBTRACT_SATURATED: a - b, 0
 * where b is larger. */
#if defined(__AVX512F__)
enum { WIDTH = 64 };
#define PAIRS(even, odd) ((u16_vector)_mm512_mask_blend_epi16(0xaaaaaaaa, (__m512i)(even), (__m512i)(odd)))
#define SUBTRACT_SATURATED(a, b) ((u16_vector)_mm512_subs_epu16((__m512i)(a), (__m512i)(b)))
#elif defined(__AVX2__)
enum { WIDTH = 32 };
#define PAIRS(even, odd) ((u16_vector)_mm256_blend_epi16((__m256i)(even), (__m256i)(odd), 0xaa))
#define SUBTRACT_SATURATED(a, b) ((u16_vector)_mm256_subs_epu16((__m256i)(a), (__m256i)(b)))
#else
enum { WIDTH = 16 };
#define PAIRS(even, odd) ((u16_vector)(((u32_vector)(even) & 0xffffu) | ((u32_vector)(odd) & 0xffff0000u)))
#define SUBTRACT_SATURATED(a, b) (((a) - (b)) & (u16_vector)((a) >= (b)))
#endif

enum { VECTORS = 4 };

typedef float f32_vector __attribute__((vector_size(WIDTH)));
typedef double f64_vector __attribute__((vector_size(WIDTH)));
typedef int32_t i32_vector __attribute__((vector_size(WIDTH)));
typedef int64_t i64_vector __attribute__((vector_size(WIDTH)));
typedef int16_t i16_vector __attribute__((vector_size(WIDTH)));
typedef uint16_t u16_vector __attribute__((vector_size(WIDTH)));
typedef uint32_t u32_vector __attribute__((vector_size(WIDTH)));
typedef uint64_t u64_vector __attribute__((vector_size(WIDTH)));

/* Anywhere in memory, over any type. */
typedef i64_vector memory_vector __attribute__((aligned(1), may_alias));

/* The ops must become constants and the vectors stay in registers, whatever the compiler thinks of the size. */
#define INLINE static inline __attribute__((always_inline))

INLINE i64_vector load(const char *from)
{
    return *(const memory_vector *)from;
}

INLINE void store(char *to, i64_vector v)
{
    *(memory_vector *)to = v;
}

/* Of a vector that is used twice: gcc would read it twice from memory, which this loop has no time for. */
#ifdef __SSE2__
#define IN_REGISTER(v) __asm__("" : "+x"(v))
#else
#define IN_REGISTER(v) ((void)(v))
#endif

/* VECTORS vectors as they are in memory. */
INLINE void unpack_plain(i64_vector *acc, const char *from)
{
    for (int i = 0; i < VECTORS; i++)
        acc[i] = load(from + i * WIDTH);
}

INLINE void pack_plain(i64_vector *acc)
{
    (void)acc;
}

/* bf16 is the upper half of an f32: of each pair of elements, the first and the second become lanes of two vectors. */
INLINE void unpack_bf16(i64_vector *acc, const char *from)
{
    for (int i = 0; i < VECTORS; i += 2) {
        u32_vector pairs = (u32_vector)load(from + i / 2 * WIDTH);
        IN_REGISTER(pairs);
        acc[i] = (i64_vector)(pairs << 16);
        acc[i + 1] = (i64_vector)(pairs & 0xffff0000u);
    }
}

/* To the nearest, ties to even: one up where the lower half, less one beside an even upper half, is one half or
 * more. A NaN comes from a bf16 or is the processor's own: its lower half is 0, and it stays what it is. */
INLINE i64_vector round_bf16(i64_vector even, i64_vector odd)
{
    u16_vector upper = PAIRS((u32_vector)even >> 16, odd), lower = PAIRS(even, (u32_vector)odd << 16);
    return (i64_vector)(upper - (u16_vector)((i16_vector)SUBTRACT_SATURATED(lower, ~upper & 1) < 0));
}

/* The stored form takes the first half of acc. */
INLINE void pack_bf16(i64_vector *acc)
{
    for (int i = 0; i < VECTORS / 2; i++)
        acc[i] = round_bf16(acc[2 * i], acc[2 * i + 1]);
}

#define SELECT(mask, a, b) (((i64_vector)(a) & (i64_vector)(mask)) | ((i64_vector)(b) & ~(i64_vector)(mask)))

#endif
