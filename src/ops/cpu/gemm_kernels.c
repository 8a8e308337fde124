/* The matrix products of one instruction set (core/base/isa.h). Sums are fused where the processor fuses: a product
 * is not promised bit for bit across processors. */
#include "ops/cpu/gemm_tile.h"

#define T float
#define PLANES 1
#define MR R
#define NAME(x) x##_f32
#include "ops/cpu/gemm_tmpl.h"

#define T double
#define PLANES 1
#define MR R
#define NAME(x) x##_f64
#include "ops/cpu/gemm_tmpl.h"

#define T float
#define PLANES 2
#define MR (R / 2)
#define NAME(x) x##_c64
#include "ops/cpu/gemm_tmpl.h"

#define T double
#define PLANES 2
#define MR (R / 2)
#define NAME(x) x##_c128
#include "ops/cpu/gemm_tmpl.h"

/* Unsigned, so that overflow wraps. */
#define T uint64_t
#define PLANES 1
#define MR R
#define NAME(x) x##_i64
#include "ops/cpu/gemm_tmpl.h"

#define T uint32_t
#define PLANES 1
#define MR R
#define NAME(x) x##_i32
#include "ops/cpu/gemm_tmpl.h"

extern const struct stni_gemm_kernels STNI_ISA_NAME(stni_gemm_kernels);
const struct stni_gemm_kernels STNI_ISA_NAME(stni_gemm_kernels) = {.run = {
    [STN_DTYPE_F32] = gemm_f32,
    [STN_DTYPE_F64] = gemm_f64,
    [STN_DTYPE_C64] = gemm_c64,
    [STN_DTYPE_C128] = gemm_c128,
    [STN_DTYPE_I64] = gemm_i64,
    [STN_DTYPE_I32] = gemm_i32,
}};
