/* The facts of unary functions (exponential.h), one row each. A row makes four ops: the function, the function in
 * place, its backward and its double backward.
 *
 *     ROW(X, name, class, reads, attributes, third)
 *
 * class       which dtypes it takes: ANALYTIC floating and complex; REAL floating; both turn integers and bool into f32.
 *             FLOATS floating only. NUMBERS all but bool, REALS all but bool and complex, in which it computes itself
 * reads       what the derivatives are functions of: the input IN, or the output OUT
 * attributes  NONE; NUMBERS, up to two of type double, a and b of the arithmetic; WIDTH, one such, finite and 0 or
 *             more; NEEDED, two such without defaults; EPS, a number or none, which is -1 in the arithmetic; CHOICE,
 *             one that chooses among this row of arithmetic and those after it. Their names and defaults stand in
 *             unary_rule.c
 * third       the third derivative: ZERO everywhere, or made of OPS (unary_third.c) */
#ifndef STNI_OPS_ELEMENTWISE_UNARY_LIST_H
#define STNI_OPS_ELEMENTWISE_UNARY_LIST_H

#define STNI_UNARY_LIST(ROW, X)                         \
    ROW(X, square,      NUMBERS,  IN,  NONE,    ZERO)   \
    ROW(X, relu,        REALS,    OUT, NONE,    ZERO)   \
    ROW(X, exp,         ANALYTIC, OUT, NONE,    ZERO)   \
    ROW(X, exp2,        ANALYTIC, OUT, NONE,    ZERO)   \
    ROW(X, expm1,       ANALYTIC, OUT, NONE,    ZERO)   \
    ROW(X, log,         ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, log2,        ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, log10,       ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, log1p,       ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, sqrt,        ANALYTIC, OUT, NONE,    OPS)    \
    ROW(X, rsqrt,       ANALYTIC, OUT, NONE,    OPS)    \
    ROW(X, reciprocal,  ANALYTIC, OUT, NONE,    OPS)    \
    ROW(X, sinh,        ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, cosh,        ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, tanh,        ANALYTIC, OUT, NONE,    OPS)    \
    ROW(X, asinh,       ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, acosh,       ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, atanh,       ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, sigmoid,     ANALYTIC, OUT, NONE,    OPS)    \
    ROW(X, sin,         ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, cos,         ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, tan,         ANALYTIC, OUT, NONE,    OPS)    \
    ROW(X, asin,        ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, acos,        ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, atan,        ANALYTIC, IN,  NONE,    OPS)    \
    ROW(X, erf,         REAL,     IN,  NONE,    OPS)    \
    ROW(X, erfc,        REAL,     IN,  NONE,    OPS)    \
    ROW(X, gelu,        FLOATS,   IN,  CHOICE,  OPS)    \
    ROW(X, silu,        FLOATS,   IN,  NONE,    OPS)    \
    ROW(X, mish,        FLOATS,   IN,  NONE,    OPS)    \
    ROW(X, softplus,    FLOATS,   IN,  NUMBERS, OPS)    \
    ROW(X, logsigmoid,  FLOATS,   IN,  NONE,    OPS)    \
    ROW(X, elu,         FLOATS,   IN,  NUMBERS, OPS)    \
    ROW(X, celu,        FLOATS,   IN,  NUMBERS, OPS)    \
    ROW(X, selu,        FLOATS,   IN,  NONE,    OPS)    \
    ROW(X, leaky_relu,  FLOATS,   IN,  NUMBERS, ZERO)   \
    ROW(X, relu6,       FLOATS,   IN,  NONE,    ZERO)   \
    ROW(X, hardtanh,    FLOATS,   IN,  NUMBERS, ZERO)   \
    ROW(X, hardsigmoid, FLOATS,   IN,  NONE,    ZERO)   \
    ROW(X, hardswish,   FLOATS,   IN,  NONE,    ZERO)   \
    ROW(X, logit,       REAL,     IN,  EPS,     OPS)    \
    ROW(X, softsign,    REAL,     IN,  NONE,    OPS)    \
    ROW(X, hardshrink,  FLOATS,   IN,  NUMBERS, ZERO)   \
    ROW(X, softshrink,  FLOATS,   IN,  WIDTH,   ZERO)   \
    ROW(X, threshold,   REALS,    IN,  NEEDED,  ZERO)

/* The names of a row's ops, for the op table. */
#define STNI_UNARY_NAMES(X, name, class, reads, attributes, third) X(name) X(name##_) X(name##_backward) X(name##_double_backward)

#endif
