/* What a field's columns do with a table: sums over latitudes for each function, and sums over functions for each
 * latitude. A part of legendre_tmpl.h. */
#ifndef NAME /* read alone */
#include "ops/sht/legendre_table_tmpl.h"
#endif

enum { NAME(lanes) = VECTOR_BYTES / sizeof(ACC) };

/* The lanes of `n` vectors added up: the sum of vector j in lane j, in n - 1 additions, by halves. */
STNI_KERNEL_INLINE void NAME(add_lanes)(const NAME(vector) *x, ACC *out)
{
    ACC lane[NAME(lanes)][NAME(lanes)]; /* transposed: one vector of each vector's lane */
    for (int j = 0; j < NAME(lanes); j++)
        for (int i = 0; i < NAME(lanes); i++)
            lane[i][j] = x[j][i];
    for (int n = NAME(lanes) / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < NAME(lanes); j++)
                lane[i][j] += lane[i + n][j];
    memcpy(out, lane[0], sizeof lane[0]);
}

/* ROWS functions times the two columns of a field, at latitudes `from` on. */
STNI_KERNEL_INLINE void NAME(project_rows)(const ACC *table, int64_t pitch, const ACC *column, int64_t next_column,
                                           int64_t from, ACC *out)
{
    NAME(vector) sum[2 * ROWS];
    for (int r = 0; r < 2 * ROWS; r++)
        sum[r] = (NAME(vector)){0};
    for (int64_t k = from; k < pitch; k += NAME(lanes)) {
        const NAME(vector) x = *(const NAME(vector) *)(const void *)(column + k);
        const NAME(vector) y = *(const NAME(vector) *)(const void *)(column + next_column + k);
        for (int r = 0; r < ROWS; r++) {
            const NAME(vector) t = *(const NAME(vector) *)(const void *)(table + r * pitch + k);
            sum[2 * r] += t * x;
            sum[2 * r + 1] += t * y;
        }
    }
    for (int r = 0; r < 2 * ROWS; r += NAME(lanes))
        NAME(add_lanes)(sum + r, out + r);
}

/* Whole groups of functions: the last one's end is behind the pairs, and what comes of it nobody reads. */
static __attribute__((noinline)) void NAME(project)(const struct NAME(work) *w, const ACC *column, ACC *pairs,
                                                    int64_t rows, int odd, int64_t from)
{
    for (int64_t r = 0; r < rows; r += ROWS)
        NAME(project_rows)(NAME(row)(w, r, odd), w->pitch, column, w->column, from, pairs + 2 * r);
}

/* Adds `n` functions times their pairs to the two columns of a field, at `vectors` vectors of latitudes. */
STNI_KERNEL_INLINE void NAME(evaluate_at)(const ACC *table, int64_t pitch, const ACC *pairs, int64_t n, ACC *column,
                                          int64_t next_column, int vectors)
{
    NAME(vector) re[ROWS], im[ROWS];
    for (int v = 0; v < vectors; v++) {
        re[v] = *(const NAME(vector) *)(const void *)(column + v * NAME(lanes));
        im[v] = *(const NAME(vector) *)(const void *)(column + next_column + v * NAME(lanes));
    }
    for (int64_t r = 0; r < n; r++) {
        const ACC x = pairs[2 * r], y = pairs[2 * r + 1];
        for (int v = 0; v < vectors; v++) {
            const NAME(vector) t = *(const NAME(vector) *)(const void *)(table + r * pitch + v * NAME(lanes));
            re[v] += t * x;
            im[v] += t * y;
        }
    }
    for (int v = 0; v < vectors; v++) {
        *(NAME(vector) *)(void *)(column + v * NAME(lanes)) = re[v];
        *(NAME(vector) *)(void *)(column + next_column + v * NAME(lanes)) = im[v];
    }
}

static __attribute__((noinline)) void NAME(evaluate)(const struct NAME(work) *w, const ACC *pairs, ACC *column,
                                                     int64_t n, int odd, int64_t from)
{
    const ACC *table = NAME(row)(w, 0, odd);
    int64_t k = from;
    for (; k + ROWS * NAME(lanes) <= w->pitch; k += ROWS * NAME(lanes))
        NAME(evaluate_at)(table + k, w->pitch, pairs, n, column + k, w->column, ROWS);
    for (; k + 2 * NAME(lanes) <= w->pitch; k += 2 * NAME(lanes))
        NAME(evaluate_at)(table + k, w->pitch, pairs, n, column + k, w->column, 2);
    for (; k < w->pitch; k += NAME(lanes))
        NAME(evaluate_at)(table + k, w->pitch, pairs, n, column + k, w->column, 1);
}
