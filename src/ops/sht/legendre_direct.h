/* Sums of Legendre functions for few fields: no table, each function is used where the recurrence makes it, in f64 for
 * both dtypes. A part of legendre_cpu.c.
 *
 * With e(l) = sqrt((l^2 - o^2) / (4 l^2 - 1)) functions of order o obey cos P(l) = e(l + 1) P(l + 1) + e(l) P(l - 1),
 * so that every second one is the cosine times a polynomial of its square: with x = cos^2,
 *
 *     P(o + 2 n + 1) = cos p(n),  P(o + 2 n) = e(o + 2 n + 1) p(n) + e(o + 2 n) p(n - 1),  p(0) = P(o) / e(o + 1),
 *     e(o + 2 n + 2) e(o + 2 n + 3) p(n + 1) = (x - s(n)) p(n) - e(o + 2 n) e(o + 2 n + 1) p(n - 1),
 *     s(n) = e(o + 2 n + 1)^2 + e(o + 2 n + 2)^2
 *
 * (after Ishioka 2018, who scales p so that the last factor is 1: that would lose digits as the scales are products of
 * many numbers). One p stands for two degrees and costs three operations. The combinations are made of coefficients,
 * not at latitudes. Near the equator they cancel some digits, which f64 has to spare and f32 has not. Near the poles
 * x - s is made of the sine's square, whose rounding is smaller there: errors of it add up from degree to degree. */
#ifndef STNI_OPS_SHT_LEGENDRE_DIRECT_H
#define STNI_OPS_SHT_LEGENDRE_DIRECT_H

#include "ops/sht/legendre_cpu.h"

/* Vectors of latitudes that are summed at once: with what each of them needs in registers. STEPS: from one look at what
 * is small to the next; values grow by less than 2^128. */
enum { ANALYSED = ROWS, SYNTHESISED = ROWS / 2, LEFT = BLOCK_VECTORS < ROWS / 2 ? BLOCK_VECTORS : ROWS / 2, STEPS = 8 };

/* Of a p there are four numbers: even and odd functions', real and imaginary each; of columns as well. */
enum { PARTS = 4 };

struct direct {
    const struct functions *functions;
    double *square, *sine_square; /* x, and x - 1 */
    double *columns;              /* PARTS of `pitch` latitudes each */
    double *numbers, *sums;       /* PARTS of each p; the same as vectors, before their lanes are added */
    double *of_degree;            /* pairs of degree order + i at 2 i, with zeros on both sides */
    double *e, *a, *b;            /* e(order + i) at i; of each p: what x and the p before are multiplied by */
    double *equator, *pole;       /* what is added to a x, or to a (x - 1) */
    int64_t pitch, n;             /* p(0) to p(n - 1) */
};

/* A block of latitudes: p(n) and p(n - 1), and what the next one is made of. */
struct direct_block {
    const double *square, *sum;
    doubles here[ANALYSED], below[ANALYSED], scale[ANALYSED];
};

static struct direct direct_of(const struct stni_legendre_args *args, const struct stni_legendre_space *s,
                               const struct functions *f)
{
    const struct direct d = {.functions = f,
                             .square = numbers_at(args, s->square),
                             .sine_square = numbers_at(args, s->sine_square),
                             .columns = numbers_at(args, s->wide_columns),
                             .numbers = numbers_at(args, s->numbers),
                             .sums = numbers_at(args, s->sums),
                             .of_degree = numbers_at(args, s->of_degree) + 4,
                             .e = numbers_at(args, s->e),
                             .equator = numbers_at(args, s->equator),
                             .pole = numbers_at(args, s->pole),
                             .a = f->a,
                             .b = f->b,
                             .pitch = s->pitch};
    for (int64_t k = 0; k < s->pitch; k++) {
        d.square[k] = f->cosine[k] * f->cosine[k];
        d.sine_square[k] = -f->sine[k] * f->sine[k];
    }
    return d;
}

/* For p(0) to p(n - 1), and e of one degree more than these stand for. */
static void make_steps(struct direct *d, int64_t n)
{
    const double order = (double)d->functions->order;
    double *restrict e = d->e, *restrict a = d->a, *restrict b = d->b;
    double *restrict equator = d->equator, *restrict pole = d->pole;
    d->n = n;
    for (int i = 0; i <= 2 * (int)n + 1; i++) {
        const double l = order + (double)i;
        e[i] = i == 0 ? 0 : sqrt((l - order) * (l + order) / ((2 * l - 1) * (2 * l + 1)));
    }
    for (int i = 0; i < (int)n; i++) {
        const double sum = e[2 * i + 1] * e[2 * i + 1] + e[2 * i + 2] * e[2 * i + 2];
        a[i] = 1 / (e[2 * i + 2] * e[2 * i + 3]);
        b[i] = e[2 * i] * e[2 * i + 1] * a[i];
        equator[i] = -sum * a[i];
        pole[i] = (1 - sum) * a[i];
    }
}

