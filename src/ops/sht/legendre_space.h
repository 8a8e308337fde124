/* How the workspace of the CPU's kernels is divided. Byte offsets; each part begins with a cache line. */
#ifndef STNI_OPS_SHT_LEGENDRE_SPACE_H
#define STNI_OPS_SHT_LEGENDRE_SPACE_H

#include "ops/sht/legendre_kernel.h"

enum { STNI_LEGENDRE_LINE = 64, STNI_LEGENDRE_FIELDS = 16 /* whose columns are in the workspace at once */ };

struct stni_legendre_space {
    int64_t half, pitch;                  /* latitudes of half the grid; numbers of a row, a multiple of a line's */
    int64_t rows;                         /* of even functions, and as many of odd ones */
    size_t cosine, sine, weight,          /* doubles */
        here, below, scale, square_scale, /* the recurrence */
        table,                            /* functions of one order: even ones, then odd ones, a row each */
        columns,      /* of a field: even part and odd part along latitudes, real and imaginary each */
        coefficients, /* of a field: pairs of even functions, then of odd ones */
        bytes;
};

static inline size_t stni_legendre_take(struct stni_legendre_space *s, size_t bytes)
{
    const size_t at = s->bytes;
    s->bytes += (bytes + STNI_LEGENDRE_LINE - 1) / STNI_LEGENDRE_LINE * STNI_LEGENDRE_LINE;
    return at;
}

static inline struct stni_legendre_space stni_legendre_space_of(const struct stni_legendre_args *a)
{
    const size_t real = a->dtype == STN_DTYPE_C128 ? sizeof(double) : sizeof(float);
    const int64_t numbers = STNI_LEGENDRE_LINE / (int64_t)real;
    struct stni_legendre_space s = {.half = (a->nlat + 1) / 2};
    s.pitch = (s.half + numbers - 1) / numbers * numbers;
    s.rows = a->lmax / 2 + 1;
    const size_t nodes = (size_t)s.half * sizeof(double), row = (size_t)s.pitch * real;
    s.cosine = stni_legendre_take(&s, nodes);
    s.sine = stni_legendre_take(&s, nodes);
    s.weight = stni_legendre_take(&s, nodes);
    s.here = stni_legendre_take(&s, nodes);
    s.below = stni_legendre_take(&s, nodes);
    s.scale = stni_legendre_take(&s, (size_t)s.half * sizeof(int32_t));
    s.square_scale = stni_legendre_take(&s, (size_t)s.half * sizeof(int32_t));
    s.table = stni_legendre_take(&s, 2 * (size_t)s.rows * row);
    s.columns = stni_legendre_take(&s, STNI_LEGENDRE_FIELDS * 4 * row);
    s.coefficients = stni_legendre_take(&s, STNI_LEGENDRE_FIELDS * 4 * (size_t)s.rows * real);
    return s;
}

#endif
