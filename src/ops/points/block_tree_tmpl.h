/* A tree of points or triangles, of one dtype: a template of core/box/each_float.h.
 *
 * A node is a run of leaves: its halves are its children, its rows are divided between them by one coordinate, the one
 * in which they are farthest apart. So the order of the leaves is the tree. */
#ifndef NAME /* read alone */
#include "ops/points/block_kernel.h"
#include "core/box/as_f32.h"
#include <tgmath.h>
#endif

/* Rows while they are sorted, of d numbers: corners of `dims` coordinates. */
struct NAME(rows) {
    ACC *x;
    int64_t *index;
    int64_t n, d, dims;
};

/* What a row is sorted by: a coordinate, summed over its corners. NaN has a place too. */
static inline ACC NAME(place_of)(const struct NAME(rows) *r, int64_t row, int64_t column)
{
    ACC sum = 0;
    for (int64_t c = column; c < r->d; c += r->dims)
        sum += r->x[row * r->d + c];
    return sum == sum ? sum : (ACC)INFINITY;
}

static inline void NAME(swap)(const struct NAME(rows) *r, int64_t a, int64_t b)
{
    ACC *x = r->x + a * r->d, *y = r->x + b * r->d;
    for (int64_t c = 0; c < r->d; c++) {
        const ACC t = x[c];
        x[c] = y[c], y[c] = t;
    }
    const int64_t t = r->index[a];
    r->index[a] = r->index[b], r->index[b] = t;
}

static ACC NAME(median)(ACC a, ACC b, ACC c)
{
    const ACC least = a < b ? a : b, most = a < b ? b : a;
    return c < least ? least : c > most ? most : c;
}

/* A number near the middle of rows lo to hi - 1: the median of three, or of three such medians. */
static ACC NAME(pivot)(const struct NAME(rows) *r, int64_t column, int64_t lo, int64_t hi)
{
    const int64_t step = (hi - lo) / 9;
    ACC m[3];
    for (int i = 0; i < 3; i++) {
        const int64_t at = lo + (hi - lo > 64 ? 3 * i * step : i * (hi - lo - 1) / 2), by = hi - lo > 64 ? step : 0;
        m[i] = NAME(median)(NAME(place_of)(r, at, column), NAME(place_of)(r, at + by, column),
                            NAME(place_of)(r, at + 2 * by, column));
    }
    return NAME(median)(m[0], m[1], m[2]);
}

/* Rows lo to hi - 1, so that those before row `middle` come before or with those from it on (Hoare 1961). */
static void NAME(divide)(const struct NAME(rows) *r, int64_t column, int64_t lo, int64_t hi, int64_t middle)
{
    while (hi - lo > 1) {
        const ACC pivot = NAME(pivot)(r, column, lo, hi);
        int64_t i = lo, j = hi - 1;
        while (i <= j) {
            while (NAME(place_of)(r, i, column) < pivot)
                i++;
            while (NAME(place_of)(r, j, column) > pivot)
                j--;
            if (i > j)
                break;
            NAME(swap)(r, i++, j--);
        }
        /* Rows up to j are at most the pivot, those from i on at least; what is between them equals it. */
        if (middle <= j)
            hi = j + 1;
        else if (middle >= i)
            lo = i;
        else
            return;
    }
}

/* The box of rows lo to hi - 1, without NaN; returns the coordinate in which it is longest. */
static int64_t NAME(bound)(const struct NAME(rows) *r, int64_t lo, int64_t hi, ACC *box)
{
    const int64_t d = r->dims;
    int64_t longest = 0;
    ACC length = 0;
    for (int64_t c = 0; c < d; c++)
        box[c] = (ACC)INFINITY, box[d + c] = -(ACC)INFINITY;
    for (const ACC *corner = r->x + lo * r->d; d > 0 && corner < r->x + hi * r->d; corner += d)
        for (int64_t c = 0; c < d; c++) {
            const ACC x = corner[c];
            box[c] = x < box[c] ? x : box[c];
            box[d + c] = x > box[d + c] ? x : box[d + c];
        }
    for (int64_t c = 0; c < d; c++)
        if (box[d + c] - box[c] > length)
            length = box[d + c] - box[c], longest = c;
    return longest;
}

/* A leaf of n rows to columns; columns of fewer than STNI_LEAF end in NaN. */
static void NAME(turn)(ACC *leaf, int64_t d, int64_t n, ACC *work)
{
    memcpy(work, leaf, (size_t)(n * d) * sizeof *leaf);
    for (int64_t c = 0; c < d; c++)
        for (int64_t i = 0; i < STNI_LEAF; i++)
            leaf[c * STNI_LEAF + i] = i < n ? work[i * d + c] : (ACC)NAN;
}

/* Leaves a to b - 1, whose box is the first of `box`. Depth: the logarithm of their number. */
static void NAME(grow)(const struct NAME(rows) *r, int64_t a, int64_t b, ACC *box, ACC *work)
{
    const int64_t lo = a * STNI_LEAF, hi = b * STNI_LEAF < r->n ? b * STNI_LEAF : r->n, middle = (a + b) / 2;
    const int64_t column = NAME(bound)(r, lo, hi, box);
    if (b - a == 1) {
        NAME(turn)(r->x + lo * r->d, r->d, hi - lo, work);
        return;
    }
    if (r->d > 0)
        NAME(divide)(r, column, lo, hi, middle * STNI_LEAF);
    NAME(grow)(r, a, middle, box + 2 * r->dims, work);
    NAME(grow)(r, middle, b, box + 2 * r->dims * 2 * (middle - a), work);
}

static void NAME(pack)(const struct stni_block_pack_args *a)
{
    const int64_t n = a->shape.n, d = a->shape.d, dims = d / a->shape.corners;
    const struct stni_block_layout at = stni_block_layout(&a->shape, 1);
    char *block = a->block;
    const struct NAME(rows)
        r = {(ACC *)(void *)(block + at.coordinates), (int64_t *)(void *)(block + at.indices), n, d, dims};
    ACC *boxes = (ACC *)(void *)(block + at.boxes);
    for (int64_t i = 0; i < n; i++) {
        const T *row = (const T *)a->rows.data + i * a->rows.row;
        r.index[i] = a->first + i;
        for (int64_t c = 0; c < d; c++)
            r.x[i * d + c] = LOAD(row[c * a->rows.col]);
    }
    if (n > 0)
        NAME(grow)(&r, 0, stni_leaves(n), boxes, boxes + (2 * stni_leaves(n) - 1) * 2 * dims);
}
