/* Included once per dtype by max_cpu.c. */

/* Maxima so far, elementwise, and in which row and at which tap of the line each was met; rows and taps NULL: not wanted. */
struct NAME(line) {
    A *best;
    int32_t *row, *tap;
};

/* The larger of two numbers; a NaN if there is one. Two selections and no branch, so that a loop of it is vectorized. */
INLINE A NAME(larger)(A best, A v)
{
    const A more = v > best ? v : best;
    return IS_NAN(v) ? v : more;
}

INLINE void NAME(keep_largest)(A *restrict best, const A *restrict from, int64_t step, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        best[i] = NAME(larger)(best[i], from[i * step]);
}

INLINE void NAME(keep_largest_of_row)(A *restrict best, const T *restrict from, int64_t step, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        best[i] = NAME(larger)(best[i], LOAD(from[i * step]));
}

/* Elements of row `r`, `step` apart; rows come in ascending order. */
INLINE void NAME(compare_row)(const struct NAME(line) *line, const T *from, int64_t step, int64_t n, int32_t r, int is_first)
{
    A *restrict best = line->best;
    int32_t *restrict row = line->row;
    for (int64_t i = 0; i < n && is_first; i++)
        best[i] = LOAD(from[i * step]);
    for (int64_t i = 0; i < n && is_first && row; i++)
        row[i] = r;
    for (int64_t i = 0; i < n && !is_first && row; i++) {
        A v = LOAD(from[i * step]);
        int wins = (v > best[i]) | IS_NAN(v);
        best[i] = wins ? v : best[i];
        row[i] = wins ? r : row[i];
    }
    if (!is_first && !row)
        NAME(keep_largest_of_row)(best, from, step, n);
}

/* A row whose elements come in groups of a->width, which lie dense. */
static void NAME(take_row)(const struct stni_resample_args *a, const struct NAME(line) *line, const T *from, int32_t r, int is_first)
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
        struct NAME(line) group = {line->best + i * width, line->row ? line->row + i * width : NULL, NULL};
        NAME(compare_row)(&group, from + i * step, 1, width, r, is_first);
    }
}

/* Tap k of n targets, elements of a line of maxima `step` apart; taps come in ascending order. */
INLINE void NAME(compare_tap)(const struct NAME(line) *to, const A *from, const int32_t *from_row, int64_t step, int64_t n, int32_t k)
{
    A *restrict best = to->best;
    int32_t *restrict row = to->row, *restrict tap = to->tap;
    for (int64_t i = 0; i < n && k == 0; i++)
        best[i] = from[i * step];
    for (int64_t i = 0; i < n && k == 0 && from_row; i++)
        row[i] = from_row[i * step], tap[i] = 0;
    for (int64_t i = 0; i < n && k > 0 && from_row; i++) {
        A v = from[i * step];
        int32_t r = from_row[i * step];
        int larger = (v > best[i]) | ((v == best[i]) & (r < row[i]));
        int wins = larger | (IS_NAN(v) & (!IS_NAN(best[i]) | (r >= row[i])));
        best[i] = wins ? v : best[i];
        row[i] = wins ? r : row[i];
        tap[i] = wins ? k : tap[i];
    }
    if (k > 0 && !from_row)
        NAME(keep_largest)(best, from, step, n);
}

/* n targets, at most BLOCK, whose taps are `apart` columns of groups from each other; `at` is the first element of the first tap. */
static void NAME(columns)(const struct stni_resample_args *a, const struct stni_max_tables *tables, const struct NAME(line) *line, int64_t at,
                          int64_t step, int64_t taps, int64_t column, int64_t columns, int64_t n, T *to, int64_t *index, int64_t to_step)
{
    A best[BLOCK];
    int32_t row[BLOCK], tap[BLOCK];
    const struct NAME(line) found = {best, row, tap};
    const int64_t dilation = a->dim[2].dilation;
    for (int64_t k = 0; k < taps; k++) {
        const int64_t first = at + k * dilation * a->width;
        const int32_t *rows = line->row ? line->row + first : NULL;
        if (step == 1)
            NAME(compare_tap)(&found, line->best + first, rows, 1, n, (int32_t)k);
        else if (step == 2)
            NAME(compare_tap)(&found, line->best + first, rows, 2, n, (int32_t)k);
        else
            NAME(compare_tap)(&found, line->best + first, rows, step, n, (int32_t)k);
    }
    for (int64_t i = 0; i < n && to_step == 1; i++)
        to[i] = STORE(best[i]);
    for (int64_t i = 0; i < n && to_step != 1; i++)
        to[i * to_step] = STORE(best[i]);
    for (int64_t i = 0; i < n && index; i++)
        index[i * to_step] = tables->row[row[i]] + column + i * columns + tap[i] * dilation;
}

static void NAME(fill)(T *to, int64_t *index, int64_t to_step, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i * to_step] = STORE(LEAST((A)0));
    for (int64_t i = 0; i < n && index; i++)
        index[i * to_step] = -1;
}

/* Targets of one run: neighbours along the line where elements stand alone, else one after the other with a group's elements as
 * neighbours. */
static void NAME(take_run)(const struct stni_resample_args *a, const struct stni_max_tables *tables, const struct NAME(line) *line,
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
    A *best = tables->memory;
    int32_t *row = (int32_t *)(void *)((double *)tables->memory + stni_range_length(a->source[2]) * a->width);
    const struct NAME(line) line = {best, tables->index ? row : NULL, NULL};
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
