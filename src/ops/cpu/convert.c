/* The tables of convert.h: every pair is a small loop, made by the two template files from what is defined here per dtype. */
#include "ops/cpu/convert.h"

#include "ops/cpu/nontemporal_blocks.h"
#include "ops/cpu/scalar_loop.h"

/* How elements lie in memory; a bool is a byte, 0 or 1. The names are pasted by the templates, so stdbool.h stays out of this file. */
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
#define bf16_STORE(v) stni_f32_to_bf16(v)
#define f16_STORE(v) stni_f32_to_f16(v)
#define i64_STORE(v) TO_I64(v)
#define i32_STORE(v) ((int32_t)(v))
#define u8_STORE(v) ((uint8_t)(v))
#define i16_STORE(v) ((int16_t)(v))
#define bool_STORE(v) ((uint8_t)((v) != 0))
#define c64_STORE(v) ((float _Complex)(v))
#define c128_STORE(v) ((double _Complex)(v))

#define CONVERT_PASTE(a, b) a##_##b
#define CONVERT_JOIN(a, b) CONVERT_PASTE(a, b)

#define CONVERT_PAIR "ops/cpu/convert_pair_tmpl.h"
#define FROM f32
#include "ops/cpu/convert_from_tmpl.h"
#define FROM f64
#include "ops/cpu/convert_from_tmpl.h"
#define FROM bf16
#include "ops/cpu/convert_from_tmpl.h"
#define FROM f16
#include "ops/cpu/convert_from_tmpl.h"
#define FROM i64
#include "ops/cpu/convert_from_tmpl.h"
#define FROM i32
#include "ops/cpu/convert_from_tmpl.h"
#define FROM u8
#include "ops/cpu/convert_from_tmpl.h"
#define FROM bool
#include "ops/cpu/convert_from_tmpl.h"
#define FROM c64
#include "ops/cpu/convert_from_tmpl.h"
#define FROM c128
#include "ops/cpu/convert_from_tmpl.h"
#undef CONVERT_PAIR

/* From a compute type to the narrower dtypes that compute in it. */
#define FROM f32
#define TO bf16
#include "ops/cpu/convert_pair_tmpl.h"
#define TO f16
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM
#define FROM i64
#define TO i32
#include "ops/cpu/convert_pair_tmpl.h"
#define TO u8
#include "ops/cpu/convert_pair_tmpl.h"
#define TO i16
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM

/* From i8 and i16 by way of i32. */
#define FROM i8
#define TO i32
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM
#define FROM i16
#define TO i32
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM

enum { WIDENED = 512 }; /* elements at a time: they stay in the L1 cache */

static void convert_widened(stni_convert_fn widen, stni_convert_fn convert, char *to, int64_t to_size, const char *from, int64_t from_size,
                            const struct stni_tile *tile)
{
    int32_t wide[WIDENED];
    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t c = 0; c < tile->cols; c += WIDENED) {
            const int64_t n = tile->cols - c < WIDENED ? tile->cols - c : WIDENED;
            const struct stni_tile in = {1, n, 0, 1, 0, tile->from_col, 0, 0}, out = {1, n, 0, tile->to_col, 0, 1, tile->streamed, 0};
            widen(wide, from + (r * tile->from_row + c * tile->from_col) * from_size, &in);
            convert(to + (r * tile->to_row + c * tile->to_col) * to_size, wide, &out);
        }
}

#define CONVERT_PAIR "ops/cpu/convert_widened_tmpl.h"
#define FROM i8
#include "ops/cpu/convert_from_tmpl.h"
#define FROM i16
#include "ops/cpu/convert_from_tmpl.h"

#define FROM_EVERY(to)                                                                                                 \
    {                                                                                                                  \
        [STN_DTYPE_F32] = f32_to_##to, [STN_DTYPE_F64] = f64_to_##to, [STN_DTYPE_BF16] = bf16_to_##to,                 \
        [STN_DTYPE_F16] = f16_to_##to, [STN_DTYPE_I64] = i64_to_##to, [STN_DTYPE_I32] = i32_to_##to,                   \
        [STN_DTYPE_U8] = u8_to_##to, [STN_DTYPE_BOOL] = bool_to_##to, [STN_DTYPE_C64] = c64_to_##to,                   \
        [STN_DTYPE_C128] = c128_to_##to, [STN_DTYPE_I8] = i8_to_##to, [STN_DTYPE_I16] = i16_to_##to                    \
    }

const struct stni_convert_kernels STNI_ISA_NAME(stni_convert_kernels) = {{
    [STN_DTYPE_F32] = FROM_EVERY(f32),
    [STN_DTYPE_F64] = FROM_EVERY(f64),
    [STN_DTYPE_I64] = FROM_EVERY(i64),
    [STN_DTYPE_BOOL] = FROM_EVERY(bool),
    [STN_DTYPE_C64] = FROM_EVERY(c64),
    [STN_DTYPE_C128] = FROM_EVERY(c128),
    [STN_DTYPE_BF16] = {[STN_DTYPE_F32] = f32_to_bf16},
    [STN_DTYPE_F16] = {[STN_DTYPE_F32] = f32_to_f16},
    [STN_DTYPE_I32] = {[STN_DTYPE_I64] = i64_to_i32},
    [STN_DTYPE_U8] = {[STN_DTYPE_I64] = i64_to_u8},
    [STN_DTYPE_I8] = {[STN_DTYPE_I64] = i64_to_u8}, /* the same low bits */
    [STN_DTYPE_I16] = {[STN_DTYPE_I64] = i64_to_i16},
}};
