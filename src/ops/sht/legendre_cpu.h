/* What the CPU's kernels of Legendre functions do alike for both dtypes: the nodes of the grid, and where the functions
 * of an order begin. A part of legendre_cpu.c. */
#ifndef STNI_OPS_SHT_LEGENDRE_CPU_H
#define STNI_OPS_SHT_LEGENDRE_CPU_H

#include "ops/sht/legendre_functions.h"
#include "ops/sht/legendre_space.h"

#include <string.h>

/* ROWS: functions that share what is read of their columns, and at most so many vectors of latitudes that share
 * coefficients: with two columns each, the real and the imaginary one, as many sums as registers hold. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, ROWS = 8 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, ROWS = 4 };
#else
enum { VECTOR_BYTES = 16, ROWS = 4 };
#endif

/* Latitudes whose recurrence stays in registers, as the vectors that they are. */
enum { DOUBLES = VECTOR_BYTES / sizeof(double), BLOCK = VECTOR_BYTES > 16 ? 16 : 8, BLOCK_VECTORS = BLOCK / DOUBLES };
typedef double doubles __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef long long masks __attribute__((vector_size(VECTOR_BYTES), may_alias));

/* Two functions of consecutive degrees at the latitudes of half the grid, from the pole to the equator, times the
 * weights of the quadrature where these are asked for: the recurrence is linear. They are `here` and `below` times
 * 2^(512 scale). */
struct functions {
    const struct stni_legendre_args *args;
    double *cosine, *sine, *weight;
    double *power, *power_scale; /* sin^exponent */
    double *here, *below, *scale;
    double *a, *b, *row_here, *row_below; /* of degree m + i at i: the recurrence, and what values are made of */
    char *settled; /* at a block's first latitude: 1 when no value of it is small any more, nor will be */
    int64_t half, m, order, exponent; /* functions of this order stand for m */
    int64_t start;                    /* order - m: the first of them */
    double first;                     /* c(order) */
};

static double *numbers_at(const struct stni_legendre_args *a, size_t at)
{
    return (double *)(void *)((char *)a->workspace + at);
}

static void make_nodes(const struct functions *f)
{
    enum { LANES = STNI_QUADRATURE_LANES };
    struct stni_quadrature_nodes n;
    for (int64_t k = 0; k < f->half; k += LANES) {
        const size_t bytes = (size_t)(f->half - k < LANES ? f->half - k : LANES) * sizeof(double);
        stni_quadrature_nodes_of(f->args->of.grid, f->args->nlat, k, &n, LANES);
        memcpy(f->cosine + k, n.cosine, bytes);
        memcpy(f->sine + k, n.sine, bytes);
        memcpy(f->weight + k, n.weight, bytes);
    }
}

/* Before the first order. */
static void restart(struct functions *f)
{
    f->order = f->exponent = 0;
    f->first = stni_legendre_first();
    for (int64_t k = 0; k < f->half; k++) {
        f->power[k] = 1;
        f->power_scale[k] = 0;
    }
}

/* Between rows' latitudes and their ends all functions are 0. */
static struct functions functions_of(const struct stni_legendre_args *a, const struct stni_legendre_space *s)
{
    struct functions f = {.args = a,
                          .cosine = numbers_at(a, s->cosine),
                          .sine = numbers_at(a, s->sine),
                          .weight = numbers_at(a, s->weight),
                          .power = numbers_at(a, s->power),
                          .power_scale = numbers_at(a, s->power_scale),
                          .here = numbers_at(a, s->here),
                          .below = numbers_at(a, s->below),
                          .scale = numbers_at(a, s->scale),
                          .a = numbers_at(a, s->a),
                          .b = numbers_at(a, s->b),
                          .row_here = numbers_at(a, s->row_here),
                          .row_below = numbers_at(a, s->row_below),
                          .settled = (char *)a->workspace + s->settled,
                          .half = s->half};
    for (int64_t k = s->half; k < s->pitch; k++)
        f.cosine[k] = f.sine[k] = f.here[k] = f.below[k] = f.scale[k] = 0;
    make_nodes(&f);
    restart(&f);
    return f;
}

/* sin^n from sin^exponent: the same bits whichever order a chunk begins with. */
static void raise_to(struct functions *f, int64_t n)
{
    const double *restrict sine = f->sine;
    double *restrict power = f->power, *restrict scale = f->power_scale;
    for (; f->exponent < n; f->exponent++)
        for (int64_t k = 0; k < f->half; k++) {
            const double value = power[k] * sine[k];
            const int is_low = value != 0 && value < 1 / STNI_LEGENDRE_LARGE;
            power[k] = is_low ? value * STNI_LEGENDRE_STEP : value;
            scale[k] -= is_low ? 1 : 0;
        }
}

/* Of `n` degrees from m on. */
static void make_coefficients(struct functions *f, int64_t n)
{
    const double order = (double)f->order;
    double *restrict a = f->a, *restrict b = f->b;
    for (int i = (int)f->start + 1; i < (int)n; i++) {
        const double l = (double)((int)f->m + i);
        a[i] = stni_legendre_a(l, order);
        b[i] = stni_legendre_b(l, order);
    }
    for (int64_t i = f->start; i < n; i++) {
        const struct stni_legendre_row row = stni_legendre_row_of(&f->args->of, f->m + i, f->m);
        f->row_here[i] = row.here;
        f->row_below[i] = row.below;
    }
}

/* The functions of order m. Orders come one after the other, or from the first again. What
 * values of all degrees are multiplied by is part of the functions. */
static void begin_order(struct functions *f, int64_t m)
{
    const struct stni_legendre_function *of = &f->args->of;
    const int64_t order = stni_legendre_order(of, m);
    if (order < f->order)
        restart(f);
    while (f->order < order)
        f->first *= stni_legendre_step(++f->order);
    raise_to(f, stni_legendre_exponent(of, order));
    const double scale = f->first * (stni_legendre_is_bare(of) ? stni_legendre_scale(of, m, m) : 1);
    memset(f->settled, 0, (size_t)f->half);
    for (int64_t k = 0; k < f->half; k++) {
        f->here[k] = f->power[k] * scale * (of->weighted ? f->weight[k] : 1);
        f->below[k] = 0;
        f->scale[k] = f->power_scale[k];
    }
    f->m = m;
    f->start = order - m;
}

#endif
