/* Rows that compare, test, combine bits, round, and take complex numbers apart. As arithmetic.h. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_COMPARISON_H
#define STNI_OPS_ELEMENTWISE_KERNELS_COMPARISON_H

/* Of these the CPU's blocks write truths, a byte each, whatever they compare (truth_block.c; eq is the first and
 * isfinite the last for stni_pointwise_result). */
/*    op           floating             integer boolean complex */
#define STNI_TRUTH_LIST(X)                                                                            \
    X(eq,          x == y,              x == y, x == y, x == y)                                       \
    X(ne,          x != y,              x != y, x != y, x != y)                                       \
    X(lt,          x < y,               x < y,  x < y,  NONE)                                         \
    X(le,          x <= y,              x <= y, x <= y, NONE)                                         \
    X(gt,          x > y,               x > y,  x > y,  NONE)                                         \
    X(ge,          x >= y,              x >= y, x >= y, NONE)                                         \
    X(isnan,       x != x,              0,      0,      x != x)                                       \
    X(isinf,       IS_INFINITE(x),      0,      0,      IS_INFINITE(REAL(x)) + IS_INFINITE(IMAG(x)) > 0)  \
    X(isfinite,    x - x == 0,          1,      1,      x - x == 0)

#define STNI_PARTS_LIST(X)                                                                            \
    X(logical_and, NONE,                NONE,   x & y,  NONE)                                         \
    X(logical_or,  NONE,                NONE,   x | y,  NONE)                                         \
    X(logical_xor, NONE,                NONE,   x ^ y,  NONE)                                         \
    X(logical_not, NONE,                NONE,   x ^ 1,  NONE)                                         \
    X(bitwise_and, NONE,                x & y,  x & y,  NONE)                                         \
    X(bitwise_or,  NONE,                x | y,  x | y,  NONE)                                         \
    X(bitwise_xor, NONE,                x ^ y,  x ^ y,  NONE)                                         \
    X(bitwise_not, NONE,                ~x,     x ^ 1,  NONE)                                         \
    X(nan_to_num,  x != x ? a : x > MOST(x) ? b : x < -MOST(x) ? c : x, x, x, NONE)                   \
    X(floor,       FLOOR(x),            x,      NONE,   NONE)                                         \
    X(ceil,        CEIL(x),             x,      NONE,   NONE)                                         \
    X(trunc,       TRUNC(x),            x,      NONE,   NONE)                                         \
    X(round,       ROUND(x, a, b),      x,      NONE,   NONE)                                         \
    X(atan2,       ATAN2(x, y),         NONE,   NONE,   NONE)                                         \
    X(atan2_backward, ANGLE_SLOPE(x, y, z), NONE, NONE, NONE)                                         \
    X(hypot,       HYPOT(x, y),         NONE,   NONE,   NONE)                                         \
    X(logaddexp,   LOGADDEXP(x, y),     NONE,   NONE,   NONE)                                         \
    X(xlogy,       y != y ? y : x == 0 ? 0 : x * LOG(y), NONE, NONE, NONE)                            \
    X(copysign,    COPYSIGN(x, y),      NONE,   NONE,   NONE)                                         \
    X(copysign_backward, y == 0 ? 0 : x * (z / y), NONE, NONE, NONE)                                  \
    X(real,        x,                   x,      x,      x)                                            \
    X(imag,        NONE,                NONE,   NONE,   IMAG(x))                                      \
    X(imag_backward, NONE,              NONE,   NONE,   COMPLEX((R)0, REAL(x)))                       \
    X(angle,       x < 0 ? (R)STNI_PI : x != x ? x : 0, NONE, NONE, ATAN2(IMAG(x), REAL(x)))          \
    X(angle_backward, 0,                NONE,   NONE,                                                 \
      COMPLEX(-ANGLE_SLOPE(REAL(x), REAL(y), IMAG(y)), ANGLE_SLOPE(REAL(x), IMAG(y), REAL(y))))       \
    X(complex,     NONE,                NONE,   NONE,   COMPLEX(REAL(x), REAL(y)))                    \
    X(polar,       NONE,                NONE,   NONE,   REAL(x) * COMPLEX(COS(REAL(y)), SIN(REAL(y))))

#define STNI_COMPARISON_LIST(X) STNI_TRUTH_LIST(X) STNI_PARTS_LIST(X)

#endif
