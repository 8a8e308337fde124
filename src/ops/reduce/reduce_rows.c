/* The rows of reduce_kernel.h as loops: one function per dtype, compiled once per instruction set. */
#include "core/box/box_kernel.h"
#include "core/base/dtype.h"
#include "ops/cpu/tile.h"
#include "ops/reduce/reduce_kernel.h"

#include <string.h>

#define FIRST(a, b) a
#define SECOND(a, b) b

/* Floating */
#define IDENTITY FIRST
#define COMBINED FIRST
#define ACC double
#define NAME(f) f##_f64
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef NAME
#define ACC float
#define NAME(f) f##_f32
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef NAME
#define WIDE double
#define OWN ACC
#define TEMPLATE "ops/reduce/reduce_accumulate_tmpl.h"
#include "core/box/each_float_but_f16.h"
#undef TEMPLATE
#define TEMPLATE "ops/reduce/reduce_along_tmpl.h"
#include "core/box/each_float_but_f16.h"
#undef TEMPLATE
#undef WIDE
#undef OWN
#undef IDENTITY

/* Integer */
#define IDENTITY SECOND
#define ACC int64_t
#define NAME(f) f##_i64
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef NAME
#undef LOWEST
#undef HIGHEST
#define ACC int32_t
#define NAME(f) f##_i32
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef NAME
#undef LOWEST
#undef HIGHEST
#define ACC uint8_t
#define NAME(f) f##_u8
#define LOWEST 0
#define HIGHEST UINT8_MAX
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef NAME
#undef LOWEST
#undef HIGHEST
#define WIDE int64_t
#define OWN ACC
#define TEMPLATE "ops/reduce/reduce_accumulate_tmpl.h"
#include "core/box/each_integer.h"
#undef TEMPLATE
#define TEMPLATE "ops/reduce/reduce_along_tmpl.h"
#include "core/box/each_integer.h"
#undef TEMPLATE
#undef WIDE
#undef OWN
#undef IDENTITY
#undef COMBINED

/* Complex */
#define IDENTITY FIRST
#define COMBINED SECOND
#define ACC double _Complex
#define NAME(f) f##_c128
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef NAME
#define WIDE double _Complex
#define OWN double _Complex
#define TEMPLATE "ops/reduce/reduce_accumulate_tmpl.h"
#include "core/box/each_complex.h"

#undef WIDE
#undef OWN

/* f16 is converted to f32, in which it accumulates alike: some elements of some rows at a time, which join in the
 * same order. */
#define WIDE double
#define OWN float
#define SIZE(name, acc_type, floating, integer, element, real, complex) [STNI_REDUCTION_##name] = sizeof(acc_type),
static const uint8_t accumulator_sizes[] = {STNI_REDUCTION_LIST(SIZE)};
#undef SIZE

enum { HALVES = 8192, HALVES_OF_ROW = HALVES / 4 };

static void read_halves(float *to, const uint16_t *from, int64_t rows, int64_t row_stride, int64_t n, int64_t stride)
{
    const struct stni_tile_kernels kernels = stni_tile_kernels(STN_DTYPE_F32, STN_DTYPE_F16, STNI_ISA_THIS);
    const struct stni_tile tile = {
        .rows = rows, .cols = n, .to_row = n, .to_col = 1, .from_row = row_stride, .from_col = stride};
    stni_tile_read(&kernels, to, from, &tile);
}

static void accumulate_f16(enum stni_reduction op, void *accumulators, const void *x, int64_t rows, int64_t row_stride,
                           int64_t n, int64_t stride)
{
    float near[HALVES];
    for (int64_t i = 0, cols; i < n; i += cols) {
        cols = n - i < HALVES_OF_ROW ? n - i : HALVES_OF_ROW;
        void *const acc = (char *)accumulators + i * accumulator_sizes[op];
        for (int64_t r = 0, some; r < rows; r += some) {
            some = rows - r < HALVES / cols ? rows - r : HALVES / cols;
            read_halves(near, (const uint16_t *)x + r * row_stride + i * stride, some, row_stride, cols, stride);
            join_f32(op, acc, near, some, cols, cols);
        }
    }
}

/* Streams that take turns are one row. */
static void along_f16(enum stni_reduction op, void *acc, const void *x, int64_t apart, int64_t step, int64_t n)
{
    const int64_t run = STNI_REDUCE_RUN / accumulator_sizes[op];
    const int turns = step != run;
    float near[HALVES];
    for (int64_t i = 0, some; i < n; i += some) {
        some = n - i < HALVES_OF_ROW ? n - i : HALVES_OF_ROW;
        read_halves(near, (const uint16_t *)x + (turns ? 4 * i : i), turns ? 1 : 4, apart, turns ? 4 * some : some, 1);
        along_f32(op, acc, near, turns ? apart : some, step, some);
    }
}

const struct stni_reduction_kernels STNI_ISA_NAME(stni_reduction_kernels) = {
    .accumulate = {
        [STN_DTYPE_F32] = accumulate_f32,
        [STN_DTYPE_F64] = accumulate_f64,
        [STN_DTYPE_BF16] = accumulate_bf16,
        [STN_DTYPE_F16] = accumulate_f16,
        [STN_DTYPE_I64] = accumulate_i64,
        [STN_DTYPE_I32] = accumulate_i32,
        [STN_DTYPE_U8] = accumulate_u8,
        [STN_DTYPE_BOOL] = accumulate_u8,
        [STN_DTYPE_C64] = accumulate_c64,
        [STN_DTYPE_C128] = accumulate_c128,
    },
    .along = {
        [STN_DTYPE_F32] = along_f32,
        [STN_DTYPE_F64] = along_f64,
        [STN_DTYPE_BF16] = along_bf16,
        [STN_DTYPE_F16] = along_f16,
        [STN_DTYPE_I64] = along_i64,
        [STN_DTYPE_I32] = along_i32,
        [STN_DTYPE_U8] = along_u8,
        [STN_DTYPE_BOOL] = along_u8,
    },
    .clear = {
        [STN_DTYPE_F32] = clear_f32,
        [STN_DTYPE_F64] = clear_f64,
        [STN_DTYPE_I64] = clear_i64,
        [STN_DTYPE_I32] = clear_i32,
        [STN_DTYPE_U8] = clear_u8,
        [STN_DTYPE_C128] = clear_c128,
    },
    .fold = {
        [STN_DTYPE_F32] = fold_f32,
        [STN_DTYPE_F64] = fold_f64,
        [STN_DTYPE_I64] = fold_i64,
        [STN_DTYPE_I32] = fold_i32,
        [STN_DTYPE_U8] = fold_u8,
        [STN_DTYPE_C128] = fold_c128,
    },
};
