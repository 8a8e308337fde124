/* The rows of reduce_kernel.h as loops: one function per dtype, compiled once per instruction set. */
#include "core/dtype.h"
#include "ops/reduce/reduce_kernel.h"

#define TEMPLATE "ops/reduce/reduce_accumulate.inc"

#define FIRST(a, b) a
#define SECOND(a, b) b

#define ACC double
#define IDENTITY FIRST
#define COMBINED FIRST
#define CLEAR clear_f64
#define FOLD fold_f64
#include "ops/reduce/reduce_accumulator.inc"
#include "core/each_float.h"
#undef ACC
#undef IDENTITY

#define ACC int64_t
#define IDENTITY SECOND
#define CLEAR clear_i64
#define FOLD fold_i64
#include "ops/reduce/reduce_accumulator.inc"
#include "core/each_integer.h"
#undef ACC
#undef IDENTITY
#undef COMBINED

#define ACC double _Complex
#define IDENTITY FIRST
#define COMBINED SECOND
#define CLEAR clear_c128
#define FOLD fold_c128
#include "ops/reduce/reduce_accumulator.inc"
#include "core/each_complex.h"

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
