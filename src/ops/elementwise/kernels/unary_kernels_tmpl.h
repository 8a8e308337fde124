/* The blocks of one list of unary functions for the floating types and, where it is analytic, the complex ones.
 * Included with ROWS, the list, KERNELS, the name of the table, and, where a list has one, BLOCK_F32 and BLOCK_F64,
 * what stands before the blocks of these, and BLOCK_BF16, that of bf16. */
#ifndef ROWS /* read alone */
#include "ops/elementwise/kernels/exponential.h"
#define ROWS STNI_EXPONENTIAL_LIST
#define KERNELS stni_exponential_kernels
#endif

#include "ops/elementwise/kernels/each_block.h"
#include "ops/elementwise/kernels/functions.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

#define NUMBER(n) ((R)(n).f)
#define PRODUCT(x, y) ((x) * (y))
#define DUAL(x) (x)
#define T float
#define R float
#define BLOCK block_f32
#include "ops/elementwise/kernels/unary_block_tmpl.h"
#define T double
#define R double
#define BLOCK block_f64
#include "ops/elementwise/kernels/unary_block_tmpl.h"
#undef PRODUCT
#undef DUAL

#ifdef ANALYTIC_ROWS
#define PRODUCT(x, y) COMPLEX_MUL(x, y)
#define DUAL(x) CONJUGATE(x)
#define T float _Complex
#define R float
#define BLOCK block_c64
#include "ops/elementwise/kernels/unary_block_tmpl.h"
#define T double _Complex
#define R double
#define BLOCK block_c128
#include "ops/elementwise/kernels/unary_block_tmpl.h"
#endif

#ifndef BLOCK_F32
#define BLOCK_F32 block_f32
#endif
#ifndef BLOCK_F64
#define BLOCK_F64 block_f64
#endif

const struct stni_pointwise_kernels STNI_ISA_NAME(KERNELS) = {{
    [STN_DTYPE_F32] = BLOCK_F32,
    [STN_DTYPE_F64] = BLOCK_F64,
#ifdef BLOCK_BF16
    [STN_DTYPE_BF16] = BLOCK_BF16,
#endif
#ifdef ANALYTIC_ROWS
    [STN_DTYPE_C64] = block_c64,
    [STN_DTYPE_C128] = block_c128,
#endif
}};
