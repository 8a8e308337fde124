/* Reductions of several sources, compiled once per instruction set: one instance of multi_reduce_tmpl.h per dtype. */
#include "core/comm/multi_reduce_vector.h"

#define VECTOR f32_vector
#define ACC float
#define NAME(x) x##_f32
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define STORED VECTORS
#include "core/comm/multi_reduce_tmpl.h"

#define VECTOR f64_vector
#define ACC double
#define NAME(x) x##_f64
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define STORED VECTORS
#include "core/comm/multi_reduce_tmpl.h"

#define VECTOR f32_vector
#define ACC float
#define T uint16_t
#define LOAD(x) stni_bf16_to_f32(x)
#define STORE(x) stni_f32_to_bf16(x)
#define NAME(x) x##_bf16
#define UNPACK unpack_bf16
#define PACK pack_bf16
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define STORED (VECTORS / 2)
#include "core/comm/multi_reduce_tmpl.h"

/* Integers add and multiply without sign, so that they wrap. */
#define VECTOR i32_vector
#define ACC int32_t
#define NAME(x) x##_i32
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((u32_vector)(a) + (u32_vector)(b))
#define MULTIPLY(a, b) ((u32_vector)(a) * (u32_vector)(b))
#define STORED VECTORS
#include "core/comm/multi_reduce_tmpl.h"

#define VECTOR i64_vector
#define ACC int64_t
#define NAME(x) x##_i64
#define UNPACK unpack_plain
#define PACK pack_plain
#define ADD(a, b) ((u64_vector)(a) + (u64_vector)(b))
#define MULTIPLY(a, b) ((u64_vector)(a) * (u64_vector)(b))
#define STORED VECTORS
#include "core/comm/multi_reduce_tmpl.h"

/* Sums of complex numbers are those of their parts. */
static void twice(const struct stni_multi_reduce *c, stni_multi_reduce_fn real)
{
    struct stni_multi_reduce parts = *c;
    parts.n *= 2;
    real(&parts);
}

static void sum_c64(const struct stni_multi_reduce *c)
{
    twice(c, sum_f32);
}

static void sum_c128(const struct stni_multi_reduce *c)
{
    twice(c, sum_f64);
}

extern const struct stni_multi_reduce_kernels STNI_ISA_NAME(stni_multi_reduce_kernels);
const struct stni_multi_reduce_kernels STNI_ISA_NAME(stni_multi_reduce_kernels) = {{
    [STN_DTYPE_F32] = {sum_f32, sum_f32, prod_f32, min_f32, max_f32},
    [STN_DTYPE_F64] = {sum_f64, sum_f64, prod_f64, min_f64, max_f64},
    [STN_DTYPE_BF16] = {sum_bf16, sum_bf16, prod_bf16, min_bf16, max_bf16},
    [STN_DTYPE_I32] = {sum_i32, sum_i32, prod_i32, min_i32, max_i32},
    [STN_DTYPE_I64] = {sum_i64, sum_i64, prod_i64, min_i64, max_i64},
    [STN_DTYPE_C64] = {sum_c64, sum_c64},
    [STN_DTYPE_C128] = {sum_c128, sum_c128},
}};
