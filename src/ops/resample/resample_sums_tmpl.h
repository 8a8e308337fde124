/* Sums of rows of sums, which are of the type of arithmetic whatever the dtype: included once per such type with
 *   ACC   the type   NAME(f)   f of this type */
#ifndef NAME /* read alone */
#include "ops/resample/resample_table.h"
#define ACC float
#define NAME(f) f##_f32
#endif

#define T ACC
#define LOAD(x) (x)
#define SUM_LONG NAME(sum_long)
#include "ops/resample/resample_long_tmpl.h"
#undef T
#undef LOAD
#undef SUM_LONG

/* One sum of many terms that follow each other: f64 lanes, which are added pairwise, run after run. */
static ACC NAME(sum_line)(const ACC *from, const double *w, int64_t terms)
{
    double total = 0;
    for (int64_t k = 0, end; k < terms; k = end) {
        double lane[LANES] = {0};
        end = terms - k < LANES * RUN ? terms : k + LANES * RUN;
        for (; k + LANES <= end; k += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += w[k + l] * (double)from[k + l];
        for (int l = 0; k + l < end; l++)
            lane[l] += w[k + l] * (double)from[k + l];
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int l = 0; l < half; l++)
                lane[l] += lane[l + half];
        total += lane[0];
    }
    return (ACC)total;
}

/* sums = sum over k of w[k] rows[k], for n elements; rows begin `apart` elements from each other. */
static void NAME(fold)(ACC *restrict sums, const ACC *rows, int64_t apart, const double *w, int64_t terms, int64_t n)
{
    for (int64_t i = 0; i < n && terms > RUN; i += STRIP)
        NAME(sum_long)(sums + i, rows + i, 1, apart, w, terms, n - i < STRIP ? n - i : STRIP);
    if (terms > RUN)
        return;
    if (terms == 0)
        memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t i = 0; i < n && terms > 0; i++)
        sums[i] = (ACC)w[0] * rows[i];
    for (int64_t k = 1; k < terms; k++)
        for (int64_t i = 0; i < n; i++)
            sums[i] += (ACC)w[k] * rows[i + k * apart];
}

/* n periods of targets: the terms of `x` from target t on, `gap` elements from each other, and those of the next
 * period `apart` further. */
static inline __attribute__((always_inline)) void NAME(even)(const struct table *x, int64_t t, const ACC *restrict row,
                                                             int64_t period, int64_t apart, int64_t gap, int64_t n,
                                                             ACC (*restrict sums)[BLOCK])
{
    for (int64_t p = 0; p < period; p++) {
        const double *w = x->weight + x->begin[t + p];
        const ACC *from = row + (x->first[t + p] - x->first[t]) * gap;
        const int64_t terms = x->begin[t + p + 1] - x->begin[t + p];
        if (terms > RUN) {
            NAME(sum_long)(sums[p], from, apart, gap, w, terms, n);
            continue;
        }
        if (terms > 1)
            for (int64_t i = 0; i < n; i++)
                sums[p][i] = (ACC)w[0] * from[i * apart] + (ACC)w[1] * from[i * apart + gap];
        else
            for (int64_t i = 0; i < n; i++)
                sums[p][i] = terms > 0 ? (ACC)w[0] * from[i * apart] : 0;
        for (int64_t k = 2; k < terms; k++)
            for (int64_t i = 0; i < n; i++)
                sums[p][i] += (ACC)w[k] * from[i * apart + k * gap];
    }
}

/* n periods of the even run of `x` from row[0] on, of groups of `width`. */
static void NAME(sum_even)(const struct table *x, const ACC *restrict row, int64_t width, int64_t n,
                           ACC (*restrict sums)[BLOCK])
{
    const int64_t t = x->even.begin, apart = x->apart;
    switch (apart < 3 ? (apart - 1) * PERIODS + x->period : 0) { /* which numbers the compiler may know */
    case 1:
        NAME(even)(x, t, row, 1, 1, width, n, sums);
        break;
    case 2:
        NAME(even)(x, t, row, 2, 1, 1, n, sums);
        break;
    case 3:
        NAME(even)(x, t, row, 3, 1, 1, n, sums);
        break;
    case 4:
        NAME(even)(x, t, row, 4, 1, 1, n, sums);
        break;
    case PERIODS + 1:
        NAME(even)(x, t, row, 1, 2, 1, n, sums);
        break;
    default:
        NAME(even)(x, t, row, x->period, apart, 1, n, sums);
    }
}
