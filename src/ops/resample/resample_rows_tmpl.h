/* Rows of one dtype: a template of core/box/each_float.h. */
#ifndef NAME /* read alone */
#include "ops/resample/resample_sums_tmpl.h"
#undef ACC
#undef NAME
#include "core/box/as_f32.h"
#define OF_ACC(f) f##_f32
#endif

#define SUM_LONG NAME(sum_long_rows)
#include "ops/resample/resample_long_tmpl.h"
#undef SUM_LONG

/* sums = sum over k of w[k] rows[k], for n elements; rows begin `apart` elements from each other. */
static void NAME(combine)(ACC *restrict sums, const T *rows, int64_t apart, const double *w, int64_t terms, int64_t n)
{
    for (int64_t i = 0; i < n && terms > RUN; i += STRIP)
        NAME(sum_long_rows)(sums + i, rows + i, 1, apart, w, terms, n - i < STRIP ? n - i : STRIP);
    if (terms > RUN)
        return;
    if (terms == 0)
        memset(sums, 0, (size_t)n * sizeof *sums);
    else if (terms == 1)
        for (int64_t i = 0; i < n; i++)
            sums[i] = (ACC)w[0] * LOAD(rows[i]);
    else if (terms > 2)
        for (int64_t i = 0; i < n; i++)
            sums[i] =
                (ACC)w[0] * LOAD(rows[i]) + (ACC)w[1] * LOAD(rows[i + apart]) + (ACC)w[2] * LOAD(rows[i + 2 * apart]);
    else
        for (int64_t i = 0; i < n; i++)
            sums[i] = (ACC)w[0] * LOAD(rows[i]) + (ACC)w[1] * LOAD(rows[i + apart]);
    for (int64_t k = 3; k < terms; k++)
        for (int64_t i = 0; i < n; i++)
            sums[i] += (ACC)w[k] * LOAD(rows[i + k * apart]);
}

/* What follows rows that are read for the first time is prefetched, since they end before a hardware prefetcher has
 * learnt them. */
static void NAME(prefetch)(const T *rows, int64_t apart, int64_t old, int64_t terms, int64_t n, size_t ahead)
{
    for (int64_t k = old; k < terms && ahead > 0; k++)
        stni_block_prefetch(rows + k * apart, (size_t)n * sizeof *rows, ahead);
}

/* The same from rows whose elements do not lie dense: groups of `width`, `step` apart. */
static void NAME(gather)(ACC *restrict sums, const T *rows, int64_t apart, const double *w, int64_t terms, int64_t n,
                         int64_t width, int64_t step)
{
    if (step == width) {
        NAME(combine)(sums, rows, apart, w, terms, n * width);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        NAME(combine)(sums + i * width, rows + i * step, apart, w, terms, width);
}

/* Where n periods of sums are put. */
static inline __attribute__((always_inline)) void NAME(put_even)(ACC (*sums)[BLOCK], int64_t period, T *restrict to,
                                                                 int64_t step, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t p = 0; p < period; p++)
            to[(i * period + p) * step] = STORE(sums[p][i]);
}

/* The even run of a line of groups of `width`, which lie dense and have period 1 where that is not 1. */
static void NAME(evenly)(const struct table *x, const ACC *row, int64_t width, T *to, int64_t step)
{
    ACC sums[PERIODS][BLOCK];
    const int64_t t = x->even.begin, all = stni_range_length(x->even) / x->period * width;
    const int64_t each = width > 1 ? 1 : step;
    const int in_place = !HALF && x->period == 1 && each == 1; /* the sums are the result */
    row += x->first[t] * width;
    to += t * step;
    for (int64_t i = 0; i < all; i += BLOCK) {
        const int64_t n = all - i < BLOCK ? all - i : BLOCK;
        T *out = to + i * x->period * each;
        OF_ACC(sum_even)(x, row + i * x->apart, width, n, in_place ? (ACC(*)[BLOCK])(void *)out : sums);
        if (in_place)
            continue;
        switch (each == 1 ? x->period : 0) { /* which numbers the compiler may know */
        case 1:
            NAME(put_even)(sums, 1, out, 1, n);
            break;
        case 2:
            NAME(put_even)(sums, 2, out, 1, n);
            break;
        case 3:
            NAME(put_even)(sums, 3, out, 1, n);
            break;
        case 4:
            NAME(put_even)(sums, 4, out, 1, n);
            break;
        default:
            NAME(put_even)(sums, x->period, out, each, n);
        }
    }
}

