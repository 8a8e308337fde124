/* Complex numbers as pairs of T: sums are those of the parts, which PARTS(x) names; products are written out, so
 * that their bits are the same from every compiler. Included with T, NAME(x), PARTS(x). */
#ifndef NAME /* read alone */
#include "core/box/box_reduce_tmpl.h"
#define T float
#define NAME(x) x##_c64
#define PARTS(x) x##_f32
#endif

static void NAME(sum2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    PARTS(sum2)(acc, a, b, 2 * n);
}

static void NAME(sum)(void *restrict acc, const void *b, int64_t n)
{
    PARTS(sum)(acc, b, 2 * n);
}

/* Products in one loop and sums in another: where both stand in one, gcc 12 contracts them into one rounding
 * (fmaddsub) although contraction is off. `x` may be `to`. */
static void NAME(piece)(T *to, const T *x, const T *y, int64_t n)
{
    T ac[128], bd[128], ad[128], bc[128];
    for (int64_t i = 0; i < n; i++) {
        ac[i] = x[2 * i] * y[2 * i];
        bd[i] = x[2 * i + 1] * y[2 * i + 1];
        ad[i] = x[2 * i] * y[2 * i + 1];
        bc[i] = x[2 * i + 1] * y[2 * i];
    }
    for (int64_t i = 0; i < n; i++) {
        to[2 * i] = ac[i] - bd[i];
        to[2 * i + 1] = ad[i] + bc[i];
    }
}

static void NAME(prod2)(void *acc, const void *a, const void *b, int64_t n)
{
    T *to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i += 128)
        NAME(piece)(to + 2 * i, x + 2 * i, y + 2 * i, n - i < 128 ? n - i : 128);
}

static void NAME(prod)(void *acc, const void *b, int64_t n)
{
    NAME(prod2)(acc, acc, b, n);
}

static void NAME(finish)(void *out, const void *acc, int64_t n, int64_t divisor)
{
    PARTS(finish)(out, acc, 2 * n, divisor);
}

#undef T
#undef NAME
#undef PARTS
