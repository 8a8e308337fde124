/* Activations and their derivatives in one type. Included with T, the type, and NAME(f), f of it. */
#ifndef NAME /* read alone */
#include "ops/elementwise/kernels/normal_distribution.h"
#define T float
#define NAME(name) name##_f32
#endif

STNI_KERNEL_INLINE T NAME(gelu_derivative)(T x)
{
    return NAME(normal)(x) + x * NAME(density)(x);
}

/* The approximation is x (1 + tanh u) / 2, u = k (x + c x^3). */
STNI_KERNEL_INLINE T NAME(gelu_u)(T x)
{
    return x * ((T)GELU_K + (T)(GELU_K * GELU_C) * SQUARE(x));
}

STNI_KERNEL_INLINE T NAME(gelu_du)(T x)
{
    return (T)GELU_K * (1 + 3 * (T)GELU_C * SQUARE(x));
}

/* As the sigmoid, but 0 below -87 (f32) or -708, before it becomes subnormal. */
STNI_KERNEL_INLINE T NAME(gelu_sigmoid)(T x)
{
    T e = EXP_ADDEND(-ABS(x));
    return (x < 0 ? e : 1) / (1 + e);
}

STNI_KERNEL_INLINE T NAME(gelu_tanh)(T x)
{
    return x * NAME(gelu_sigmoid)(2 * NAME(gelu_u)(x));
}

STNI_KERNEL_INLINE T NAME(gelu_tanh_derivative)(T x)
{
    T u = NAME(gelu_u)(x), s = NAME(gelu_sigmoid)(2 * u);
    return s * (1 + 2 * x * NAME(gelu_sigmoid)(-2 * u) * NAME(gelu_du)(x));
}

STNI_KERNEL_INLINE T NAME(gelu_tanh_second_derivative)(T x)
{
    T u = NAME(gelu_u)(x), s = NAME(gelu_sigmoid)(2 * u), c = NAME(gelu_sigmoid)(-2 * u), du = NAME(gelu_du)(x);
    return 4 * s * c * (du + 3 * (T)(GELU_K * GELU_C) * SQUARE(x) + x * (c - s) * du * du);
}

/* log(1 + e^x) */
STNI_KERNEL_INLINE T NAME(softplus)(T x)
{
    return (x < 0 ? 0 : x) + LOG1P_UNIT(EXP(x < 0 ? x : -x));
}

/* With s the sigmoid, (x s)' = s + x s (1 - s). */
STNI_KERNEL_INLINE T NAME(silu_derivative)(T x)
{
    T s = SIGMOID(x);
    return s * (1 + x * SIGMOID(-x));
}

STNI_KERNEL_INLINE T NAME(silu_second_derivative)(T x)
{
    T s = SIGMOID(x), c = SIGMOID(-x);
    return s * c * (2 + x * (c - s));
}

/* t = tanh(log(1 + e^x)) = n / (n + 2), n = e^x (e^x + 2); 1 beyond 20. */
STNI_KERNEL_INLINE T NAME(mish_t)(T x)
{
    T e = EXP(x > 20 ? 20 : x), n = e * (e + 2);
    return n / (n + 2);
}

/* mish(x) = x t, t' = (1 - t^2) s. */
STNI_KERNEL_INLINE T NAME(mish_derivative)(T x)
{
    T t = NAME(mish_t)(x);
    return t + x * SIGMOID(x) * ((1 - t) * (1 + t));
}

STNI_KERNEL_INLINE T NAME(mish_second_derivative)(T x)
{
    T s = SIGMOID(x), t = NAME(mish_t)(x);
    return s * ((1 - t) * (1 + t)) * (2 + x * (SIGMOID(-x) - 2 * t * s));
}

/* A derivative of logit between eps and 1 - eps, and 0 beyond; where there is no eps, which is -1 then, NaN beyond 0
 * and 1. */
STNI_KERNEL_INLINE T NAME(logit_within)(T x, T eps, T value)
{
    T lowest = eps < 0 ? 0 : eps;
    int is_beyond = (x < lowest) | (x > 1 - lowest);
    return is_beyond ? (eps < 0 ? (T)NAN : 0) : value;
}

STNI_KERNEL_INLINE T NAME(logit_derivative)(T x, T eps)
{
    return NAME(logit_within)(x, eps, 1 / ABS(x * (1 - x)));
}

STNI_KERNEL_INLINE T NAME(logit_second_derivative)(T x, T eps)
{
    T p = x * (1 - x);
    return NAME(logit_within)(x, eps, (2 * x - 1) / (p * p));
}

/* 1 / (1 + |x|)^2, and NaN where x is infinite, as x / (1 + |x|) is. */
STNI_KERNEL_INLINE T NAME(softsign_derivative)(T x)
{
    T q = 1 / (1 + ABS(x));
    return q * q + (x - x);
}

STNI_KERNEL_INLINE T NAME(softsign_second_derivative)(T x)
{
    T q = 1 / (1 + ABS(x)), bend = -2 * q * q * q;
    return x > 0 ? bend : x < 0 ? -bend : x;
}

#undef T
#undef NAME
