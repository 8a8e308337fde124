/* The facts of unary functions (exponential.h), one row each. A row makes four ops: the function, the function in
 * place, its backward and its double backward.
 *
 *     ROW(X, name, class, reads, attributes)
 *
 * class       which dtypes it takes: ANALYTIC floating and complex; REAL floating; both turn integers and bool into f32.
 *             FLOATS floating only. NUMBERS all but bool, REALS all but bool and complex, in which it computes itself
 * reads       what the derivatives are functions of: the input IN, or the output OUT
 * attributes  NONE; NUMBERS, up to two of type double, a and b of the arithmetic; CHOICE, one that chooses among this row of arithmetic and
 *             those after it. Their names and defaults stand in unary_rule.c */
#ifndef STNI_OPS_ELEMENTWISE_UNARY_LIST_H
#define STNI_OPS_ELEMENTWISE_UNARY_LIST_H

#define STNI_UNARY_LIST(ROW, X)                    \
    ROW(X, square,      NUMBERS,  IN,  NONE)       \
    ROW(X, relu,        REALS,    OUT, NONE)       \
    ROW(X, exp,         ANALYTIC, OUT, NONE)       \
    ROW(X, exp2,        ANALYTIC, OUT, NONE)       \
    ROW(X, expm1,       ANALYTIC, OUT, NONE)       \
    ROW(X, log,         ANALYTIC, IN,  NONE)       \
    ROW(X, log2,        ANALYTIC, IN,  NONE)       \
    ROW(X, log1p,       ANALYTIC, IN,  NONE)       \
    ROW(X, sqrt,        ANALYTIC, OUT, NONE)       \
    ROW(X, rsqrt,       ANALYTIC, OUT, NONE)       \
    ROW(X, reciprocal,  ANALYTIC, OUT, NONE)       \
    ROW(X, sinh,        ANALYTIC, IN,  NONE)       \
    ROW(X, cosh,        ANALYTIC, IN,  NONE)       \
    ROW(X, tanh,        ANALYTIC, OUT, NONE)       \
    ROW(X, sigmoid,     ANALYTIC, OUT, NONE)       \
    ROW(X, sin,         ANALYTIC, IN,  NONE)       \
    ROW(X, cos,         ANALYTIC, IN,  NONE)       \
    ROW(X, tan,         ANALYTIC, OUT, NONE)       \
    ROW(X, asin,        ANALYTIC, IN,  NONE)       \
    ROW(X, acos,        ANALYTIC, IN,  NONE)       \
    ROW(X, atan,        ANALYTIC, IN,  NONE)       \
    ROW(X, erf,         REAL,     IN,  NONE)       \
    ROW(X, erfc,        REAL,     IN,  NONE)       \
    ROW(X, gelu,        FLOATS,   IN,  CHOICE)     \
    ROW(X, silu,        FLOATS,   IN,  NONE)       \
    ROW(X, mish,        FLOATS,   IN,  NONE)       \
    ROW(X, softplus,    FLOATS,   IN,  NUMBERS)    \
    ROW(X, logsigmoid,  FLOATS,   IN,  NONE)       \
    ROW(X, elu,         FLOATS,   IN,  NUMBERS)    \
    ROW(X, celu,        FLOATS,   IN,  NUMBERS)    \
    ROW(X, selu,        FLOATS,   IN,  NONE)       \
    ROW(X, leaky_relu,  FLOATS,   IN,  NUMBERS)    \
    ROW(X, relu6,       FLOATS,   IN,  NONE)       \
    ROW(X, hardtanh,    FLOATS,   IN,  NUMBERS)    \
    ROW(X, hardsigmoid, FLOATS,   IN,  NONE)       \
    ROW(X, hardswish,   FLOATS,   IN,  NONE)

/* The names of a row's ops, for the op table. */
#define STNI_UNARY_NAMES(X, name, class, reads, attributes) X(name) X(name##_) X(name##_backward) X(name##_double_backward)

#endif
