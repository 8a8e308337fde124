/* Included once per dtype by max_cpu.c. */
#ifndef NAME /* read alone */
#include "ops/pool/max_lines_tmpl.h"
#define OF_ACC(f) f##_f32
#endif

INLINE void NAME(keep_largest_of_row)(ACC *restrict best, const T *restrict from, int64_t step, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        best[i] = OF_ACC(larger)(best[i], LOAD(from[i * step]));
}

/* Elements of row `r`, `step` apart; rows come in ascending order. */
INLINE void NAME(compare_row)(const struct line *line, const T *from, int64_t step, int64_t n, int32_t r, int is_first)
{
    ACC *restrict best = line->best;
    int32_t *restrict row = line->row;
    if (is_first) {
        for (int64_t i = 0; i < n; i++)
            best[i] = LOAD(from[i * step]);
        if (row)
            for (int64_t i = 0; i < n; i++)
                row[i] = r;
    } else if (row) {
        for (int64_t i = 0; i < n; i++) {
            ACC v = LOAD(from[i * step]);
            int wins = (v > best[i]) | IS_NAN(v);
            best[i] = wins ? v : best[i];
            row[i] = wins ? r : row[i];
        }
    } else {
        NAME(keep_largest_of_row)(best, from, step, n);
    }
}

/* A row whose elements come in groups of a->width, which lie dense. */
static void NAME(take_row)(const struct stni_resample_args *a, const struct line *line, const T *from, int32_t r, int is_first)
{
    const int64_t n = stni_range_length(a->source[2]), width = a->width, step = a->source_stride[2];
    if (step == width) {
        NAME(compare_row)(line, from, 1, n * width, r, is_first);
        return;
    }
    if (width == 1) {
        NAME(compare_row)(line, from, step, n, r, is_first);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        struct line group = {(ACC *)line->best + i * width, line->row ? line->row + i * width : NULL};
        NAME(compare_row)(&group, from + i * step, 1, width, r, is_first);
    }
}

/* n targets, at most BLOCK, whose taps are `apart` columns of groups from each other; `at` is the first element of the first tap. */
static void NAME(columns)(const struct stni_resample_args *a, const struct stni_max_tables *tables, const struct line *line, int64_t at,
                          int64_t step, int64_t taps, int64_t column, int64_t columns, int64_t n, T *to, int64_t *index, int64_t to_step)
{
    ACC best[BLOCK];
    int32_t row[BLOCK], tap[BLOCK];
    const int64_t dilation = a->dim[2].dilation;
    OF_ACC(compare_taps)(best, row, tap, line, at, step, taps, dilation * a->width, n);
    if (to_step == 1)
        for (int64_t i = 0; i < n; i++)
            to[i] = STORE(best[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i * to_step] = STORE(best[i]);
    if (index)
        for (int64_t i = 0; i < n; i++)
            index[i * to_step] = tables->row[row[i]] + column + i * columns + tap[i] * dilation;
}

static void NAME(fill)(T *to, int64_t *index, int64_t to_step, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i * to_step] = STORE(LEAST((ACC)0));
    if (index)
        for (int64_t i = 0; i < n; i++)
            index[i * to_step] = -1;
}

/* Targets of one run: neighbours along the line where elements stand alone, else one after the other with a group's elements as
 * neighbours. */
static void NAME(take_run)(const struct stni_resample_args *a, const struct stni_max_tables *tables, const struct line *line,
                           const struct stni_max_run *run, int has_rows, T *to, int64_t *index)
{
    const int64_t width = a->width, lanes = width > 1 ? width : run->n, targets = width > 1 ? run->n : 1, stride = a->target_stride[2];
    const int64_t step = width > 1 ? 1 : run->apart, to_step = width > 1 ? 1 : stride, columns = width > 1 ? 0 : run->apart;
    for (int64_t t = 0; t < targets; t++)
        for (int64_t i = 0; i < lanes; i += BLOCK) {
            const int64_t n = lanes - i < BLOCK ? lanes - i : BLOCK, column = run->first + t * run->apart + i * columns;
            const int64_t to_at = (run->target + t) * stride + i * to_step;
            const int64_t at = (run->first + t * run->apart) * width + i * step;
            if (run->taps == 0 || !has_rows)
                NAME(fill)(to + to_at, index ? index + to_at : NULL, to_step, n);
            else
                NAME(columns)(a, tables, line, at, step, run->taps, a->source[2].begin + column, columns, n, to + to_at,
                              index ? index + to_at : NULL, to_step);
        }
}

/* One image, or one channel of one. */
static void NAME(image)(const struct stni_resample_args *a, const struct stni_max_tables *tables, int64_t from_at, int64_t to_at)
{
    const T *from = (const T *)a->from + from_at;
    const int64_t ny = stni_range_length(a->source[1]);
    ACC *best = tables->memory;
    int32_t *row = (int32_t *)(void *)((double *)tables->memory + stni_range_length(a->source[2]) * a->width);
    const struct line line = {best, tables->index ? row : NULL};
    for (int64_t tz = a->target[0].begin; tz < a->target[0].end; tz++)
        for (int64_t ty = a->target[1].begin; ty < a->target[1].end; ty++) {
            const struct stni_resample_taps z = stni_resample_taps(&a->dim[0], tz), y = stni_resample_taps(&a->dim[1], ty);
            for (int64_t i = 0; i < z.n * y.n; i++) {
                const int64_t rz = z.first - a->source[0].begin + i / y.n * a->dim[0].dilation;
                const int64_t ry = y.first - a->source[1].begin + i % y.n * a->dim[1].dilation;
                NAME(take_row)(a, &line, from + rz * a->source_stride[0] + ry * a->source_stride[1], (int32_t)(rz * ny + ry), i == 0);
            }
            const int64_t at = to_at + (tz - a->target[0].begin) * a->target_stride[0] + (ty - a->target[1].begin) * a->target_stride[1];
            for (int64_t r = 0; r < tables->n_runs; r++)
                NAME(take_run)(a, tables, &line, &tables->run[r], z.n * y.n > 0, (T *)a->to + at, tables->index ? tables->index + at : NULL);
        }
}