static inline doubles doubles_at(const double *x)
{
    return *(const doubles *)(const void *)x;
}

static inline void put_doubles(double *to, doubles x)
{
    *(doubles *)(void *)to = x;
}

STNI_KERNEL_INLINE void direct_step(const struct direct *d, struct direct_block *x, int64_t n, int v)
{
    const doubles factor = d->a[n] * doubles_at(x->square + v * DOUBLES) + x->sum[n];
    const doubles next = factor * x->here[v] - d->b[n] * x->below[v];
    x->below[v] = x->here[v];
    x->here[v] = next;
}

/* The p of a vector; 0 where it is small. */
STNI_KERNEL_INLINE doubles direct_value(const struct direct_block *x, int v, int is_small)
{
    const masks large = (masks)(x->scale[v] >= (doubles){0});
    return is_small ? (doubles)((masks)x->here[v] & large) : x->here[v];
}

/* Sums over latitudes k on, for p(n) to p(end - 1). */
STNI_KERNEL_INLINE void direct_analyse(const struct direct *d, struct direct_block *x, int64_t k, int64_t n,
                                       int64_t end, int vectors, int is_small)
{
    const double *columns = d->columns + k;
    for (; n < end; n++) {
        double *to = d->sums + n * PARTS * DOUBLES;
        doubles sum[PARTS];
        for (int part = 0; part < PARTS; part++)
            sum[part] = doubles_at(to + part * DOUBLES);
        for (int v = 0; v < vectors; v++) {
            const doubles p = direct_value(x, v, is_small);
            for (int part = 0; part < PARTS; part++)
                sum[part] += p * doubles_at(columns + part * d->pitch + v * DOUBLES);
            direct_step(d, x, n, v);
        }
        for (int part = 0; part < PARTS; part++)
            put_doubles(to + part * DOUBLES, sum[part]);
    }
}

/* Adds p(n) to p(end - 1) times their numbers to latitudes k on. */
STNI_KERNEL_INLINE void direct_synthesise(const struct direct *d, struct direct_block *x, int64_t k, int64_t n,
                                          int64_t end, int vectors, int is_small)
{
    double *columns = d->columns + k;
    doubles sum[PARTS][SYNTHESISED];
    for (int part = 0; part < PARTS; part++)
        for (int v = 0; v < vectors; v++)
            sum[part][v] = doubles_at(columns + part * d->pitch + v * DOUBLES);
    for (; n < end; n++) {
        const double *number = d->numbers + n * PARTS;
        for (int part = 0; part < PARTS; part++)
            for (int v = 0; v < vectors; v++)
                sum[part][v] += direct_value(x, v, is_small) * number[part];
        for (int v = 0; v < vectors; v++)
            direct_step(d, x, n, v);
    }
    for (int part = 0; part < PARTS; part++)
        for (int v = 0; v < vectors; v++)
            put_doubles(columns + part * d->pitch + v * DOUBLES, sum[part][v]);
}

STNI_KERNEL_INLINE void direct_pass(const struct direct *d, struct direct_block *x, int64_t n, int64_t end, int vectors)
{
    for (; n < end; n++)
        for (int v = 0; v < vectors; v++)
            direct_step(d, x, n, v);
}

static inline int is_any(masks x)
{
    long long any = 0;
    for (int i = 0; i < DOUBLES; i++)
        any |= x[i];
    return any != 0;
}

STNI_KERNEL_INLINE doubles direct_select(masks mask, doubles x, doubles y)
{
    return (doubles)(((masks)x & mask) | ((masks)y & ~mask));
}

/* Values that have grown out of their scale go to the next one. */
STNI_KERNEL_INLINE void direct_rescale(struct direct_block *x, int vectors)
{
    for (int v = 0; v < vectors; v++) {
        const doubles zero = {0}, here = x->here[v];
        const masks large = (masks)(here >= STNI_LEGENDRE_LARGE) | (masks)(here <= -STNI_LEGENDRE_LARGE);
        const masks grown = (masks)(x->scale[v] < zero) & large;
        x->here[v] = direct_select(grown, here / STNI_LEGENDRE_STEP, here);
        x->below[v] = direct_select(grown, x->below[v] / STNI_LEGENDRE_STEP, x->below[v]);
        x->scale[v] = direct_select(grown, x->scale[v] + 1, x->scale[v]);
    }
}

/* All p at the latitudes from k on. As long as all values are small, nothing is made of them; as long as some are,
 * these are 0. */
