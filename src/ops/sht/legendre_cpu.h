/* What the CPU's kernels of Legendre functions do alike for both dtypes: the walk over orders, and the recurrence. A
 * part of legendre_cpu.c. */
#ifndef STNI_OPS_SHT_LEGENDRE_CPU_H
#define STNI_OPS_SHT_LEGENDRE_CPU_H

#include "ops/sht/legendre_functions.h"
#include "ops/sht/legendre_space.h"

#include <string.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
/* Functions that share what is read of their columns, and vectors of latitudes that share coefficients: with two
 * columns each, the real and the imaginary one, as many sums as registers hold. */
enum { ROWS = 4 };

/* Two functions of consecutive degrees at the latitudes of half the grid, from the pole to the equator. Before `near`
 * they may be scaled: these are 0, and values from there on are what they say. */
struct functions {
    const struct stni_legendre_args *args;
    const double *cosine, *sine, *weight;
    double *here, *below;
    int32_t *scale, *square_scale;
    int64_t half, near, m, order, l; /* `here` is of degree l and of this order, which stands for m */
    double first;                    /* c(order) */
};

static struct functions functions_of(const struct stni_legendre_args *a, const struct stni_legendre_space *s)
{
    char *at = a->workspace;
    return (struct functions){.args = a,
                              .cosine = (double *)(void *)(at + s->cosine),
                              .sine = (double *)(void *)(at + s->sine),
                              .weight = (double *)(void *)(at + s->weight),
                              .here = (double *)(void *)(at + s->here),
                              .below = (double *)(void *)(at + s->below),
                              .scale = (int32_t *)(void *)(at + s->scale),
                              .square_scale = (int32_t *)(void *)(at + s->square_scale),
                              .half = s->half,
                              .first = stni_legendre_first()};
}

static void make_nodes(const struct stni_legendre_args *a, const struct stni_legendre_space *s)
{
    enum { LANES = STNI_QUADRATURE_LANES };
    char *at = a->workspace;
    struct stni_quadrature_nodes n;
    for (int64_t k = 0; k < s->half; k += LANES) {
        const size_t bytes = (size_t)(s->half - k < LANES ? s->half - k : LANES) * sizeof(double);
        stni_quadrature_nodes_of(a->of.grid, a->nlat, k, &n, LANES);
        memcpy((double *)(void *)(at + s->cosine) + k, n.cosine, bytes);
        memcpy((double *)(void *)(at + s->sine) + k, n.sine, bytes);
        memcpy((double *)(void *)(at + s->weight) + k, n.weight, bytes);
    }
}

/* Latitudes nearer to the equator are reached first. */
static void find_near(struct functions *f)
{
    while (f->near > 0 && f->scale[f->near - 1] == 0)
        f->near--;
}

static void multiply_scaled(double *restrict value, int32_t *restrict scale, const double *restrict by,
                            const int32_t *restrict by_scale, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        const struct stni_scaled x = stni_scaled_of(value[k] * by[k], scale[k] + by_scale[k]);
        value[k] = x.value;
        scale[k] = x.scale;
    }
}

static void square_scaled(double *restrict value, int32_t *restrict scale, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        const struct stni_scaled x = stni_scaled_of(value[k] * value[k], 2 * scale[k]);
        value[k] = x.value;
        scale[k] = x.scale;
    }
}

/* stni_scaled_power of all sines, side by side: in `here`, with its scale. The squares lie in `below`. */
static void powers_of_sines(struct functions *f, int64_t n)
{
    for (int64_t k = 0; k < f->half; k++) {
        f->here[k] = 1;
        f->below[k] = f->sine[k];
        f->scale[k] = f->square_scale[k] = 0;
    }
    for (; n > 0; n >>= 1) {
        if (n & 1)
            multiply_scaled(f->here, f->scale, f->below, f->square_scale, f->half);
        square_scaled(f->below, f->square_scale, f->half);
    }
}

/* The functions of order m, of which c(m) is made anew from c(0): the same bits whichever order a chunk begins with. */
static void begin_order(struct functions *f, int64_t m)
{
    const struct stni_legendre_function *of = &f->args->of;
    const int64_t order = stni_legendre_order(of, m);
    f->first = stni_legendre_first();
    for (int64_t i = 1; i <= order; i++)
        f->first *= stni_legendre_step(i);
    powers_of_sines(f, stni_legendre_exponent(of, order));
    for (int64_t k = 0; k < f->half; k++) {
        f->here[k] *= f->first;
        f->below[k] = 0;
    }
    f->m = m;
    f->order = f->l = order;
    f->near = f->half;
    find_near(f);
}

/* Where values may be scaled: `below` becomes the next ones, and `here` keeps what will be below them. */
static void next_scaled(struct functions *f, double a, double b)
{
    for (int64_t k = 0; k < f->near; k++) {
        const double next = a * f->cosine[k] * f->here[k] - b * f->below[k];
        const int grown = f->scale[k] < 0 && fabs(next) >= STNI_LEGENDRE_LARGE;
        f->here[k] = grown ? f->here[k] / STNI_LEGENDRE_STEP : f->here[k];
        f->below[k] = grown ? next / STNI_LEGENDRE_STEP : next;
        f->scale[k] += grown;
    }
}

/* To the next degree. */
static void next_degree(struct functions *f)
{
    const double a = stni_legendre_a(f->l + 1, f->order), b = stni_legendre_b(f->l + 1, f->order);
    const double *restrict cosine = f->cosine, *restrict here = f->here;
    double *restrict below = f->below;
    next_scaled(f, a, b);
    for (int64_t k = f->near; k < f->half; k++)
        below[k] = a * cosine[k] * here[k] - b * below[k];
    f->below = f->here;
    f->here = below;
    f->l++;
    find_near(f);
}

#endif
