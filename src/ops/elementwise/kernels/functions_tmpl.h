/* Functions of functions.h in one real type and its complex one. Included once per type with
 *   FUNCTIONS_T        the type
 *   FUNCTIONS_Z_T      the complex type
 *   FUNCTIONS_MOST     its largest number
 *   FUNCTIONS_F(name)  the name of its functions
 *   FUNCTIONS_C(name)  the C library's name for it
 *   FUNCTIONS_Z(name)  the name of its complex functions */

STNI_INLINE FUNCTIONS_T FUNCTIONS_F(most)(FUNCTIONS_T x)
{
    (void)x;
    return FUNCTIONS_MOST;
}

/* The weight is near 0 or near 1: from the end that is nearer, so that both ends are exact. */
STNI_INLINE FUNCTIONS_T FUNCTIONS_F(lerp)(FUNCTIONS_T x, FUNCTIONS_T y, FUNCTIONS_T weight)
{
    return weight < (FUNCTIONS_T)0.5 ? x + weight * (y - x) : y - (y - x) * (1 - weight);
}

/* Half to even, at a power of ten, `scale`: decimals are whole powers of it, of either sign. */
STNI_INLINE FUNCTIONS_T FUNCTIONS_F(round)(FUNCTIONS_T x, FUNCTIONS_T scale, FUNCTIONS_T decimals)
{
    if (decimals == 0)
        return FUNCTIONS_C(rint)(x);
    return decimals > 0 ? FUNCTIONS_C(rint)(x * scale) / scale : FUNCTIONS_C(rint)(x / scale) * scale;
}

STNI_INLINE FUNCTIONS_T FUNCTIONS_F(remainder)(FUNCTIONS_T x, FUNCTIONS_T y)
{
    FUNCTIONS_T rest = FUNCTIONS_C(fmod)(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/* The quotient less its rest is whole, but for the rounding of its two steps. Rounded down it has the quotient's sign, zeros too. */
STNI_INLINE FUNCTIONS_T FUNCTIONS_F(floor_quotient)(FUNCTIONS_T x, FUNCTIONS_T y)
{
    FUNCTIONS_T rest = FUNCTIONS_C(fmod)(x, y);
    FUNCTIONS_T whole = FUNCTIONS_C(rint)((x - rest) / y) - (rest != 0 && (rest < 0) != (y < 0));
    return y == 0 ? x / y : FUNCTIONS_C(copysign)(whole, FUNCTIONS_C(copysign)((FUNCTIONS_T)1, x) * y);
}

/* Without the case for infinite parts of ISO C's annex G, which would be a call per element. */
STNI_INLINE FUNCTIONS_Z_T FUNCTIONS_Z(mul)(FUNCTIONS_Z_T x, FUNCTIONS_Z_T y)
{
    FUNCTIONS_T a = REAL(x), b = IMAG(x), c = REAL(y), d = IMAG(y);
    return COMPLEX(ROUNDED(a * c) - ROUNDED(b * d), ROUNDED(a * d) + ROUNDED(b * c));
}

STNI_INLINE FUNCTIONS_Z_T FUNCTIONS_Z(sigmoid)(FUNCTIONS_Z_T x)
{
    return 1 / (1 + FUNCTIONS_C(cexp)(-x));
}

STNI_INLINE FUNCTIONS_Z_T FUNCTIONS_Z(exp2)(FUNCTIONS_Z_T x)
{
    return FUNCTIONS_C(cexp)((FUNCTIONS_T)STNI_LN2 * x);
}

STNI_INLINE FUNCTIONS_Z_T FUNCTIONS_Z(expm1)(FUNCTIONS_Z_T x)
{
    return FUNCTIONS_C(cexp)(x) - 1;
}

STNI_INLINE FUNCTIONS_Z_T FUNCTIONS_Z(log2)(FUNCTIONS_Z_T x)
{
    return (FUNCTIONS_T)STNI_RLN2 * FUNCTIONS_C(clog)(x);
}

STNI_INLINE FUNCTIONS_Z_T FUNCTIONS_Z(log1p)(FUNCTIONS_Z_T x)
{
    return FUNCTIONS_C(clog)(1 + x);
}

#undef FUNCTIONS_T
#undef FUNCTIONS_Z_T
#undef FUNCTIONS_MOST
#undef FUNCTIONS_F
#undef FUNCTIONS_C
#undef FUNCTIONS_Z
