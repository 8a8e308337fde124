/* The expressions of arithmetic.h as loops over dense runs: one function per compute type, compiled once per instruction set. */
#include "ops/elementwise/pointwise_kernel.h"

/* Products keep their own rounding: gcc 12 makes fused multiply-adds of the pairs of a complex product even where contraction is off, and
 * then the bits would depend on the instruction set. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define ROUNDED(product) __builtin_assoc_barrier(product)
#endif
#endif
#ifndef ROUNDED
#define ROUNDED(product) (product)
#endif

/* Without the case for infinite parts of ISO C's annex G, which would be a call per element. */
static inline float _Complex mul_c64(float _Complex x, float _Complex y)
{
    float a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    return __builtin_complex(ROUNDED(a * c) - ROUNDED(b * d), ROUNDED(a * d) + ROUNDED(b * c));
}

static inline double _Complex mul_c128(double _Complex x, double _Complex y)
{
    double a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    return __builtin_complex(ROUNDED(a * c) - ROUNDED(b * d), ROUNDED(a * d) + ROUNDED(b * c));
}

#define COMPLEX_MUL(x, y) _Generic((x), float _Complex: mul_c64, double _Complex: mul_c128)(x, y)
#define CONJUGATE(x) (~(x))

/* Stands where the op's rule lets no operand of the class come: never run. */
#define NONE x

#define COLUMN(floating, integer, boolean, complex) floating
#define NUMBER(n) ((R)(n).f)
#define T float
#define R float
#define BLOCK block_f32
#include "ops/elementwise/pointwise_block.inc"
#define T double
#define R double
#define BLOCK block_f64
#include "ops/elementwise/pointwise_block.inc"
#undef COLUMN

#define COLUMN(floating, integer, boolean, complex) complex
#define T float _Complex
#define R float
#define BLOCK block_c64
#include "ops/elementwise/pointwise_block.inc"
#define T double _Complex
#define R double
#define BLOCK block_c128
#include "ops/elementwise/pointwise_block.inc"
#undef COLUMN
#undef NUMBER

#define NUMBER(n) ((R)(n).i)
#define COLUMN(floating, integer, boolean, complex) integer
#define T int64_t
#define R int64_t
#define BLOCK block_i64
#include "ops/elementwise/pointwise_block.inc"
#undef COLUMN
#undef NUMBER

#define NUMBER(n) ((R)((n).f != 0))
#define COLUMN(floating, integer, boolean, complex) boolean
#define T uint8_t
#define R uint8_t
#define BLOCK block_bool
#include "ops/elementwise/pointwise_block.inc"

const struct stni_pointwise_kernels STNI_ISA_NAME(stni_pointwise_kernels) = {{
    [STN_DTYPE_F32] = block_f32,
    [STN_DTYPE_F64] = block_f64,
    [STN_DTYPE_I64] = block_i64,
    [STN_DTYPE_BOOL] = block_bool,
    [STN_DTYPE_C64] = block_c64,
    [STN_DTYPE_C128] = block_c128,
}};
