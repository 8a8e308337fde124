/* The four ways of combining for one dtype that accumulates in itself. Included with T, NAME(x), QUOTIENT(a,
 * divisor), SUM_OF(a, b) and PROD_OF(a, b). */
#ifndef NAME /* read alone */
#include <stdint.h>
#define T float
#define NAME(x) x##_f32
#define QUOTIENT(a, d) ((a) / (float)(d))
#define SUM_OF(a, b) ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))
#endif

/* acc < b or acc > b decides; a NaN on either side stays. */
#define MIN_OF(a, b) ((a) <= (b) || (a) != (a) ? (a) : (b))
#define MAX_OF(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))

static void NAME(sum2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    T *restrict to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = SUM_OF(x[i], y[i]);
}

static void NAME(sum)(void *restrict acc, const void *b, int64_t n)
{
    T *restrict to = acc;
    const T *y = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = SUM_OF(to[i], y[i]);
}

static void NAME(prod2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    T *restrict to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = PROD_OF(x[i], y[i]);
}

static void NAME(prod)(void *restrict acc, const void *b, int64_t n)
{
    T *restrict to = acc;
    const T *y = b;
    for (int64_t i = 0; i < n; i++)
        to[i] = PROD_OF(to[i], y[i]);
}

static void NAME(min2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    T *restrict to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i++) {
        T u = x[i], v = y[i];
        to[i] = MIN_OF(u, v);
    }
}

static void NAME(min)(void *restrict acc, const void *b, int64_t n)
{
    T *restrict to = acc;
    const T *y = b;
    for (int64_t i = 0; i < n; i++) {
        T u = to[i], v = y[i];
        to[i] = MIN_OF(u, v);
    }
}

static void NAME(max2)(void *restrict acc, const void *a, const void *b, int64_t n)
{
    T *restrict to = acc;
    const T *x = a, *y = b;
    for (int64_t i = 0; i < n; i++) {
        T u = x[i], v = y[i];
        to[i] = MAX_OF(u, v);
    }
}

static void NAME(max)(void *restrict acc, const void *b, int64_t n)
{
    T *restrict to = acc;
    const T *y = b;
    for (int64_t i = 0; i < n; i++) {
        T u = to[i], v = y[i];
        to[i] = MAX_OF(u, v);
    }
}

static void NAME(finish)(void *out, const void *acc, int64_t n, int64_t divisor)
{
    T *to = out;
    const T *from = acc;
    for (int64_t i = 0; i < n; i++)
        to[i] = QUOTIENT(from[i], divisor);
}

#undef T
#undef NAME
#undef QUOTIENT
#undef MIN_OF
#undef MAX_OF
