/* Combining pieces of memory element by element. Compiled once per instruction set; every element is a chain of its own, so the results do
 * not hang on the width of vectors. */
#include "core/box_kernel.h"
#include "core/dtype.h"

/* acc < b or acc > b decides; a NaN on either side stays. */
#define MIN_OF(a, b) ((a) <= (b) || (a) != (a) ? (a) : (b))
#define MAX_OF(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))
#define SUM_OF(a, b) ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))
#define SAME(x) (x)

#define T float
#define ACC float
#define NAME(x) x##_f32
#define LOAD SAME
#define STORE SAME
#define QUOTIENT(a, d) ((a) / (float)(d))
#include "core/box_reduce_template.h"

#define T double
#define ACC double
#define NAME(x) x##_f64
#define LOAD SAME
#define STORE SAME
#define QUOTIENT(a, d) ((a) / (double)(d))
#include "core/box_reduce_template.h"

#define T uint16_t
#define ACC float
#define NAME(x) x##_bf16
#define LOAD stni_bf16_to_f32
#define STORE stni_f32_to_bf16
#define QUOTIENT(a, d) ((a) / (float)(d))
#include "core/box_reduce_template.h"

#define T uint16_t
#define ACC float
#define NAME(x) x##_f16
#define LOAD stni_f16_to_f32
#define STORE stni_f32_to_f16
#define QUOTIENT(a, d) ((a) / (float)(d))
#include "core/box_reduce_template.h"

/* Integers add and multiply without sign, so that they wrap; the conversions back are gcc's and clang's two's complement. */
#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define PROD_OF(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define T int64_t
#define ACC int64_t
#define NAME(x) x##_i64
#define LOAD SAME
#define STORE SAME
#define QUOTIENT(a, d) ((a) / (d))
#include "core/box_reduce_template.h"

#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define PROD_OF(a, b) ((int32_t)((uint32_t)(a) * (uint32_t)(b)))
#define T int32_t
#define ACC int32_t
#define NAME(x) x##_i32
#define LOAD SAME
#define STORE SAME
#define QUOTIENT(a, d) ((int32_t)((a) / (d)))
#include "core/box_reduce_template.h"

#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((uint8_t)((a) + (b)))
#define PROD_OF(a, b) ((uint8_t)((a) * (b)))
#define T uint8_t
#define ACC uint8_t
#define NAME(x) x##_u8
#define LOAD SAME
#define STORE SAME
#define QUOTIENT(a, d) ((uint8_t)((a) / (d)))
#include "core/box_reduce_template.h"

/* Bool: "or" and "and", which MAX and MIN of 0 and 1 are too; an average is "or". */
#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((uint8_t)((a) | (b)))
#define PROD_OF(a, b) ((uint8_t)((a) & (b)))
#define T uint8_t
#define ACC uint8_t
#define NAME(x) x##_bool
#define LOAD SAME
#define STORE SAME
#define QUOTIENT(a, d) ((uint8_t)((void)(d), (a)))
#include "core/box_reduce_template.h"

#define T float
#define NAME(x) x##_c64
#define REAL(x) x##_f32
#include "core/box_reduce_complex_template.h"

#define T double
#define NAME(x) x##_c128
#define REAL(x) x##_f64
#include "core/box_reduce_complex_template.h"

extern const struct stni_reduce_table STNI_ISA_NAME(stni_reduce_table);
const struct stni_reduce_table STNI_ISA_NAME(stni_reduce_table) = {{
    [STN_DTYPE_F32] = {4, {sum2_f32, prod2_f32, min2_f32, max2_f32}, {sum_f32, prod_f32, min_f32, max_f32}, finish_f32},
    [STN_DTYPE_F64] = {8, {sum2_f64, prod2_f64, min2_f64, max2_f64}, {sum_f64, prod_f64, min_f64, max_f64}, finish_f64},
    [STN_DTYPE_BF16] = {4, {sum2_bf16, prod2_bf16, min2_bf16, max2_bf16}, {sum_bf16, prod_bf16, min_bf16, max_bf16}, finish_bf16},
    [STN_DTYPE_F16] = {4, {sum2_f16, prod2_f16, min2_f16, max2_f16}, {sum_f16, prod_f16, min_f16, max_f16}, finish_f16},
    [STN_DTYPE_I64] = {8, {sum2_i64, prod2_i64, min2_i64, max2_i64}, {sum_i64, prod_i64, min_i64, max_i64}, finish_i64},
    [STN_DTYPE_I32] = {4, {sum2_i32, prod2_i32, min2_i32, max2_i32}, {sum_i32, prod_i32, min_i32, max_i32}, finish_i32},
    [STN_DTYPE_U8] = {1, {sum2_u8, prod2_u8, min2_u8, max2_u8}, {sum_u8, prod_u8, min_u8, max_u8}, finish_u8},
    [STN_DTYPE_BOOL] = {1, {sum2_bool, prod2_bool, min2_bool, max2_bool}, {sum_bool, prod_bool, min_bool, max_bool}, finish_bool},
    [STN_DTYPE_C64] = {8, {sum2_c64, prod2_c64}, {sum_c64, prod_c64}, finish_c64},
    [STN_DTYPE_C128] = {16, {sum2_c128, prod2_c128}, {sum_c128, prod_c128}, finish_c128},
}};
