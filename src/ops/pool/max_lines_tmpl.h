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

/* best[i] = the largest of a[i] and b[i]. What is left over behind whole blocks is compared with the last of them
 * once more. */
INLINE void NAME(largest_of_two)(ACC *restrict best, const ACC *a, const ACC *b, int64_t n)
{
    for (int64_t i = 0; i < n && n < LANES; i++)
        best[i] = NAME(larger)(a[i], b[i]);
    for (int64_t i = 0; i < n && n >= LANES; i += LANES) {
        const int64_t at = n - i < LANES ? n - LANES : i;
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            best[at + l] = NAME(larger)(a[at + l], b[at + l]);
    }
}

/* The same of three. */
INLINE void NAME(largest_of_three)(ACC *restrict best, const ACC *a, const ACC *b, const ACC *c, int64_t n)
{
    for (int64_t i = 0; i < n && n < LANES; i++)
        best[i] = NAME(larger)(NAME(larger)(a[i], b[i]), c[i]);
    for (int64_t i = 0; i < n && n >= LANES; i += LANES) {
        const int64_t at = n - i < LANES ? n - LANES : i;
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            best[at + l] = NAME(larger)(NAME(larger)(a[at + l], b[at + l]), c[at + l]);
    }
}

/* The even and the odd elements of a line, whose length is a multiple of two blocks. */
static void NAME(part)(ACC *restrict even, ACC *restrict odd, const ACC *restrict line, int64_t length)
{
    for (int64_t i = 0; i < length; i += 2 * LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            even[i / 2 + l] = line[i + 2 * l];
            odd[i / 2 + l] = line[i + 2 * l + 1];
        }
}

/* Tap k of n targets, elements of a line of maxima `step` apart; taps come in ascending order. */
INLINE void NAME(compare_tap)(ACC *restrict best, int32_t *restrict row, int32_t *restrict tap,
                              const ACC *restrict from, const int32_t *restrict from_row, int64_t step, int64_t n,
                              int32_t k)
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

/* Element `at` of a line. */
INLINE const ACC *NAME(element)(const struct line *line, int64_t at)
{
    if (line->odd)
        return (const ACC *)(at & 1 ? line->odd : line->best) + (at >> 1);
    return (const ACC *)line->best + at;
}

/* The first taps of n targets that lie side by side, of which rows are not wanted; returns how many. */
static int64_t NAME(compare_first)(ACC *restrict best, const struct line *line, int64_t at, int64_t taps, int64_t apart,
                                   int64_t n)
{
    const ACC *first = NAME(element)(line, at), *second = NAME(element)(line, at + apart);
    if (taps == 2)
        NAME(largest_of_two)(best, first, second, n);
    else
        NAME(largest_of_three)(best, first, second, NAME(element)(line, at + 2 * apart), n);
    return taps == 2 ? 2 : 3;
}

/* The taps of n targets, `apart` elements from each other in `line`; `at` is the first element of the first one. */
static void NAME(compare_taps)(ACC *restrict best, int32_t *restrict row, int32_t *restrict tap,
                               const struct line *line, int64_t at, int64_t step, int64_t taps, int64_t apart,
                               int64_t n)
{
    int64_t k = !line->row && step == 1 && taps > 1 ? NAME(compare_first)(best, line, at, taps, apart, n) : 0;
    for (; k < taps; k++) {
        const ACC *from = NAME(element)(line, at + k * apart);
        const int32_t *from_row = line->row ? line->row + at + k * apart : NULL;
        if (step == 1)
            NAME(compare_tap)(best, row, tap, from, from_row, 1, n, (int32_t)k);
        else if (step == 2)
            NAME(compare_tap)(best, row, tap, from, from_row, 2, n, (int32_t)k);
        else
            NAME(compare_tap)(best, row, tap, from, from_row, step, n, (int32_t)k);
    }
}
