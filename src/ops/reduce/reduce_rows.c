/* The rows of reduce_kernel.h as loops: one function per dtype, compiled once per instruction set. */
#include "core/dtype.h"
#include "ops/reduce/reduce_kernel.h"

#define SAME(x) (x)

#define FIRST(a, b) a
#define SECOND(a, b) b

#define A double
#define IDENTITY FIRST
#define COMBINED FIRST
#define CLEAR clear_f64
#define FOLD fold_f64
#include "ops/reduce/reduce_accumulator.inc"
#define T float
#define LOAD SAME
#define ROWS rows_f32
#define ACCUMULATE accumulate_f32
#include "ops/reduce/reduce_accumulate.inc"
#define T double
#define LOAD SAME
#define ROWS rows_f64
#define ACCUMULATE accumulate_f64
#include "ops/reduce/reduce_accumulate.inc"
#define T uint16_t
#define LOAD stni_bf16_to_f32
#define ROWS rows_bf16
#define ACCUMULATE accumulate_bf16
#include "ops/reduce/reduce_accumulate.inc"
#define T uint16_t
#define LOAD stni_f16_to_f32
#define ROWS rows_f16
#define ACCUMULATE accumulate_f16
#include "ops/reduce/reduce_accumulate.inc"
#undef A
#undef IDENTITY

#define A int64_t
#define IDENTITY SECOND
#define CLEAR clear_i64
#define FOLD fold_i64
#include "ops/reduce/reduce_accumulator.inc"
#define T int64_t
#define LOAD SAME
#define ROWS rows_i64
#define ACCUMULATE accumulate_i64
#include "ops/reduce/reduce_accumulate.inc"
#define T int32_t
#define LOAD SAME
#define ROWS rows_i32
#define ACCUMULATE accumulate_i32
#include "ops/reduce/reduce_accumulate.inc"
#define T uint8_t
#define LOAD SAME
#define ROWS rows_u8
#define ACCUMULATE accumulate_u8
#include "ops/reduce/reduce_accumulate.inc"
#undef A
#undef IDENTITY
#undef COMBINED

#define A double _Complex
#define IDENTITY FIRST
#define COMBINED SECOND
#define CLEAR clear_c128
#define FOLD fold_c128
#include "ops/reduce/reduce_accumulator.inc"
#define T float _Complex
#define LOAD SAME
#define ROWS rows_c64
#define ACCUMULATE accumulate_c64
#include "ops/reduce/reduce_accumulate.inc"
#define T double _Complex
#define LOAD SAME
#define ROWS rows_c128
#define ACCUMULATE accumulate_c128
#include "ops/reduce/reduce_accumulate.inc"
#undef A

const struct stni_reduce_kernels STNI_ISA_NAME(stni_reduce_kernels) = {
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
    .clear = {
        [STN_DTYPE_F64] = clear_f64,
        [STN_DTYPE_I64] = clear_i64,
        [STN_DTYPE_C128] = clear_c128,
    },
    .fold = {
        [STN_DTYPE_F64] = fold_f64,
        [STN_DTYPE_I64] = fold_i64,
        [STN_DTYPE_C128] = fold_c128,
    },
};
