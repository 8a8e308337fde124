/* The arithmetic of pointwise ops, one row each. Kernels of every device are made from it.
 *
 * x, y, z are the operands and a, b the op's numbers, of the type in which is computed; the value of the expression is the result. The
 * columns are the classes of element types:
 *   floating  f32 and f64; 16-bit floats compute in f32
 *   integer   i64, which wraps; results of narrower integers are cut
 *   boolean   0 or 1
 *   complex   c64 and c128; a and b are real. COMPLEX_MUL(x, y) and CONJUGATE(x) vectorise, C's own product does not
 * NONE stands where the op's rule (pointwise.h) admits no operand of the class. A row of more than a line calls a function, static inline,
 * written above the list for each type that it serves. */
#ifndef STNI_OPS_ELEMENTWISE_ARITHMETIC_H
#define STNI_OPS_ELEMENTWISE_ARITHMETIC_H

#include "ops/elementwise/gelu_arithmetic.h"

/*    op    floating   integer    boolean      complex */
#define STNI_POINTWISE_LIST(X)                                 \
    X(add,  x + a * y, x + a * y, x | (a & y), x + a * y)      \
    X(mul,  x * y,     x * y,     x & y,       COMPLEX_MUL(x, y)) \
    X(conj, x,         x,         x,           CONJUGATE(x))   \
    X(cast, x,         x,         x,           x)              \
    X(gelu, GELU(x, a), NONE,     NONE,        NONE)           \
    X(gelu_backward, x * GELU_SLOPE(y, a), NONE, NONE, NONE)   \
    X(gelu_curvature, GELU_CURVATURE(x, a), NONE, NONE, NONE)

#define STNI_POINTWISE_INDEX(op, floating, integer, boolean, complex) STNI_POINTWISE_##op,
enum stni_pointwise_op { STNI_POINTWISE_LIST(STNI_POINTWISE_INDEX) STNI_POINTWISE_COUNT };
#undef STNI_POINTWISE_INDEX

#endif
