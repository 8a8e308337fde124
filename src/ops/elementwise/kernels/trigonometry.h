/* Trigonometric functions and their inverses, in rows as in exponential.h. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_TRIGONOMETRY_H
#define STNI_OPS_ELEMENTWISE_KERNELS_TRIGONOMETRY_H

/*    op    value    derivative            second derivative */
#define STNI_TRIGONOMETRY_LIST(X)                                                       \
    X(sin,  SIN(x),  COS(v),               -SIN(v))                                     \
    X(cos,  COS(x),  -SIN(v),              -COS(v))                                     \
    X(tan,  TAN(x),  1 + v * v,            2 * v)                                       \
    X(asin, ASIN(x), 1 / SQRT(1 - v * v),  v / ((1 - v * v) * SQRT(1 - v * v)))         \
    X(acos, ACOS(x), -1 / SQRT(1 - v * v), -v / ((1 - v * v) * SQRT(1 - v * v)))        \
    X(atan, ATAN(x), 1 / (1 + v * v),      -2 * v / ((1 + v * v) * (1 + v * v)))

#endif
