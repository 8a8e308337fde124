/* Pointwise ops on dense runs of one compute type. Included once per type with
 *   T, R         the type, and that of the op's numbers
 *   BLOCK        the function's name
 *   ROWS(X)      the list of rows (arithmetic.h)
 *   COLUMN(...)  picks the class's expression from a row
 *   NUMBER(n)    reads a number as R */
#ifndef BLOCK /* read alone */
#include "ops/elementwise/kernels/arithmetic.h"
#include "ops/elementwise/kernels/each_block.h"
#include "ops/elementwise/kernels/functions.h"
#define T float
#define R float
#define BLOCK block_f32
#define ROWS STNI_ARITHMETIC_LIST
#define COLUMN(floating, integer, boolean, complex_) floating
#define NUMBER(n) ((R)(n).f)
#endif

#define FUNCTION(op, floating, integer, boolean, complex_) \
    ROW_FUNCTION(op, z, in2, (RESULT)(COLUMN(floating, integer, boolean, complex_)))
#define CASE(op, ...) ROW_CASE(op)

ROWS(FUNCTION)

static void BLOCK(const struct stni_pointwise_block *block)
{
    switch ((int)block->op) { /* the rows of other lists are not here */
        ROWS(CASE)
    }
}

#undef FUNCTION
#undef CASE
#undef T
#undef R
#undef BLOCK
