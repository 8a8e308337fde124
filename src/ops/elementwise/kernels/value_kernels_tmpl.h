/* The blocks of one list of rows for every compute type. Included with ROWS, the list, KERNELS, the name of the
 * table, and, where a list has them, BLOCK_F32 and BLOCK_F64, what stands before the blocks of these, and BLOCK_BF16,
 * that of bf16. */
#ifndef ROWS /* read alone */
#include "ops/elementwise/kernels/arithmetic.h"
#define ROWS STNI_ARITHMETIC_LIST
#define KERNELS stni_arithmetic_kernels
#endif

#include "ops/elementwise/kernels/each_block.h"
#include "ops/elementwise/kernels/functions.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

/* Stands where the op's rule lets no operand of the class come: never run but by tests of all blocks. */
#ifndef NONE
#define NONE x
#endif

#define COLUMN(floating, integer, boolean, complex_) floating
#define NUMBER(n) ((R)(n).f)
#define T float
#define R float
#define BLOCK block_f32
#include "ops/elementwise/kernels/pointwise_block_tmpl.h"
#define T double
#define R double
#define BLOCK block_f64
#include "ops/elementwise/kernels/pointwise_block_tmpl.h"
#undef COLUMN

#define COLUMN(floating, integer, boolean, complex_) complex_
#define T float _Complex
#define R float
#define BLOCK block_c64
#include "ops/elementwise/kernels/pointwise_block_tmpl.h"
#define T double _Complex
#define R double
#define BLOCK block_c128
#include "ops/elementwise/kernels/pointwise_block_tmpl.h"
#undef COLUMN
#undef NUMBER

#ifndef BLOCK_F32
#define BLOCK_F32 block_f32
#endif
#ifndef BLOCK_F64
#define BLOCK_F64 block_f64
#endif

#define NUMBER(n) ((R)(n).i)
#define COLUMN(floating, integer, boolean, complex_) integer
#define T int64_t
#define R int64_t
#define BLOCK block_i64
#include "ops/elementwise/kernels/pointwise_block_tmpl.h"
#undef COLUMN
#undef NUMBER

#define NUMBER(n) ((R)((n).f != 0))
#define COLUMN(floating, integer, boolean, complex_) boolean
#define T uint8_t
#define R uint8_t
#define BLOCK block_bool
#include "ops/elementwise/kernels/pointwise_block_tmpl.h"

const struct stni_pointwise_kernels STNI_ISA_NAME(KERNELS) = {{
    [STN_DTYPE_F32] = BLOCK_F32,
    [STN_DTYPE_F64] = BLOCK_F64,
    [STN_DTYPE_I64] = block_i64,
    [STN_DTYPE_BOOL] = block_bool,
    [STN_DTYPE_C64] = block_c64,
    [STN_DTYPE_C128] = block_c128,
#ifdef BLOCK_BF16
    [STN_DTYPE_BF16] = BLOCK_BF16,
#endif
}};
