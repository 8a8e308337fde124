/* The rows of reduce_kernel.h as loops: one function per dtype, compiled once per instruction set. */
#include "core/box/box_kernel.h"
#include "core/base/dtype.h"
#include "ops/reduce/reduce_kernel.h"

#include <string.h>

#define FIRST(a, b) a
#define SECOND(a, b) b

/* Floating */
#define IDENTITY FIRST
#define COMBINED FIRST
#define ACC double
#define CLEAR clear_f64
#define FOLD fold_f64
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#define ACC float
#define CLEAR clear_f32
#define FOLD fold_f32
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#define WIDE double
#define OWN A
#define TEMPLATE "ops/reduce/reduce_accumulate_tmpl.h"
#include "core/box/each_float.h"
#undef TEMPLATE
#define TEMPLATE "ops/reduce/reduce_along_tmpl.h"
#include "core/box/each_float.h"
#undef TEMPLATE
#undef WIDE
#undef OWN
#undef IDENTITY

/* Integer */
#define IDENTITY SECOND
#define ACC int64_t
#define CLEAR clear_i64
#define FOLD fold_i64
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef LOWEST
#undef HIGHEST
#define ACC int32_t
#define CLEAR clear_i32
#define FOLD fold_i32
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef LOWEST
#undef HIGHEST
#define ACC uint8_t
#define CLEAR clear_u8
#define FOLD fold_u8
#define LOWEST 0
#define HIGHEST UINT8_MAX
#include "ops/reduce/reduce_accumulator_tmpl.h"
#undef ACC
#undef LOWEST
#undef HIGHEST
#define WIDE int64_t
#define OWN A
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
#define CLEAR clear_c128
#define FOLD fold_c128
#include "ops/reduce/reduce_accumulator_tmpl.h"
#define WIDE double _Complex
#define OWN double _Complex
#define TEMPLATE "ops/reduce/reduce_accumulate_tmpl.h"
#include "core/box/each_complex.h"

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
