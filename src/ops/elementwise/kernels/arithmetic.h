/* The arithmetic of pointwise ops, one row each: sums, products, quotients, choices. Kernels of every device are made
 * from such lists (pointwise_op.h has them all).
 *
 * x, y, z are the operands and a, b, c the op's numbers, of the type in which the op computes; the value of the
 * expression is the result. The columns are the classes of element types:
 *   floating  f32 and f64; 16-bit floats compute in f32
 *   integer   i64, which wraps; results of narrower integers keep the low bits
 *   boolean   0 or 1
 *   complex   c64 and c128; a, b and c are real. COMPLEX_MUL(x, y) and CONJUGATE(x) vectorise, C's own product does not
 * NONE stands where the op's rule (pointwise.h) admits no operand of the class. A row of more than a line calls a
 * function, static inline, of functions.h. Functions of one operand whose derivatives are kernels too are rows of
 * another kind: exponential.h. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_ARITHMETIC_H
#define STNI_OPS_ELEMENTWISE_KERNELS_ARITHMETIC_H

/* Rests of divisions, which have a source of their own on the CPU. */
/*    op           floating                integer               boolean      complex */
#define STNI_RESTS_LIST(X)                                                                           \
    X(div_floor,   FLOOR_QUOTIENT(x, y),   FLOOR_QUOTIENT(x, y), NONE,        NONE)                  \
    X(fmod,        FMOD(x, y),             FMOD(x, y),           NONE,        NONE)                  \
    X(remainder,   REMAINDER(x, y),        REMAINDER(x, y),      NONE,        NONE)

/* All but these. */
#define STNI_VALUES_LIST(X)                                                                      \
    X(add,         x + a * y,              x + a * y,            x | (a & y), x + a * y)             \
    X(sub,         x - a * y,              x - a * y,            NONE,        x - a * y)             \
    X(mul,         x * y,                  x * y,                x & y,       COMPLEX_MUL(x, y))     \
    X(div,         x / y,                  NONE,                 NONE,        x / y)                 \
    X(div_trunc,   TRUNC(x / y),           QUOTIENT(x, y),       NONE,        NONE)                  \
    X(neg,         -x,                     -x,                   NONE,        -x)                    \
    X(square,      x * x,                  x * x,                NONE,        COMPLEX_MUL(x, x))     \
    X(square_backward, 2 * x * y,          NONE,                 NONE,        2 * COMPLEX_MUL(x, CONJUGATE(y))) \
    X(square_double_backward, 2 * x * y,         NONE,                 NONE,        2 * COMPLEX_MUL(x, y)) \
    X(cube,        x * x * x,              x * x * x,            NONE,        COMPLEX_MUL(COMPLEX_MUL(x, x), x))\
    X(inverse_square, 1 / (x * x),         NONE,                 NONE,        NONE)                  \
    X(pow,         POW(x, y),              POW(x, y),            NONE,        POW(x, y))             \
    X(conj,        x,                      x,                    x,           CONJUGATE(x))          \
    X(cast,        x,                      x,                    x,           x)                     \
    X(copy,        y,                      y,                    y,           y)                     \
    X(lerp,        LERP(x, y, z),          NONE,                 NONE,        x + COMPLEX_MUL(z, y - x)) \
    X(addcmul,     x + a * y * z,          x + a * y * z,        NONE,        x + COMPLEX_MUL(a * y, z)) \
    X(addcdiv,     x + a * y / z,          NONE,                 NONE,        x + a * y / z)         \
    X(where,       x != 0 ? y : z,         x != 0 ? y : z,       x ? y : z,   x != 0 ? y : z)        \
    X(masked_fill, y != 0 ? z : x,         y != 0 ? z : x,       y ? z : x,   y != 0 ? z : x)        \
    X(maximum,     MAXIMUM(x, y),          MAXIMUM(x, y),        x | y,       NONE)                  \
    X(minimum,     MINIMUM(x, y),          MINIMUM(x, y),        x & y,       NONE)                  \
    X(clamp,       LIMIT(x, y, z),         LIMIT(x, y, z),       NONE,        NONE)                  \
    X(relu,        x < 0 ? 0 : x,          x < 0 ? 0 : x,        NONE,        NONE)                  \
    X(relu_backward, y <= 0 ? 0 : x,       NONE,                 NONE,        NONE)                  \
    X(relu_double_backward, 0,                   NONE,                 NONE,        NONE)                  \
    X(threshold,   x <= a ? b : x,         x <= a ? b : x,       NONE,        NONE)                  \
    X(threshold_backward, y <= a ? 0 : x,  NONE,                 NONE,        NONE)                  \
    X(threshold_double_backward, 0,        NONE,                 NONE,        NONE)                  \
    X(abs,         ABS(x),                 x < 0 ? -x : x,       x,           ABS(x))                \
    X(abs_backward, y > 0 ? x : y < 0 ? -x : y == 0 ? 0 : 0 * x, NONE, NONE,                         \
      y == 0 ? 0 : COMPLEX_MUL(x, y / ABS(y)))                                                       \
    X(exp_of_difference, z * EXP(x - y),   NONE,                 NONE,        NONE)                  \
    X(scaled_difference, z * (x - y),      NONE,                 NONE,        NONE)                  \
    X(sign,        (x > 0) - (x < 0),      (x > 0) - (x < 0),    x,           NONE)                  \
    X(gated,       x * SIGMOID(y),         NONE,                 NONE,        NONE)                  \
    X(gated_backward, x * y * (SIGMOID(z) * SIGMOID(-z)), NONE, NONE,        NONE)                  \
    /* Gates let the cotangent x through where y lies so to z or between a and b (NaN: none), or by halves. */ \
    X(gate_maximum, y < z ? 0 : y == z ? x / 2 : x, NONE,        NONE,        NONE)                  \
    X(gate_within, ((y <= a) | (y >= b) | (y != y)) ? 0 : x, NONE, NONE,      NONE)                  \
    X(gate_halves, y == 2 ? x : y == 1 ? x / 2 : 0, NONE,        NONE,        NONE)                  \
    /* Halves of clamp's cotangent: x's, and those of the bounds y and z. */                         \
    X(halves_input, ((x < y) | (x > z)) ? 0 : (((x == y) | (x == z)) & (y < z)) ? 1 : 2, NONE, NONE, NONE)\
    X(halves_min,  ((y <= z) & (x < y)) ? 2 : ((x == y) & (y < z)) ? 1 : 0, NONE, NONE, NONE)        \
    X(halves_max,  ((y > z) | ((x > z) & (y == y))) ? 2 : ((x == z) & (y < z)) ? 1 : 0, NONE, NONE, NONE)

#define STNI_ARITHMETIC_LIST(X) STNI_VALUES_LIST(X) STNI_RESTS_LIST(X)

#endif
