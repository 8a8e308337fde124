/* Activations and their derivatives in one type: ACTIVATION_T is the type, ACTIVATION_F(name) the name of its functions. */
STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(gelu_derivative)(ACTIVATION_T x)
{
    return ACTIVATION_F(normal)(x) + x * ACTIVATION_F(density)(x);
}

/* The approximation is x (1 + tanh u) / 2, u = k (x + c x^3). */
STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(gelu_u)(ACTIVATION_T x)
{
    return x * ((ACTIVATION_T)GELU_K + (ACTIVATION_T)(GELU_K * GELU_C) * (x * x));
}

STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(gelu_du)(ACTIVATION_T x)
{
    return (ACTIVATION_T)GELU_K * (1 + 3 * (ACTIVATION_T)GELU_C * x * x);
}

STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(gelu_tanh)(ACTIVATION_T x)
{
    return x * SIGMOID(2 * ACTIVATION_F(gelu_u)(x));
}

STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(gelu_tanh_derivative)(ACTIVATION_T x)
{
    ACTIVATION_T u = ACTIVATION_F(gelu_u)(x), s = SIGMOID(2 * u);
    return s * (1 + 2 * x * SIGMOID(-2 * u) * ACTIVATION_F(gelu_du)(x));
}

STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(gelu_tanh_second_derivative)(ACTIVATION_T x)
{
    ACTIVATION_T u = ACTIVATION_F(gelu_u)(x), s = SIGMOID(2 * u), c = SIGMOID(-2 * u), du = ACTIVATION_F(gelu_du)(x);
    return 4 * s * c * (du + 3 * (ACTIVATION_T)(GELU_K * GELU_C) * x * x + x * (c - s) * du * du);
}

/* log(1 + e^x) */
STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(softplus)(ACTIVATION_T x)
{
    return (x < 0 ? 0 : x) + LOG1P_UNIT(EXP(x < 0 ? x : -x));
}

/* With s the sigmoid, (x s)' = s + x s (1 - s). */
STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(silu_derivative)(ACTIVATION_T x)
{
    ACTIVATION_T s = SIGMOID(x);
    return s * (1 + x * SIGMOID(-x));
}

STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(silu_second_derivative)(ACTIVATION_T x)
{
    ACTIVATION_T s = SIGMOID(x), c = SIGMOID(-x);
    return s * c * (2 + x * (c - s));
}

/* t = tanh(log(1 + e^x)) = n / (n + 2), n = e^x (e^x + 2); 1 beyond 20. */
STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(mish_t)(ACTIVATION_T x)
{
    ACTIVATION_T e = EXP(x > 20 ? 20 : x), n = e * (e + 2);
    return n / (n + 2);
}

/* mish(x) = x t, t' = (1 - t^2) s. */
STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(mish_derivative)(ACTIVATION_T x)
{
    ACTIVATION_T t = ACTIVATION_F(mish_t)(x);
    return t + x * SIGMOID(x) * (1 - t * t);
}

STNI_KERNEL_INLINE ACTIVATION_T ACTIVATION_F(mish_second_derivative)(ACTIVATION_T x)
{
    ACTIVATION_T s = SIGMOID(x), t = ACTIVATION_F(mish_t)(x);
    return s * (1 - t * t) * (2 + x * (SIGMOID(-x) - 2 * t * s));
}

#undef ACTIVATION_T
#undef ACTIVATION_F