STNI_KERNEL_INLINE void direct_block(const struct direct *d, int64_t k, int vectors, int is_analysis)
{
    const struct functions *f = d->functions;
    const doubles zero = {0};
    const int is_polar = d->square[k] > 0.5;
    struct direct_block x = {.square = (is_polar ? d->sine_square : d->square) + k,
                             .sum = is_polar ? d->pole : d->equator};
    for (int v = 0; v < vectors; v++) {
        x.here[v] = doubles_at(f->here + k + v * DOUBLES) / d->e[1];
        x.scale[v] = doubles_at(f->scale + k + v * DOUBLES);
        x.below[v] = zero;
    }
    for (int64_t n = 0, end; n < d->n; n = end) {
        masks small = {0}, large = {0};
        for (int v = 0; v < vectors; v++) {
            small |= (masks)(x.scale[v] < zero);
            large |= (masks)(x.scale[v] >= zero) & ((masks)(x.here[v] != zero) | (masks)(x.below[v] != zero));
        }
        const int is_small = is_any(small);
        end = is_small && n + STEPS < d->n ? n + STEPS : d->n;
        if (!is_any(large))
            direct_pass(d, &x, n, end, vectors);
        else if (is_analysis)
            is_small ? direct_analyse(d, &x, k, n, end, vectors, 1) : direct_analyse(d, &x, k, n, end, vectors, 0);
        else
            is_small ? direct_synthesise(d, &x, k, n, end, vectors, 1)
                     : direct_synthesise(d, &x, k, n, end, vectors, 0);
        direct_rescale(&x, vectors);
    }
}

typedef double direct_two __attribute__((vector_size(2 * sizeof(double)), may_alias));

/* The lanes of two vectors. */
static inline direct_two direct_add_lanes(const double *x)
{
    direct_two sum[2];
    for (int j = 0; j < 2; j++) {
        sum[j] = *(const direct_two *)(const void *)(x + j * DOUBLES);
        for (int i = 2; i < DOUBLES; i += 2)
            sum[j] += *(const direct_two *)(const void *)(x + j * DOUBLES + i);
    }
    return (direct_two){sum[0][0], sum[1][0]} + (direct_two){sum[0][1], sum[1][1]};
}

/* From columns to numbers. */
static __attribute__((noinline)) void direct_analysis(const struct direct *d)
{
    int64_t k = 0;
    memset(d->sums, 0, (size_t)(d->n * PARTS * DOUBLES) * sizeof(double));
    for (; k + ANALYSED * DOUBLES <= d->pitch; k += ANALYSED * DOUBLES)
        direct_block(d, k, ANALYSED, 1);
    for (; k < d->pitch; k += LEFT * DOUBLES)
        direct_block(d, k, LEFT, 1);
    for (int64_t i = 0; i < d->n * PARTS; i += 2)
        *(direct_two *)(void *)(d->numbers + i) = direct_add_lanes(d->sums + i * DOUBLES);
}

/* From numbers to columns. */
static __attribute__((noinline)) void direct_synthesis(const struct direct *d)
{
    int64_t k = 0;
    memset(d->columns, 0, (size_t)(PARTS * d->pitch) * sizeof(double));
    for (; k + SYNTHESISED * DOUBLES <= d->pitch; k += SYNTHESISED * DOUBLES)
        direct_block(d, k, SYNTHESISED, 0);
    for (; k < d->pitch; k += LEFT * DOUBLES)
        direct_block(d, k, LEFT, 0);
}

/* Between numbers of p and pairs of degrees, those of even functions together. */
static void direct_join(const struct direct *d)
{
    const double *restrict e = d->e, *restrict of_degree = d->of_degree;
    double *restrict numbers = d->numbers;
    for (int64_t n = 0; n < d->n; n++)
        for (int part = 0; part < 2; part++) {
            const double *at = of_degree + 4 * n + part;
            numbers[4 * n + part] = e[2 * n + 1] * at[0] + e[2 * n + 2] * at[4];
            numbers[4 * n + 2 + part] = at[2];
        }
}

static void direct_part(const struct direct *d)
{
    const double *restrict e = d->e, *restrict numbers = d->numbers;
    double *restrict of_degree = d->of_degree;
    for (int i = 0; i < 4; i++)
        of_degree[i - 4] = of_degree[4 * d->n + i] = 0;
    for (int64_t n = 0; n < d->n; n++)
        for (int part = 0; part < 2; part++) {
            const double before = n > 0 ? numbers[4 * n - 4 + part] : 0;
            of_degree[4 * n + part] = e[2 * n + 1] * numbers[4 * n + part] + e[2 * n] * before;
            of_degree[4 * n + 2 + part] = numbers[4 * n + 2 + part];
        }
}

#endif
