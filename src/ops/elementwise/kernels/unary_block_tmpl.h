/* Unary functions on dense runs of one compute type. Included once per type with
 *   T, R           the type, and its real type
 *   BLOCK          the function's name
 *   ROWS(X)        the list of unary functions (exponential.h)
 *   NUMBER(n)      reads a number as R
 *   PRODUCT(x, y)  x y
 *   DUAL(x)        the conjugate of a complex derivative; a real derivative as it is */
#ifndef BLOCK /* read alone */
#include "ops/elementwise/kernels/each_block.h"
#include "ops/elementwise/kernels/exponential.h"
#include "ops/elementwise/kernels/functions.h"
#define T float
#define R float
#define BLOCK block_f32
#define ROWS STNI_EXPONENTIAL_LIST
#define NUMBER(n) ((R)(n).f)
#define PRODUCT(x, y) ((x) * (y))
#define DUAL(x) (x)
#endif

/* The derivatives are functions of v, which is the last operand of backward and of double backward. */
#define FUNCTIONS(op, value, derivative, second_derivative)                         \
    ROW_FUNCTION(op, v, in0, (T)(value))                                            \
    ROW_FUNCTION(op##_backward, v, in1, PRODUCT(x, DUAL((T)(derivative))))          \
    ROW_FUNCTION(op##_double_backward, v, in2, PRODUCT(PRODUCT(x, y), DUAL((T)(second_derivative))))
#define CASES(op, ...) ROW_CASE(op) ROW_CASE(op##_backward) ROW_CASE(op##_double_backward)

ROWS(FUNCTIONS)

static void BLOCK(const struct stni_pointwise_block *block)
{
    switch ((int)block->op) { /* the rows of other lists are not here */
        ROWS(CASES)
    }
}

#undef FUNCTIONS
#undef CASES
#undef T
#undef R
#undef BLOCK
