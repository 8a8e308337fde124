/* The matrix products of one instruction set (core/base/isa.h). Sums are fused where the processor fuses: a product is not promised bit for
 * bit across processors. */
#include "ops/cpu/gemm_kernels.h"

#include "core/base/isa.h"
#include "core/box/box_kernel.h"

#include <string.h>

/* A tile of R rows by two vectors, and for complex numbers half of the rows, leaves registers for a row of B and an element of A. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, R = 12 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, R = 6 };
#else
enum { VECTOR_BYTES = 16, R = 4 };
#endif

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
