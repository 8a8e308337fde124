/* Activation functions of neural networks, and the error function, in rows as in exponential.h; floating types only. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_ACTIVATION_H
#define STNI_OPS_ELEMENTWISE_KERNELS_ACTIVATION_H

/*    op          value                                derivative                            second derivative */
#define STNI_ACTIVATION_LIST(X)                                                                                              \
    X(erf,        ERF(x),                              (R)STNI_2RSQRTPI * EXP(-SQUARE(v)),   -2 * v * (R)STNI_2RSQRTPI * EXP(-SQUARE(v))) \
    X(erfc,       ERFC(x),                             -(R)STNI_2RSQRTPI * EXP(-SQUARE(v)),  2 * v * (R)STNI_2RSQRTPI * EXP(-SQUARE(v)))  \
    X(gelu,       x * NORMAL(x),                       GELU_SLOPE(v),                        DENSITY(v) * (2 - SQUARE(v)))      \
    X(gelu_tanh,  GELU_TANH(x),                        GELU_TANH_SLOPE(v),                   GELU_TANH_BEND(v))              \
    X(silu,       x * SIGMOID(x),                      SILU_SLOPE(v),                        SILU_BEND(v))                   \
    X(mish,       x * MISH_T(x),                       MISH_SLOPE(v),                        MISH_BEND(v))                   \
    X(softplus,   x * a > b ? x : SOFTPLUS(x * a) / a, v * a > b ? 1 : SIGMOID(v * a),       v * a >= b ? 0 : a * SIGMOID(v * a) * SIGMOID(-v * a)) \
    X(logsigmoid, -SOFTPLUS(-x),                       SIGMOID(-v),                          -SIGMOID(v) * SIGMOID(-v))      \
    X(elu,        x > 0 ? x : a * EXPM1(x),            v > 0 ? 1 : a * EXP(v),               v >= 0 ? 0 : a * EXP(v))        \
    X(celu,       x > 0 ? x : a * EXPM1(x / a),        v > 0 ? 1 : EXP(v / a),               v >= 0 ? 0 : EXP(v / a) / a)    \
    X(selu,       x > 0 ? (R)STNI_SELU * x : (R)STNI_SELU_NEGATIVE * EXPM1(x), v > 0 ? (R)STNI_SELU : (R)STNI_SELU_NEGATIVE * EXP(v), \
                  v >= 0 ? 0 : (R)STNI_SELU_NEGATIVE * EXP(v))                                                               \
    X(leaky_relu, x > 0 ? x : a * x,                   v > 0 ? 1 : a,                        0)                              \
    X(relu6,      WITHIN(x, 0, 6),                     v > 0 && v < 6,                       0)                              \
    X(hardtanh,   LIMIT(x, a, b),                      v > a && v < b,                       0)                              \
    X(hardsigmoid, WITHIN(x / 6 + (R)0.5, 0, 1),       v > -3 && v < 3 ? (R)1 / 6 : 0,       0)                              \
    X(hardswish,  x * WITHIN(x / 6 + (R)0.5, 0, 1),    v <= -3 ? 0 : v >= 3 ? 1 : v / 3 + (R)0.5, v > -3 && v < 3 ? (R)1 / 3 : 0) \
    X(logit,      LOGIT(x < a ? a : x > 1 - a ? 1 - a : x), LOGIT_SLOPE(v, a),               LOGIT_BEND(v, a))  \
    X(softsign,   x / (1 + ABS(x)),                    SOFTSIGN_SLOPE(v),                    SOFTSIGN_BEND(v))  \
    X(hardshrink, x >= -a && x <= a ? 0 : x,           v >= -a && v <= a ? 0 : 1,            0)                 \
    X(softshrink, x > a ? x - a : x < -a ? x + a : x != x ? x : 0, v >= -a && v <= a ? 0 : 1, 0)

#endif
