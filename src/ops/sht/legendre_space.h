/* How the workspace of the CPU's kernels is divided. Byte offsets; each part begins with a cache line. */
#ifndef STNI_OPS_SHT_LEGENDRE_SPACE_H
#define STNI_OPS_SHT_LEGENDRE_SPACE_H

#include "ops/sht/legendre_kernel.h"

enum {
    STNI_LEGENDRE_LINE = 64,
    STNI_LEGENDRE_FIELDS = 32,     /* that are in the workspace at once */
    STNI_LEGENDRE_GROUP = 8,       /* and of these so many orders: a cache line's, where they lie together */
    STNI_LEGENDRE_BLOCK = 16,      /* rows are padded to a multiple of so many latitudes */
    STNI_LEGENDRE_TABLE = 1 << 15, /* bytes of functions that are in the table at once, or those of LEAST degrees */
    STNI_LEGENDRE_LEAST = 16,
    STNI_LEGENDRE_MOST = 64,
    STNI_LEGENDRE_FEW = 1 /* fields up to which there is no table (legendre_direct.h) */
};

struct stni_legendre_space {
    int64_t half, pitch; /* latitudes of half the grid; the same with padding */
    int64_t column;      /* numbers from a column to the next: multiples of pitch may share one place in the caches */
    int64_t degrees;     /* in the table at once: even ones, then odd ones, as many of each */
    int64_t rows;        /* pairs of even functions, and as many of odd ones */
    int is_direct;       /* there is no table */
    size_t cosine, sine, weight,                                                       /* doubles of each latitude */
        power, power_scale, here, below, scale,                                        /* also: the recurrence */
        a, b, row_here, row_below,                                                     /* doubles of each degree */
        settled,                                                                       /* a byte of each latitude */
        table,                                                                         /* functions of a few degrees */
        square, sine_square, wide_columns, e, equator, pole, of_degree, numbers, sums, /* or what takes its place */
        columns,      /* of a field and an order: even part and odd part along latitudes, real and imaginary each */
        coefficients, /* of a field and an order: pairs of even functions, then of odd ones */
        bytes;
};

static inline size_t stni_legendre_take(struct stni_legendre_space *s, int64_t n, size_t size)
{
    const size_t at = s->bytes;
    s->bytes += ((size_t)n * size + STNI_LEGENDRE_LINE - 1) / STNI_LEGENDRE_LINE * STNI_LEGENDRE_LINE;
    return at;
}

static inline void stni_legendre_take_direct(struct stni_legendre_space *s, int64_t lmax)
{
    s->square = stni_legendre_take(s, s->pitch, sizeof(double));
    s->sine_square = stni_legendre_take(s, s->pitch, sizeof(double));
    s->wide_columns = stni_legendre_take(s, 4 * s->pitch, sizeof(double));
    s->e = stni_legendre_take(s, lmax + 5, sizeof(double));
    s->equator = stni_legendre_take(s, s->rows, sizeof(double));
    s->pole = stni_legendre_take(s, s->rows, sizeof(double));
    s->of_degree = stni_legendre_take(s, 4 * s->rows, sizeof(double));
    s->numbers = stni_legendre_take(s, 4 * s->rows, sizeof(double));
    s->sums = stni_legendre_take(s, 4 * s->rows, STNI_LEGENDRE_LINE);
}

static inline int64_t stni_legendre_fields(const struct stni_legendre_args *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->n_batch; d++)
        n *= a->batch[d];
    return n;
}

static inline int64_t stni_legendre_degrees(int64_t row_bytes)
{
    const int64_t n = STNI_LEGENDRE_TABLE / row_bytes / STNI_LEGENDRE_LEAST * STNI_LEGENDRE_LEAST;
    return n < STNI_LEGENDRE_LEAST ? STNI_LEGENDRE_LEAST : n > STNI_LEGENDRE_MOST ? STNI_LEGENDRE_MOST : n;
}

static inline struct stni_legendre_space stni_legendre_space_of(const struct stni_legendre_args *a)
{
    const size_t real = a->dtype == STN_DTYPE_C128 ? sizeof(double) : sizeof(float);
    const int64_t all = stni_legendre_fields(a), fields = all < STNI_LEGENDRE_FIELDS ? all : STNI_LEGENDRE_FIELDS;
    struct stni_legendre_space s = {.half = (a->nlat + 1) / 2};
    s.pitch = (s.half + STNI_LEGENDRE_BLOCK - 1) / STNI_LEGENDRE_BLOCK * STNI_LEGENDRE_BLOCK;
    s.column = s.pitch + STNI_LEGENDRE_LINE / (int64_t)real;
    s.degrees = stni_legendre_degrees(s.pitch * (int64_t)real);
    s.is_direct = a->fields <= STNI_LEGENDRE_FEW;
    s.rows = a->lmax / 2 + STNI_LEGENDRE_LEAST; /* sums of whole groups of functions end behind the last one */
    s.cosine = stni_legendre_take(&s, s.pitch, sizeof(double));
    s.sine = stni_legendre_take(&s, s.pitch, sizeof(double));
    s.weight = stni_legendre_take(&s, s.pitch, sizeof(double));
    s.power = stni_legendre_take(&s, s.pitch, sizeof(double));
    s.power_scale = stni_legendre_take(&s, s.pitch, sizeof(double));
    s.here = stni_legendre_take(&s, s.pitch, sizeof(double));
    s.below = stni_legendre_take(&s, s.pitch, sizeof(double));
    s.scale = stni_legendre_take(&s, s.pitch, sizeof(double));
    s.a = stni_legendre_take(&s, a->lmax, sizeof(double));
    s.b = stni_legendre_take(&s, a->lmax, sizeof(double));
    s.row_here = stni_legendre_take(&s, a->lmax, sizeof(double));
    s.row_below = stni_legendre_take(&s, a->lmax, sizeof(double));
    s.settled = stni_legendre_take(&s, s.pitch, 1);
    if (s.is_direct)
        stni_legendre_take_direct(&s, a->lmax);
    else
        s.table = stni_legendre_take(&s, s.degrees * s.pitch, real);
    s.columns = stni_legendre_take(&s, fields * STNI_LEGENDRE_GROUP * 4 * s.column, real);
    s.coefficients = stni_legendre_take(&s, fields * STNI_LEGENDRE_GROUP * 4 * s.rows, real);
    return s;
}

#endif