/* Single elements, one after the other. */
static void NAME(points)(const struct table *x, struct stni_range targets, const ACC *row, T *restrict to, int64_t step)
{
    for (int64_t t = targets.begin; t < targets.end; t++) {
        const int64_t begin = x->begin[t], end = x->begin[t + 1];
        const ACC *from = row + x->first[t];
        if (end - begin == 2) {
            to[t * step] = STORE((ACC)x->weight[begin] * from[0] + (ACC)x->weight[begin + 1] * from[1]);
            continue;
        }
        if (end - begin > RUN) {
            to[t * step] = STORE(OF_ACC(sum_line)(from, x->weight + begin, end - begin));
            continue;
        }
        ACC sum = begin < end ? (ACC)x->weight[begin] * from[0] : 0;
        for (int64_t k = begin + 1; k < end; k++)
            sum += (ACC)x->weight[k] * from[k - begin];
        to[t * step] = STORE(sum);
    }
}

/* Groups of `width` neighbours, one after the other. */
static void NAME(groups)(const struct table *x, struct stni_range targets, const ACC *row, int64_t width,
                         ACC *restrict sums, T *restrict to, int64_t step)
{
    for (int64_t t = targets.begin; t < targets.end; t++) {
        const double *w = x->weight + x->begin[t];
        const int64_t terms = x->begin[t + 1] - x->begin[t];
        const ACC *from = row + x->first[t] * width;
        T *restrict out = to + t * step;
        if (terms == 2) {
            for (int64_t v = 0; v < width; v++)
                out[v] = STORE((ACC)w[0] * from[v] + (ACC)w[1] * from[v + width]);
        } else if (terms == 3) {
            for (int64_t v = 0; v < width; v++)
                out[v] = STORE((ACC)w[0] * from[v] + (ACC)w[1] * from[v + width] + (ACC)w[2] * from[v + 2 * width]);
        } else if (terms == 1) {
            for (int64_t v = 0; v < width; v++)
                out[v] = STORE((ACC)w[0] * from[v]);
        } else {
            OF_ACC(fold)(sums, from, width, w, terms, width);
            for (int64_t v = 0; v < width; v++)
                out[v] = STORE(sums[v]);
        }
    }
}

/* One line of targets from a row of sums. */
static void NAME(line)(const struct stni_resample_args *a, const struct table *x, const ACC *row, ACC *restrict sums,
                       T *to)
{
    const int64_t width = a->width, step = a->target_stride[2];
    const int is_dense = width == 1 || (x->apart == 1 && x->period == 1 && step == width);
    const int evenly = is_dense && stni_range_length(x->even) > 3;
    const struct stni_range rest[] = {{0, evenly ? x->even.begin : x->n}, {evenly ? x->even.end : x->n, x->n}};
    if (evenly)
        NAME(evenly)(x, row, width, to, step);
    for (int i = 0; i < 2; i++)
        if (width == 1)
            NAME(points)(x, rest[i], row, to, step);
        else
            NAME(groups)(x, rest[i], row, width, sums, to, step);
}

/* One image, or one channel of one: planes are combined first, then rows, then elements. */
static void NAME(image)(const struct stni_resample_args *a, const struct table *table, void *memory, int64_t from_at,
                        int64_t to_at)
{
    const T *from = (const T *)a->from + from_at;
    T *to = (T *)a->to + to_at;
    const int64_t ny = stni_range_length(a->source[1]), nx = stni_range_length(a->source[2]), row_n = nx * a->width;
    ACC *plane = memory, *row = plane + ny * row_n, *sums = row + row_n;
    const struct table *z = &table[0], *y = &table[1];
    const size_t ahead = a->source_stride[2] == a->width ? stni_resample_ahead(a) : 0;
    const int flat = stni_range_length(a->source[0]) == 1 && z->n == 1 && z->begin[1] == 1 && z->weight[0] == 1;
    for (int64_t tz = 0; tz < z->n; tz++) {
        const double *wz = z->weight + z->begin[tz];
        for (int64_t r = 0; r < ny && !flat; r++)
            NAME(gather)
            (plane + r * row_n, from + z->first[tz] * a->source_stride[0] + r * a->source_stride[1],
             a->source_stride[0], wz, z->begin[tz + 1] - z->begin[tz], nx, a->width, a->source_stride[2]);
        for (int64_t ty = 0, seen = 0; ty < y->n; ty++) {
            const double *wy = y->weight + y->begin[ty];
            const int64_t terms = y->begin[ty + 1] - y->begin[ty], old = seen > y->first[ty] ? seen - y->first[ty] : 0;
            seen = y->first[ty] + terms;
            if (flat)
                NAME(prefetch)
                (from + y->first[ty] * a->source_stride[1], a->source_stride[1], old, terms, row_n, ahead);
            if (flat)
                NAME(gather)
                (row, from + y->first[ty] * a->source_stride[1], a->source_stride[1], wy, terms, nx, a->width,
                 a->source_stride[2]);
            else
                OF_ACC(fold)(row, plane + y->first[ty] * row_n, row_n, wy, terms, row_n);
            NAME(line)(a, &table[2], row, sums, to + tz * a->target_stride[0] + ty * a->target_stride[1]);
        }
    }
}
