/* Softmax of one element type over lines that lie side by side: rows of up to COLUMNS neighbours at a time, so that
 * whole pages of memory are read in runs and every line has its maximum and its sum in the L1 cache. A template of
 * core/box/each_float.h. Each line adds in the order of its elements, as it does in softmax_lanes_tmpl.h. */
#ifndef NAME /* read alone */
#include "ops/softmax/softmax_strip.h"
#include "core/box/as_f32.h"
#endif

static void NAME(largest_columns)(const struct strip *s, const T *x, ACC *max)
{
    const int64_t w = s->lines;
    for (int64_t l = 0; l < w; l++)
        max[l] = -(ACC)INFINITY;
    for (int64_t i = 0; i < s->blocks; i++, x += s->step[SOFTMAX_X])
#pragma omp simd
        for (int64_t l = 0; l < w; l++) {
            const ACC v = LOAD(x[l]);
            max[l] = v > max[l] ? v : max[l];
        }
}

/* Where T is exact, `out`, unless it is NULL, keeps the terms. */
static void NAME(raise_columns)(const struct strip *s, const T *x, T *out, const ACC *max, ACC *total)
{
    const int64_t w = s->lines;
    double runs[COLUMNS] = {0};
    for (int64_t l = 0; l < w; l++)
        total[l] = 0;
    for (int64_t i = 0; i < s->blocks; i++, x += s->step[SOFTMAX_X]) {
        for (int64_t l = 0; l < w && i > 0 && i % RUN == 0; l++)
            runs[l] += total[l], total[l] = 0;
        T *to = out ? out + i * s->step[SOFTMAX_OUT] : NULL;
        ACC term[COLUMNS];
#pragma omp simd
        for (int64_t l = 0; l < w; l++) {
            term[l] = MATH(exp_negative)(LOAD(x[l]) - max[l]);
            total[l] += term[l];
        }
        for (int64_t l = 0; l < w && to; l++)
            to[l] = STORE(term[l]);
    }
    for (int64_t l = 0; l < w && s->blocks > RUN; l++)
        total[l] = (ACC)(runs[l] + total[l]);
}

/* `factor`: one over the sums, or their logarithms. */
static void NAME(finish_columns)(const struct strip *s, const T *x, T *out, int logarithm, const ACC *max,
                                 const ACC *factor)
{
    const int64_t w = s->lines;
    for (int64_t i = 0; i < s->blocks; i++, x += s->step[SOFTMAX_X], out += s->step[SOFTMAX_OUT]) {
        if (logarithm)
#pragma omp simd
            for (int64_t l = 0; l < w; l++)
                out[l] = STORE((LOAD(x[l]) - max[l]) - factor[l]);
        else if (HALF)
#pragma omp simd
            for (int64_t l = 0; l < w; l++)
                out[l] = STORE(MATH(exp_negative)(LOAD(x[l]) - max[l]) * factor[l]);
        else
#pragma omp simd
            for (int64_t l = 0; l < w; l++)
                out[l] = STORE(LOAD(out[l]) * factor[l]);
    }
}

static void NAME(forward_columns)(const struct stni_softmax_args *a, const struct strip *s)
{
    const T *x = (const T *)a->x + s->at[SOFTMAX_X];
    T *out = (T *)a->out + s->at[SOFTMAX_OUT];
    ACC max[COLUMNS], total[COLUMNS];
    NAME(largest_columns)(s, x, max);
    NAME(raise_columns)(s, x, HALF || a->logarithm ? NULL : out, max, total);
    for (int64_t l = 0; l < s->lines; l++)
        total[l] = a->logarithm ? MATH(log)(total[l]) : (ACC)1 / total[l];
    NAME(finish_columns)(s, x, out, a->logarithm, max, total);
}
