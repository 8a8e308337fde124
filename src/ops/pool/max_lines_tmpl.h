/* Lines of maxima, which are of the type that elements are compared in whatever the dtype: included once per such
 * type with
 *   ACC   the type   NAME(f)   f of this type */
#ifndef NAME /* read alone */
#include "ops/pool/max_line.h"
#include "core/box/as_f32.h"
#endif

/* The larger of two numbers; a NaN if there is one. Two selections and no branch, so that a loop of it is
 * vectorized. */
INLINE ACC NAME(larger)(ACC best, ACC v)
{
    const ACC more = v > best ? v : best;
    return IS_NAN(v) ? v : more;
}

INLINE void NAME(keep_largest)(ACC *restrict best, const ACC *restrict from, int64_t step, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        best[i] = NAME(larger)(best[i], from[i * step]);
}

/* Tap k of n targets, elements of a line of maxima `step` apart; taps come in ascending order. */
INLINE void NAME(compare_tap)(ACC *restrict best, int32_t *restrict row, int32_t *restrict tap, const ACC *restrict from,
                              const int32_t *restrict from_row, int64_t step, int64_t n, int32_t k)
{
    if (k == 0) {
        for (int64_t i = 0; i < n; i++)
            best[i] = from[i * step];
        if (from_row)
            for (int64_t i = 0; i < n; i++)
                row[i] = from_row[i * step], tap[i] = 0;
    } else if (from_row) {
        for (int64_t i = 0; i < n; i++) {
            ACC v = from[i * step];
            int32_t r = from_row[i * step];
            int larger = (v > best[i]) | ((v == best[i]) & (r < row[i]));
            int wins = larger | (IS_NAN(v) & (!IS_NAN(best[i]) | (r >= row[i])));
            best[i] = wins ? v : best[i];
            row[i] = wins ? r : row[i];
            tap[i] = wins ? k : tap[i];
        }
    } else {
        NAME(keep_largest)(best, from, step, n);
    }
}

/* The taps of n targets, `apart` elements from each other in `line`; `at` is the first element of the first one. */
static void NAME(compare_taps)(ACC *restrict best, int32_t *restrict row, int32_t *restrict tap, const struct line *line,
                               int64_t at, int64_t step, int64_t taps, int64_t apart, int64_t n)
{
    for (int64_t k = 0; k < taps; k++) {
        const ACC *from = (const ACC *)line->best + at + k * apart;
        const int32_t *from_row = line->row ? line->row + at + k * apart : NULL;
        if (step == 1)
            NAME(compare_tap)(best, row, tap, from, from_row, 1, n, (int32_t)k);
        else if (step == 2)
            NAME(compare_tap)(best, row, tap, from, from_row, 2, n, (int32_t)k);
        else
            NAME(compare_tap)(best, row, tap, from, from_row, step, n, (int32_t)k);
    }
}
