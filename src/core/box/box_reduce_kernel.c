/* Combining pieces of memory element by element. Compiled once per instruction set; every element is a chain of its
 * own, so the results do not depend on the width of vectors. */
#include "core/box/box_half.h"
#include "core/box/box_kernel.h"
#include "core/box/nontemporal_line.h"
#include "core/base/dtype.h"

#define SUM_OF(a, b) ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))

#define T float
#define NAME(x) x##_f32
#define QUOTIENT(a, d) ((a) / (float)(d))
#include "core/box/box_reduce_tmpl.h"

#define T double
#define NAME(x) x##_f64
#define QUOTIENT(a, d) ((a) / (double)(d))
#include "core/box/box_reduce_tmpl.h"

#define T float
#define NAME(x) x##_f32
#include "core/box/box_reduce_stream_tmpl.h"

#define T double
#define NAME(x) x##_f64
#include "core/box/box_reduce_stream_tmpl.h"

#define LOAD load_bf16
#define STORE store_bf16
#define NAME(x) x##_sum_bf16
#define OP vector_sum
#include "core/box/box_reduce_half_tmpl.h"
#define NAME(x) x##_prod_bf16
#define OP vector_prod
#include "core/box/box_reduce_half_tmpl.h"
#define NAME(x) x##_min_bf16
#define OP vector_min
#include "core/box/box_reduce_half_tmpl.h"
#define NAME(x) x##_max_bf16
#define OP vector_max
#include "core/box/box_reduce_half_tmpl.h"
#undef LOAD
#undef STORE

#define LOAD load_f16
#define STORE store_f16
#define NAME(x) x##_sum_f16
#define OP vector_sum
#include "core/box/box_reduce_half_tmpl.h"
#define NAME(x) x##_prod_f16
#define OP vector_prod
#include "core/box/box_reduce_half_tmpl.h"
#define NAME(x) x##_min_f16
#define OP vector_min
#include "core/box/box_reduce_half_tmpl.h"
#define NAME(x) x##_max_f16
#define OP vector_max
#include "core/box/box_reduce_half_tmpl.h"
#undef LOAD
#undef STORE

/* Integers add and multiply without sign, so that they wrap; the conversions back are gcc's and clang's two's
 * complement. */
#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define PROD_OF(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define T int64_t
#define NAME(x) x##_i64
#define QUOTIENT(a, d) ((a) / (d))
#include "core/box/box_reduce_tmpl.h"

#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define PROD_OF(a, b) ((int32_t)((uint32_t)(a) * (uint32_t)(b)))
#define T int32_t
#define NAME(x) x##_i32
#define QUOTIENT(a, d) ((int32_t)((a) / (d)))
#include "core/box/box_reduce_tmpl.h"

#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((uint8_t)((a) + (b)))
#define PROD_OF(a, b) ((uint8_t)((a) * (b)))
#define T uint8_t
#define NAME(x) x##_u8
#define QUOTIENT(a, d) ((uint8_t)((a) / (d)))
#include "core/box/box_reduce_tmpl.h"

#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((int8_t)((a) + (b)))
#define PROD_OF(a, b) ((int8_t)((a) * (b)))
#define T int8_t
#define NAME(x) x##_i8
#define QUOTIENT(a, d) ((int8_t)((a) / (d)))
#include "core/box/box_reduce_tmpl.h"

#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((int16_t)((a) + (b)))
#define PROD_OF(a, b) ((int16_t)((a) * (b)))
#define T int16_t
#define NAME(x) x##_i16
#define QUOTIENT(a, d) ((int16_t)((a) / (d)))
#include "core/box/box_reduce_tmpl.h"

/* Bool: "or" and "and", which MAX and MIN of 0 and 1 are too; an average is "or". */
#undef SUM_OF
#undef PROD_OF
#define SUM_OF(a, b) ((uint8_t)((a) | (b)))
#define PROD_OF(a, b) ((uint8_t)((a) & (b)))
#define T uint8_t
#define NAME(x) x##_bool
#define QUOTIENT(a, d) ((uint8_t)((void)(d), (a)))
#include "core/box/box_reduce_tmpl.h"

