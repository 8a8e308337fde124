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

/* best[i] = the largest of the i-th elements of two or three dense rows. What is left over behind whole blocks is
 * compared with the last of them once more. */
INLINE void NAME(largest_of_rows)(ACC *restrict best, const T *const row[3], int rows, int64_t n)
{
    const T *const a = row[0], *const b = row[1], *const c = row[2];
    for (int64_t i = 0; i < n && n < LANES; i++) {
        const ACC two = OF_ACC(larger)(LOAD(a[i]), LOAD(b[i]));
        best[i] = rows == 2 ? two : OF_ACC(larger)(two, LOAD(c[i]));
    }
    for (int64_t i = 0; i < n && n >= LANES; i += LANES) {
        const int64_t at = n - i < LANES ? n - LANES : i;
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            const ACC two = OF_ACC(larger)(LOAD(a[at + l]), LOAD(b[at + l]));
            best[at + l] = rows == 2 ? two : OF_ACC(larger)(two, LOAD(c[at + l]));
        }
    }
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
static void NAME(take_row)(const struct stni_resample_args *a, const struct line *line, const T *from, int32_t r,
                           int is_first)
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
        const struct line group = {.best = (ACC *)line->best + i * width,
                                   .row = line->row ? line->row + i * width : NULL};
        NAME(compare_row)(&group, from + i * step, 1, width, r, is_first);
    }
}

/* n targets, at most BLOCK, whose taps are `apart` columns of groups from each other; `at` is the first element of
 * the first tap. */
static void NAME(columns)(const struct stni_resample_args *a, const struct stni_max_tables *tables,
                          const struct line *line, int64_t at, int64_t step, int64_t taps, int64_t column,
                          int64_t columns, int64_t n, T *to, int64_t *index, int64_t to_step)
{
    ACC buffer[BLOCK];
    int32_t row[BLOCK], tap[BLOCK];
    const int64_t dilation = a->dim[2].dilation;
    const int in_place = sizeof(T) == sizeof(ACC) && to_step == 1; /* the maxima are the result */
    ACC *const best = in_place ? (void *)to : buffer;
    OF_ACC(compare_taps)(best, row, tap, line, at, line->odd ? 1 : step, taps, dilation * a->width, n);
    if (!in_place && to_step == 1)
        for (int64_t i = 0; i < n; i++)
            to[i] = STORE(best[i]);
    else if (!in_place)
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

/* Targets of one run: neighbours along the line where elements stand alone, else one after the other with a group's
 * elements as neighbours. */
static void NAME(take_run)(const struct stni_resample_args *a, const struct stni_max_tables *tables,
                           const struct line *line, const struct stni_max_run *run, int has_rows, T *to, int64_t *index)
{
    const int64_t width = a->width, lanes = width > 1 ? width : run->n, targets = width > 1 ? run->n : 1,
                  stride = a->target_stride[2];
    const int64_t step = width > 1 ? 1 : run->apart, to_step = width > 1 ? 1 : stride,
                  columns = width > 1 ? 0 : run->apart;
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

/* The rows of a window: elementwise maxima, where it has any. What the next windows will read is prefetched: rows
 * end before a hardware prefetcher has learnt them. */
static void NAME(take_rows)(const struct stni_resample_args *a, const struct line *line, const T *from,
                            const struct stni_resample_taps *z, const struct stni_resample_taps *y, size_t ahead)
{
    const int64_t row_n = stni_range_length(a->source[2]) * a->width, ny = stni_range_length(a->source[1]),
                  n = z->n * y->n;
    const int dense = a->source_stride[2] == a->width;
    const int several = dense && !line->row && n > 1 && a->dtype != STN_DTYPE_F16; /* whose conversion fills a loop by itself */
    const int64_t old = a->dim[1].stride > 0 ? y->n - a->dim[1].stride : 0; /* rows that the window before has read */
    const T *row[3] = {NULL, NULL, NULL};
    for (int64_t iz = 0, i = 0; iz < z->n; iz++)
        for (int64_t iy = 0; iy < y->n; iy++, i++) {
            const int64_t rz = z->first - a->source[0].begin + iz * a->dim[0].dilation;
            const int64_t ry = y->first - a->source[1].begin + iy * a->dim[1].dilation;
            const T *at = from + rz * a->source_stride[0] + ry * a->source_stride[1];
            if (dense && iy >= old)
                stni_block_prefetch(at, (size_t)row_n * sizeof *at, ahead);
            if (!several || i > 2)
                NAME(take_row)(a, line, at, (int32_t)(rz * ny + ry), i == 0);
            else
                row[i] = at;
            if (several && i == 1 && n == 2)
                NAME(largest_of_rows)(line->best, row, 2, row_n);
            else if (several && i == 2)
                NAME(largest_of_rows)(line->best, row, 3, row_n);
        }
}

/* Targets ty, ..., ty + n - 1 of the second dim. */
static void NAME(lines)(const struct stni_resample_args *a, const struct stni_max_tables *tables, const T *from, T *to,
                        int64_t *index, const struct stni_resample_taps *z, int64_t ty, int64_t n)
{
    struct line line[STNI_MAX_LINES];
    int has_rows[STNI_MAX_LINES];
    const int64_t length = tables->length;
    for (int64_t i = 0; i < n; i++) {
        const struct stni_resample_taps y = stni_resample_taps(&a->dim[1], ty + i);
        line[i] = (struct line){.best = (ACC *)tables->maxima + i * length,
                                .row = tables->rows ? tables->rows + i * length : NULL};
        has_rows[i] = z->n * y.n > 0;
        NAME(take_rows)(a, &line[i], from, z, &y, tables->ahead);
    }
    for (int64_t i = 0; i < n && tables->apart_by_two; i++) {
        ACC *even = (ACC *)tables->parted + i * length, *odd = even + length / 2;
        OF_ACC(part)(even, odd, line[i].best, length);
        line[i] = (struct line){.best = even, .odd = odd};
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = (ty + i - a->target[1].begin) * a->target_stride[1];
        for (int64_t r = 0; r < tables->n_runs; r++)
            NAME(take_run)(a, tables, &line[i], &tables->run[r], has_rows[i], to + at, index ? index + at : NULL);
    }
}

/* One image, or one channel of one. */
static void NAME(image)(const struct stni_resample_args *a, const struct stni_max_tables *tables, int64_t from_at,
                        int64_t to_at)
{
    const struct stni_range target = a->target[1];
    for (int64_t tz = a->target[0].begin; tz < a->target[0].end; tz++) {
        const struct stni_resample_taps z = stni_resample_taps(&a->dim[0], tz);
        const int64_t at = to_at + (tz - a->target[0].begin) * a->target_stride[0];
        for (int64_t ty = target.begin; ty < target.end; ty += tables->lines)
            NAME(lines)
            (a, tables, (const T *)a->from + from_at, (T *)a->to + at, tables->index ? tables->index + at : NULL, &z,
             ty, target.end - ty < tables->lines ? target.end - ty : tables->lines);
    }
}
