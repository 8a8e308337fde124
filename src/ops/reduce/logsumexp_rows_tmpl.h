/* The rows of logsumexp of one type of arithmetic, ACC: included once per type, with NAME and MATH as
 * core/box/each_float.h defines them. Sums of a block are taken in ACC, those of blocks in f64. Lanes and their
 * order are the same for every instruction set. */
#ifndef NAME /* read alone */
#include "ops/reduce/logsumexp_kernel.h"
#include "ops/cpu/math.h"
#include "core/box/as_f32.h"
#include <math.h>
enum { LANES = 16 };
#endif

/* exp(x - max) of an x that is at most max, or NaN. Equal numbers need no exp, which would make NaN of infinities. */
static inline __attribute__((always_inline)) ACC NAME(term)(ACC x, ACC max)
{
    return MATH(exp_addend)(x == max ? 0 : x - max);
}

static void NAME(clear)(void *maxima, double *sum, int64_t n)
{
    ACC *max = maxima;
    for (int64_t i = 0; i < n; i++) {
        max[i] = -(ACC)INFINITY;
        sum[i] = 0;
    }
}

/* A sum about `old` that terms about `top` join. */
static inline __attribute__((always_inline)) double NAME(joined)(double sum, ACC old, ACC top, ACC terms)
{
    return sum * (double)NAME(term)(old, top) + (double)terms;
}

static inline __attribute__((always_inline)) void NAME(raise_lanes)(ACC *restrict top, const ACC *restrict x)
{
    _Pragma("omp simd")
    for (int l = 0; l < LANES; l++)
        top[l] = x[l] > top[l] ? x[l] : top[l];
}

static inline __attribute__((always_inline)) void NAME(add_lanes)(ACC *restrict part, const ACC *restrict x, ACC top)
{
    _Pragma("omp simd")
    for (int l = 0; l < LANES; l++)
        part[l] += NAME(term)(x[l], top);
}

/* The last elements, filled up to LANES by what is never larger and adds nothing. */
static inline void NAME(pad)(ACC *to, const ACC *x, int64_t n)
{
    for (int l = 0; l < LANES; l++)
        to[l] = -(ACC)INFINITY;
    for (int64_t l = 0; l < n; l++)
        to[l] = x[l];
}

static inline ACC NAME(largest_lane)(ACC *top)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            top[l] = top[l + half] > top[l] ? top[l + half] : top[l];
    return top[0];
}

static inline ACC NAME(sum_lanes)(ACC *part)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            part[l] += part[l + half];
    return part[0];
}

static void NAME(along)(const void *elements, int64_t n, void *maximum, double *sum)
{
    const ACC *x = elements;
    const int64_t whole = n / LANES * LANES;
    ACC *max = maximum, top[LANES], part[LANES] = {0}, last[LANES];
    for (int l = 0; l < LANES; l++)
        top[l] = *max;
    NAME(pad)(last, x + whole, n - whole);
    for (int64_t i = 0; i < whole; i += LANES)
        NAME(raise_lanes)(top, x + i);
    NAME(raise_lanes)(top, last);
    const ACC largest = NAME(largest_lane)(top);
    for (int64_t i = 0; i < whole; i += LANES)
        NAME(add_lanes)(part, x + i, largest);
    if (whole < n)
        NAME(add_lanes)(part, last, largest);
    *sum = NAME(joined)(*sum, *max, largest, NAME(sum_lanes)(part));
    *max = largest;
}

static void NAME(across)(const void *elements, int64_t rows, int64_t stride, int64_t n, void *maxima,
                         double *restrict sum)
{
    const ACC *restrict x = elements;
    ACC *restrict max = maxima;
    ACC top[STNI_LOGSUMEXP_LANES], part[STNI_LOGSUMEXP_LANES];
    for (int64_t i = 0; i < n; i++) {
        top[i] = max[i];
        part[i] = 0;
    }
    for (int64_t r = 0; r < rows; r++)
        _Pragma("omp simd")
        for (int64_t i = 0; i < n; i++)
            top[i] = x[r * stride + i] > top[i] ? x[r * stride + i] : top[i];
    for (int64_t r = 0; r < rows; r++)
        _Pragma("omp simd")
        for (int64_t i = 0; i < n; i++)
            part[i] += NAME(term)(x[r * stride + i], top[i]);
    _Pragma("omp simd")
    for (int64_t i = 0; i < n; i++) {
        sum[i] = NAME(joined)(sum[i], max[i], top[i], part[i]);
        max[i] = top[i];
    }
}

static void NAME(finish)(void *result, int64_t step, const void *maxima, const double *sum, int64_t n)
{
    const ACC *max = maxima;
    ACC *out = result, y[STNI_LOGSUMEXP_LANES];
    _Pragma("omp simd")
    for (int64_t i = 0; i < n; i++)
        y[i] = max[i] + MATH(log)((ACC)sum[i]);
    for (int64_t i = 0; i < n; i++)
        out[i * step] = y[i];
}

static void NAME(keep)(double *largest, double *sums, int64_t step, const void *maxima, const double *sum, int64_t n)
{
    const ACC *max = maxima;
    for (int64_t i = 0; i < n; i++) {
        largest[i * step] = (double)max[i];
        sums[i * step] = sum[i];
    }
}
