/* What is done to a contiguous line of one precision: included once with T, the real type, COMPLEX_T, the complex
 * one, and NAME(f). */
#ifndef NAME /* read alone */
#include <stdint.h>
#define T float
#define COMPLEX_T float _Complex
#define NAME(f) f##_f32
#endif

/* Complex elements of n real ones. */
static void NAME(pair)(const void *reals, void *line, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        ((COMPLEX_T *)line)[k] = ((const T *)reals)[k];
}

static void NAME(scale)(void *line, int64_t n, double factor)
{
    T *x = line;
    const T f = (T)factor;
    for (int64_t i = 0; i < n && f != 1; i++)
        x[i] *= f;
}

/* Half a line of complex elements: those that stand for their conjugates too have `interior` times the scale. */
static void NAME(scale_half)(void *line, int64_t n, double scale, double interior)
{
    const int64_t last = (n - 1) / 2; /* of those: element 0 has no conjugate, nor has element n / 2 of an even n */
    COMPLEX_T *x = line;
    NAME(scale)(x, 2, scale);
    NAME(scale)(x + 1, 2 * last, scale * interior);
    if (n % 2 == 0)
        NAME(scale)(x + n / 2, 2, scale);
}

#undef T
#undef COMPLEX_T
#undef NAME
