/* What the templates of convert.c know of each dtype: how its elements lie in memory, and how they are loaded and
 * stored. */
#ifndef STNI_OPS_CPU_CONVERT_DTYPES_H
#define STNI_OPS_CPU_CONVERT_DTYPES_H

#include "ops/cpu/convert.h"
#include "ops/cpu/nontemporal_blocks.h"
#include "ops/cpu/scalar_loop.h"

#include <stdalign.h>

/* How many times as large as the elements it is made of a result is where its vectors are written in parts. */
#ifdef __AVX512F__
enum { IN_PARTS = 2 };
#else
enum { IN_PARTS = 4 };
#endif

/* How elements lie in memory; a bool is a byte, 0 or 1. The names are pasted by the templates, so stdbool.h stays
 * out of this file. */
typedef float f32_T;
typedef double f64_T;
typedef uint16_t bf16_T, f16_T;
typedef int64_t i64_T;
typedef int32_t i32_T;
typedef uint8_t u8_T, bool_T;
typedef int8_t i8_T;
typedef int16_t i16_T;
typedef float _Complex c64_T;
typedef double _Complex c128_T;

/* Values lie inside i64 or are made to. NaN fails both comparisons. */
static inline int64_t floating_to_i64(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

static inline int64_t integer_to_i64(int64_t v)
{
    return v;
}

#define TO_I64(v)                                                                                                    \
    _Generic((v), float: floating_to_i64, double: floating_to_i64, float _Complex: floating_to_i64,                  \
             double _Complex: floating_to_i64, default: integer_to_i64)((REAL_OF(v)))
/* The cast of a complex value to a real type gives its real part; integers stay what they are. */
#define REAL_OF(v) _Generic((v), float _Complex: (double)(v), double _Complex: (double)(v), default: (v))

#define f32_LOAD(v) (v)
#define f64_LOAD(v) (v)
#define bf16_LOAD(v) stni_bf16_to_f32(v)
#define f16_LOAD(v) stni_f16_to_f32(v)
#define i64_LOAD(v) (v)
#define i32_LOAD(v) (v)
#define u8_LOAD(v) (v)
#define bool_LOAD(v) (v)
#define i8_LOAD(v) (v)
#define i16_LOAD(v) (v)
#define c64_LOAD(v) (v)
#define c128_LOAD(v) (v)

#define f32_STORE(v) ((float)(v))
#define f64_STORE(v) ((double)(v))
#define bf16_STORE(v) stni_f32_to_bf16((float)(v))
#define f16_STORE(v) stni_f32_to_f16((float)(v))
#define i64_STORE(v) TO_I64(v)
#define i32_STORE(v) ((int32_t)(v))
#define u8_STORE(v) ((uint8_t)(v))
#define i16_STORE(v) ((int16_t)(v))
#define bool_STORE(v) ((uint8_t)((v) != 0))
#define c64_STORE(v) ((float _Complex)(v))
#define c128_STORE(v) ((double _Complex)(v))

#define CONVERT_PASTE(a, b) a##_##b
#define CONVERT_JOIN(a, b) CONVERT_PASTE(a, b)

#endif
