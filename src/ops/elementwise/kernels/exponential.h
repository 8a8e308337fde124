/* Unary functions: functions of one operand that are differentiable twice. One row gives the function, its derivative
 * and its second derivative, and becomes three ops with a kernel each:
 *   op                   value                                    of the operand x
 *   op_backward          cotangent times derivative               of v: the function's operand or its result, whichever is handier (unary_list.h)
 *   op_double_backward   two cotangents times second derivative   the derivative of the column `derivative` with respect to v
 * a and b are the op's numbers, R is the real type. Complex types use the same formulas, conjugated where cotangents
 * need it. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_EXPONENTIAL_H
#define STNI_OPS_ELEMENTWISE_KERNELS_EXPONENTIAL_H

/*    op          value        derivative         second derivative */
#define STNI_EXPONENTIAL_LIST(X)                                                \
    X(exp,        EXP(x),      v,                 1)                            \
    X(exp2,       EXP2(x),     (R)STNI_LN2 * v,   (R)STNI_LN2)                  \
    X(expm1,      EXPM1(x),    1 + v,             1)                            \
    X(log,        LOG(x),      1 / v,             -1 / (v * v))                 \
    X(log2,       LOG2(x),     (R)STNI_RLN2 / v,  -(R)STNI_RLN2 / (v * v))      \
    X(log10,      LOG10(x),    (R)STNI_RLN10 / v,  -(R)STNI_RLN10 / (v * v))    \
    X(log1p,      LOG1P(x),    1 / (1 + v),       -1 / ((1 + v) * (1 + v)))     \
    X(sqrt,       SQRT(x),     1 / (2 * v),       -1 / (2 * v * v))             \
    X(rsqrt,      1 / SQRT(x), -v * v * v / 2,    -3 * v * v / 2)               \
    X(reciprocal, 1 / x,       -v * v,            -2 * v)                       \
    X(sinh,       SINH(x),     COSH(v),           SINH(v))                      \
    X(cosh,       COSH(x),     SINH(v),           COSH(v))                      \
    X(tanh,       TANH(x),     (1 - v) * (1 + v), -2 * v)                       \
    X(asinh,      ASINH(x),    1 / SQRT(1 + v * v), -v / ((1 + v * v) * SQRT(1 + v * v))) \
    X(acosh,      ACOSH(x),    ACOSH_SLOPE(v),    ACOSH_BEND(v))                \
    X(atanh,      ATANH(x),    1 / ((1 - v) * (1 + v)), 2 * v / ((1 - v) * (1 + v) * ((1 - v) * (1 + v)))) \
    X(sigmoid,    SIGMOID(x),  v * (1 - v),       1 - 2 * v)

#endif
