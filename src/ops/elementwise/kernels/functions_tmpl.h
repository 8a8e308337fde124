/* Functions of functions.h in one real type and its complex one. Included once per type with
 *   T          the type                       COMPLEX_T        the complex type
 *   LARGEST    its largest number             LIBM(f)          the C library's f of it
 *   NAME(f)    f of it                        COMPLEX_NAME(f)  f of the complex type */
#ifndef NAME /* read alone */
#include "ops/elementwise/kernels/function_words.h"
#define T float
#define NAME(name) name##_f32
#define LIBM(name) name##f
#define LARGEST FLT_MAX
#define COMPLEX_NAME(name) name##_c64
#define COMPLEX_T COMPLEX_F32
#endif

STNI_INLINE T NAME(most)(T x)
{
    (void)x;
    return LARGEST;
}

/* The weight is near 0 or near 1: from the end that is nearer, so that both ends are exact. */
STNI_INLINE T NAME(lerp)(T x, T y, T weight)
{
    return weight < (T)0.5 ? x + weight * (y - x) : y - (y - x) * (1 - weight);
}

/* Half to even, at a power of ten, `scale`: decimals are whole powers of it, of either sign. */
STNI_INLINE T NAME(round)(T x, T scale, T decimals)
{
    if (decimals == 0)
        return LIBM(rint)(x);
    return decimals > 0 ? LIBM(rint)(x * scale) / scale : LIBM(rint)(x / scale) * scale;
}

/* Of the rest that has the sign of what is divided, the one that has the divisor's. */
STNI_INLINE T NAME(remainder_of)(T rest, T y)
{
    return ((rest != 0) & ((rest < 0) != (y < 0))) ? rest + y : rest;
}

/* The quotient less its rest is whole, but for the rounding of its two steps. Rounded down it has the quotient's
 * sign, zeros too. */
STNI_INLINE T NAME(floor_quotient_of)(T x, T y, T rest)
{
    T whole = LIBM(rint)((x - rest) / y), down = ((rest != 0) & ((rest < 0) != (y < 0))) ? whole - 1 : whole;
    return y == 0 ? x / y : LIBM(copysign)(down, LIBM(copysign)((T)1, x) * y);
}

STNI_INLINE T NAME(remainder)(T x, T y)
{
    return NAME(remainder_of)(LIBM(fmod)(x, y), y);
}

STNI_INLINE T NAME(floor_quotient)(T x, T y)
{
    return NAME(floor_quotient_of)(x, y, LIBM(fmod)(x, y));
}

/* x times the derivative z / (y^2 + z^2) of the angle of (y, z) with respect to y, by the smaller one over the larger:
 * squares would overflow where lengths do not. At the origin it is 0, as in PyTorch. */
STNI_INLINE T NAME(angle_slope)(T x, T y, T z)
{
    int steep = LIBM(fabs)(y) > LIBM(fabs)(z);
    T small = steep ? z : y, large = steep ? y : z, ratio = small / large;
    return ((y == 0) & (z == 0)) ? 0 : (steep ? x * ratio : x) / (large + ROUNDED(small * ratio));
}

/* Without the case for infinite parts of ISO C's annex G, which would be a call per element. */
STNI_INLINE COMPLEX_T COMPLEX_NAME(mul)(COMPLEX_T x, COMPLEX_T y)
{
    T a = REAL(x), b = IMAG(x), c = REAL(y), d = IMAG(y);
    return COMPLEX(ROUNDED(a * c) - ROUNDED(b * d), ROUNDED(a * d) + ROUNDED(b * c));
}

STNI_INLINE COMPLEX_T COMPLEX_NAME(sigmoid)(COMPLEX_T x)
{
    return 1 / (1 + LIBM(cexp)(-x));
}

STNI_INLINE COMPLEX_T COMPLEX_NAME(exp2)(COMPLEX_T x)
{
    return LIBM(cexp)((T)STNI_LN2 * x);
}

/* Near 0, where 1 would take the digits of exp(x), from what they are without it: the real part is
 * exp(a) cos(b) - 1 = (exp(a) - 1) cos(b) - (1 - cos(b)). */
STNI_INLINE COMPLEX_T COMPLEX_NAME(expm1)(COMPLEX_T x)
{
    T a = REAL(x), b = IMAG(x), half = LIBM(sin)(b / 2);
    if (!(LIBM(fabs)(a) < 1))
        return LIBM(cexp)(x) - 1;
    return COMPLEX(ROUNDED(NAME(stni_expm1)(a) * LIBM(cos)(b)) - ROUNDED(2 * half * half),
                   NAME(stni_exp)(a) * LIBM(sin)(b));
}

STNI_INLINE COMPLEX_T COMPLEX_NAME(log2)(COMPLEX_T x)
{
    return (T)STNI_RLN2 * LIBM(clog)(x);
}

STNI_INLINE COMPLEX_T COMPLEX_NAME(log10)(COMPLEX_T x)
{
    return (T)STNI_RLN10 * LIBM(clog)(x);
}

/* Near 0, where 1 + x would lose the digits of x, from |1 + x|^2 - 1. */
STNI_INLINE COMPLEX_T COMPLEX_NAME(log1p)(COMPLEX_T x)
{
    T a = REAL(x), b = IMAG(x);
    if (!((LIBM(fabs)(a) < (T)0.5) & (LIBM(fabs)(b) < (T)0.5)))
        return LIBM(clog)(1 + x);
    return COMPLEX(NAME(stni_log1p)(ROUNDED(a * (2 + a)) + ROUNDED(b * b)) / 2, NAME(stni_atan2)(b, 1 + a));
}

/* acosh' x = (x^2 - 1)^(-1/2), of -1 positive as of 1. A complex root is taken of each factor, so that it lies on
 * acosh's own branch. */
STNI_INLINE T NAME(acosh_slope)(T x)
{
    T a = LIBM(fabs)(x);
    return 1 / LIBM(sqrt)((a - 1) * (a + 1));
}

STNI_INLINE T NAME(acosh_bend)(T x)
{
    T slope = NAME(acosh_slope)(x);
    return -x * slope * slope * slope;
}

STNI_INLINE COMPLEX_T COMPLEX_NAME(acosh_slope)(COMPLEX_T x)
{
    return 1 / COMPLEX_NAME(mul)(LIBM(csqrt)(x - 1), LIBM(csqrt)(1 + x));
}

STNI_INLINE COMPLEX_T COMPLEX_NAME(acosh_bend)(COMPLEX_T x)
{
    COMPLEX_T slope = COMPLEX_NAME(acosh_slope)(x), square = COMPLEX_NAME(mul)(slope, slope);
    return COMPLEX_NAME(mul)(-x, COMPLEX_NAME(mul)(slope, square));
}

#undef T
#undef COMPLEX_T
#undef LARGEST
#undef NAME
#undef LIBM
#undef COMPLEX_NAME
