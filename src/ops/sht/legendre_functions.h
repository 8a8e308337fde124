/* Normalised associated Legendre functions, for C, C++ and CUDA compilers: where their recurrence in the degree begins,
 * its coefficients, and how far a value is from what a double holds.
 *
 *     P(m, m) = c(m) sin(theta)^m,  P(m + 1, m) = a(m + 1, m) cos(theta) P(m, m),
 *     P(l, m) = a(l, m) cos(theta) P(l - 1, m) - b(l, m) P(l - 2, m),
 *
 * which is stable for growing l. sin(theta)^m has no room in a double where m is large and theta small, though P grows
 * from it to the size of others: values are carried as value 2^(512 scale), scale <= 0, and are less than 2^-256, that
 * is 0, until the scale is 0 (as Prezeau and Reinecke 2010 do). P / sin(theta), from which derivatives are made at the
 * poles too, has the same recurrence and begins with sin(theta)^(m - 1). */
#ifndef STNI_OPS_SHT_LEGENDRE_FUNCTIONS_H
#define STNI_OPS_SHT_LEGENDRE_FUNCTIONS_H

#include "ops/sht/legendre_kernel.h"
#include "ops/sht/quadrature.h"

#define STNI_LEGENDRE_LARGE 0x1p256
#define STNI_LEGENDRE_STEP 0x1p512

struct stni_scaled {
    double value;
    int scale;
};

STNI_INLINE struct stni_scaled stni_scaled_of(double value, int scale)
{
    struct stni_scaled x;
    const int low = value != 0 && value < 1 / STNI_LEGENDRE_LARGE, high = value >= STNI_LEGENDRE_LARGE;
    x.value = low ? value * STNI_LEGENDRE_STEP : high ? value / STNI_LEGENDRE_STEP : value;
    x.scale = scale - low + high;
    return x;
}

/* s^n for 0 <= s <= 1, by squares. */
STNI_INLINE struct stni_scaled stni_scaled_power(double s, int64_t n)
{
    struct stni_scaled power = stni_scaled_of(1, 0), square = stni_scaled_of(s, 0);
    for (; n > 0; n >>= 1) {
        if (n & 1)
            power = stni_scaled_of(power.value * square.value, power.scale + square.scale);
        square = stni_scaled_of(square.value * square.value, 2 * square.scale);
    }
    return power;
}

/* c(m) / c(m - 1). */
STNI_INLINE double stni_legendre_step(int64_t m)
{
    return sqrt(1 + 0.5 / (double)m);
}

/* c(0). */
STNI_INLINE double stni_legendre_first(void)
{
    return sqrt(0.25 / STNI_PI);
}

/* a(n, o) of n > o. */
STNI_INLINE double stni_legendre_a(double n, double o)
{
    return sqrt((2 * n - 1) * (2 * n + 1) / ((n - o) * (n + o)));
}

/* b(n, o) of n > o + 1; 0 for n = o + 1. */
STNI_INLINE double stni_legendre_b(double n, double o)
{
    return sqrt((2 * n + 1) * (n - 1 - o) * (n - 1 + o) / ((2 * n - 3) * (n - o) * (n + o)));
}

/* The order of the functions P / sin that derivatives of order m are made of: those of order 0 are minus
 * sqrt(l (l + 1)) sin P(l, 1) / sin. */
STNI_INLINE int64_t stni_legendre_order(const struct stni_legendre_function *f, int64_t m)
{
    return f->part != STNI_LEGENDRE_VALUE && m == 0 ? 1 : m;
}

/* That of sin(theta) with which the functions of an order begin. */
STNI_INLINE int64_t stni_legendre_exponent(const struct stni_legendre_function *f, int64_t order)
{
    return f->part == STNI_LEGENDRE_VALUE ? order : order - 1;
}

/* s(l), with the sign of the order. Schmidt's functions are those of norm 1 times sqrt(4 pi / (2 l + 1)); the factors
 * of what is analysed and of what is put together are each other's inverse. */
STNI_INLINE double stni_legendre_scale(const struct stni_legendre_function *f, int64_t l, int64_t m)
{
    const double n = (double)l;
    double s = f->norm == STN_SHT_ORTHO ? 1 : sqrt(4 * STNI_PI);
    if (f->norm == STN_SHT_SCHMIDT)
        s /= sqrt(2 * n + 1);
    s = f->inverse ? 1 / s : s;
    if (f->potential && l > 0)
        s /= n * (n + 1);
    return f->csphase && (m & 1) ? -s : s;
}

/* What a value of the part is made of: `here` times the function of degree l plus `below` times that of degree l - 1,
 * the first times cos(theta) where the order of a meridional part is not 0, and times sin(theta) where it is. */
struct stni_legendre_row {
    double here, below;
};

STNI_INLINE struct stni_legendre_row stni_legendre_row_of(const struct stni_legendre_function *f, int64_t l, int64_t m)
{
    const double n = (double)l, o = (double)m, s = stni_legendre_scale(f, l, m);
    struct stni_legendre_row row = {s, 0};
    if (f->part == STNI_LEGENDRE_ZONAL)
        row.here = s * o;
    if (f->part == STNI_LEGENDRE_MERIDIONAL) {
        row.here = m == 0 ? -s * sqrt(n * (n + 1)) : s * n;
        row.below = m == 0 || l == m ? 0 : -s * sqrt((2 * n + 1) * (n - o) * (n + o) / (2 * n - 1));
    }
    return row;
}

STNI_INLINE double stni_legendre_value(const struct stni_legendre_function *f, struct stni_legendre_row row, int64_t m,
                                       double cosine, double sine, double here, double below)
{
    if (f->part != STNI_LEGENDRE_MERIDIONAL)
        return row.here * here;
    return m == 0 ? row.here * sine * here : row.here * cosine * here + row.below * below;
}

/* Whether s(l) is the same for all degrees of an order, and with it what values are made of `here` with. */
STNI_INLINE int stni_legendre_is_bare(const struct stni_legendre_function *f)
{
    return f->part == STNI_LEGENDRE_VALUE && f->norm != STN_SHT_SCHMIDT && !f->potential;
}

/* Whether the function of degree l and order m is odd about the equator. */
STNI_INLINE int stni_legendre_is_odd(const struct stni_legendre_function *f, int64_t l, int64_t m)
{
    return (int)((l - m + (f->part == STNI_LEGENDRE_MERIDIONAL)) & 1);
}

#endif