#define T float
#define NAME(x) x##_c64
#define PARTS(x) x##_f32
#include "core/box/box_reduce_complex_tmpl.h"

#define T double
#define NAME(x) x##_c128
#define PARTS(x) x##_f64
#include "core/box/box_reduce_complex_tmpl.h"

extern const struct stni_reduce_table STNI_ISA_NAME(stni_reduce_table);
const struct stni_reduce_table STNI_ISA_NAME(stni_reduce_table) = {{
    [STN_DTYPE_F32] = {.accumulator_size = 4,
                       .first = {sum2_f32, prod2_f32, min2_f32, max2_f32},
                       .next = {sum_f32, prod_f32, min_f32, max_f32},
                       .finish = finish_f32, .sum_streamed = sum_streamed_f32},
    [STN_DTYPE_F64] = {.accumulator_size = 8,
                       .first = {sum2_f64, prod2_f64, min2_f64, max2_f64},
                       .next = {sum_f64, prod_f64, min_f64, max_f64},
                       .finish = finish_f64, .sum_streamed = sum_streamed_f64},
    [STN_DTYPE_BF16] = {.accumulator_size = 4,
                        .first = {first_sum_bf16, first_prod_bf16, first_min_bf16, first_max_bf16},
                        .next = {next_sum_bf16, next_prod_bf16, next_min_bf16, next_max_bf16},
                        .pair = {pair_sum_bf16, pair_prod_bf16, pair_min_bf16, pair_max_bf16},
                        .last = {last_sum_bf16, last_prod_bf16, last_min_bf16, last_max_bf16}},
    [STN_DTYPE_F16] = {.accumulator_size = 4,
                       .first = {first_sum_f16, first_prod_f16, first_min_f16, first_max_f16},
                       .next = {next_sum_f16, next_prod_f16, next_min_f16, next_max_f16},
                       .pair = {pair_sum_f16, pair_prod_f16, pair_min_f16, pair_max_f16},
                       .last = {last_sum_f16, last_prod_f16, last_min_f16, last_max_f16}},
    [STN_DTYPE_I64] = {.accumulator_size = 8,
                       .first = {sum2_i64, prod2_i64, min2_i64, max2_i64},
                       .next = {sum_i64, prod_i64, min_i64, max_i64},
                       .finish = finish_i64},
    [STN_DTYPE_I32] = {.accumulator_size = 4,
                       .first = {sum2_i32, prod2_i32, min2_i32, max2_i32},
                       .next = {sum_i32, prod_i32, min_i32, max_i32},
                       .finish = finish_i32},
    [STN_DTYPE_U8] = {.accumulator_size = 1,
                      .first = {sum2_u8, prod2_u8, min2_u8, max2_u8},
                      .next = {sum_u8, prod_u8, min_u8, max_u8},
                      .finish = finish_u8},
    [STN_DTYPE_BOOL] = {.accumulator_size = 1,
                        .first = {sum2_bool, prod2_bool, min2_bool, max2_bool},
                        .next = {sum_bool, prod_bool, min_bool, max_bool},
                        .finish = finish_bool},
    [STN_DTYPE_C64] = {.accumulator_size = 8,
                       .first = {sum2_c64, prod2_c64},
                       .next = {sum_c64, prod_c64},
                       .finish = finish_c64},
    [STN_DTYPE_C128] = {.accumulator_size = 16,
                        .first = {sum2_c128, prod2_c128},
                        .next = {sum_c128, prod_c128},
                        .finish = finish_c128},
    [STN_DTYPE_I8] = {.accumulator_size = 1,
                      .first = {sum2_i8, prod2_i8, min2_i8, max2_i8},
                      .next = {sum_i8, prod_i8, min_i8, max_i8},
                      .finish = finish_i8},
    [STN_DTYPE_I16] = {.accumulator_size = 2,
                       .first = {sum2_i16, prod2_i16, min2_i16, max2_i16},
                       .next = {sum_i16, prod_i16, min_i16, max_i16},
                       .finish = finish_i16},
}};
