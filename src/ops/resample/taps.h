/* Which inputs an output of a resampling reads along one dim, and with which weights, by global indices (contract 18).
 * Pure functions, for the host and for kernels of every device: C, C++ and CUDA compilers read them.
 *
 * Output o stands at an input position p(o): with corners aligned the first and last elements of both lines stand
 * upon each other; else elements are cells of equal size and the lines' ends do, p = (o + 1/2) scale - 1/2.
 * Positions outside are clamped. Both ends of what an output reads never decrease with o. */
#ifndef STNI_OPS_RESAMPLE_TAPS_H
#define STNI_OPS_RESAMPLE_TAPS_H

#include "ops/exchange/window.h"

#include <math.h>

enum stni_resample_mode {
    STNI_RESAMPLE_NEAREST, /* floor(o scale) */
    STNI_RESAMPLE_NEAREST_EXACT, /* floor((o + 1/2) scale) */
    STNI_RESAMPLE_LINEAR,
    STNI_RESAMPLE_CUBIC, /* Keys 1981, a = -3/4 */
    STNI_RESAMPLE_AREA,  /* the mean of all cells that the output's touches */
    STNI_RESAMPLE_WINDOW, /* `kernel` inputs from o stride - pad on, as far as there are so many */
    /* Filters, widened where outputs stand further apart than inputs (antialiasing): */
    STNI_RESAMPLE_TRIANGLE,
    STNI_RESAMPLE_KEYS,   /* Keys 1981, a = -1/2 */
    STNI_RESAMPLE_LANCZOS /* of three lobes */
};

struct stni_resample_dim {
    int64_t n_in, n_out;
    int32_t mode, align_corners;
    double factor; /* outputs per input, as given; 0: n_out / n_in */
    /* Of windows: */
    int64_t kernel, stride, dilation, pad;
    double weight; /* of each input; 0: one part of as many as it reads, or, where counts_pads, as it would with the pads */
    int64_t counts_pads;
};

STNI_INLINE int64_t stni_resample_clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* Inputs to either side that a filter reads where nothing is reduced; 0: no filter. */
STNI_INLINE int stni_resample_reach(const struct stni_resample_dim *d)
{
    return d->mode < STNI_RESAMPLE_TRIANGLE ? 0 : d->mode - STNI_RESAMPLE_TRIANGLE + 1;
}

/* Inputs from one output to the next. */
STNI_INLINE double stni_resample_scale(const struct stni_resample_dim *d)
{
    if (d->align_corners)
        return d->n_out > 1 ? (double)(d->n_in - 1) / (double)(d->n_out - 1) : 0;
    return d->factor > 0 ? 1 / d->factor : (double)d->n_in / (double)d->n_out;
}

/* How much wider a filter is than where nothing is reduced. */
STNI_INLINE double stni_resample_widening(const struct stni_resample_dim *d)
{
    const double scale = stni_resample_scale(d);
    return scale > 1 ? scale : 1;
}

STNI_INLINE double stni_resample_position(const struct stni_resample_dim *d, int64_t o)
{
    if (d->align_corners)
        return d->n_out > 1 ? (double)o * (double)(d->n_in - 1) / (double)(d->n_out - 1) : 0;
    double p = ((double)o + 0.5) * stni_resample_scale(d) - 0.5;
    return p < 0 && d->mode == STNI_RESAMPLE_LINEAR ? 0 : p;
}

STNI_INLINE int64_t stni_resample_nearest(const struct stni_resample_dim *d, int64_t o)
{
    int64_t half = d->mode == STNI_RESAMPLE_NEAREST_EXACT;
    if (d->factor > 0)
        return stni_resample_clamp((int64_t)floor(((double)o + 0.5 * (double)half) / d->factor), d->n_in);
    return stni_resample_clamp((2 * o + half) * d->n_in / (2 * d->n_out), d->n_in);
}

/* From the first to the last position that output o reads, also outside of the input; with dilation not all that lie
 * between. */
STNI_INLINE struct stni_range stni_resample_window(const struct stni_resample_dim *d, int64_t o)
{
    int64_t begin = o * d->stride - d->pad;
    return stni_range_of(begin, begin + (d->kernel - 1) * d->dilation + 1);
}

/* Cells whose middles lie within a filter around output o's, at least one. With corners aligned outputs stand where
 * torch has them, in the middles of cells of that scale. */
STNI_INLINE struct stni_range stni_resample_filtered(const struct stni_resample_dim *d, int64_t o)
{
    const double center = ((double)o + 0.5) * stni_resample_scale(d),
                 half = stni_resample_reach(d) * stni_resample_widening(d);
    return stni_range_of(stni_resample_clamp((int64_t)floor(center - half + 0.5), d->n_in),
                         stni_resample_clamp((int64_t)ceil(center + half - 0.5) - 1, d->n_in) + 1);
}

/* The inputs that output o reads: of linear resampling one alone where it stands upon that, so that a NaN beside it is
 * not read with the weight 0. */
STNI_INLINE struct stni_range stni_resample_reads(const struct stni_resample_dim *d, int64_t o)
{
    if (d->mode == STNI_RESAMPLE_WINDOW)
        return stni_range_intersect(stni_resample_window(d, o), stni_range_of(0, d->n_in));
    if (d->mode == STNI_RESAMPLE_AREA)
        return stni_range_of(o * d->n_in / d->n_out, stni_ceil_div((o + 1) * d->n_in, d->n_out));
    if (d->mode <= STNI_RESAMPLE_NEAREST_EXACT) {
        int64_t i = stni_resample_nearest(d, o);
        return stni_range_of(i, i + 1);
    }
    if (stni_resample_reach(d) > 0)
        return stni_resample_filtered(d, o);
    const double p = stni_resample_position(d, o);
    const int64_t i = (int64_t)floor(p);
    if (d->mode == STNI_RESAMPLE_CUBIC)
        return stni_range_of(stni_resample_clamp(i - 1, d->n_in), stni_resample_clamp(i + 2, d->n_in) + 1);
    return stni_range_of(stni_resample_clamp(i, d->n_in), stni_resample_clamp((int64_t)ceil(p), d->n_in) + 1);
}

/* Inputs that an output reads, at most. */
STNI_INLINE int64_t stni_resample_most_reads(const struct stni_resample_dim *d)
{
    double most = 1;
    if (d->mode == STNI_RESAMPLE_WINDOW)
        most = (double)d->kernel;
    else if (d->mode == STNI_RESAMPLE_AREA)
        most = (double)stni_ceil_div(d->n_in, d->n_out) + 1;
    else if (stni_resample_reach(d) > 0)
        most = ceil(2 * stni_resample_reach(d) * stni_resample_widening(d)) + 1;
    else if (d->mode >= STNI_RESAMPLE_LINEAR)
        most = d->mode == STNI_RESAMPLE_LINEAR ? 2 : 4;
    return most < (double)d->n_in ? (int64_t)most : d->n_in;
}

/* Keys' cubic at distance x, 0 <= x < 2. */
STNI_INLINE double stni_resample_cubic(double x, double a)
{
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/* sin(pi x) / (pi x) for 0 < x < 3, by the series of sin around the nearest integer: the same bits on every device. */
STNI_INLINE double stni_resample_sinc(double x)
{
    const double pi = 3.14159265358979323846, nearest = floor(x + 0.5), away = pi * (x - nearest);
    double sine = 0;
    for (int n = 22; n > 0; n -= 2)
        sine = 1 - away * away / (n * (n + 1)) * sine;
    sine *= nearest == 1 || nearest == 3 ? -away : away;
    return sine / (pi * x);
}

/* A filter at distance x >= 0. */
STNI_INLINE double stni_resample_filter(const struct stni_resample_dim *d, double x)
{
    if (x >= stni_resample_reach(d))
        return 0;
    if (d->mode == STNI_RESAMPLE_TRIANGLE)
        return 1 - x;
    if (d->mode == STNI_RESAMPLE_KEYS)
        return stni_resample_cubic(x, -0.5);
    return x > 0 ? stni_resample_sinc(x) * stni_resample_sinc(x / 3) : 1;
}

/* The first input that output o reads, and how many, d->dilation apart; for kinds that read few at equal distances:
 * windows and areas. */
struct stni_resample_taps {
    int64_t first, n;
};

STNI_INLINE struct stni_resample_taps stni_resample_taps(const struct stni_resample_dim *d, int64_t o)
{
    struct stni_range reads = stni_resample_reads(d, o);
    if (d->mode == STNI_RESAMPLE_WINDOW) {
        int64_t begin = stni_resample_window(d, o).begin;
        reads.begin = begin < 0 ? begin + stni_ceil_div(-begin, d->dilation) * d->dilation : begin;
    }
    int64_t length = stni_range_length(reads);
    struct stni_resample_taps taps = {reads.begin, length > 0 ? (length - 1) / d->dilation + 1 : 0};
    return taps;
}

STNI_INLINE double stni_resample_window_weight(const struct stni_resample_dim *d, int64_t o)
{
    struct stni_range counted = stni_resample_reads(d, o);
    if (d->weight != 0)
        return d->weight;
    if (d->counts_pads)
        counted = stni_range_intersect(stni_resample_window(d, o), stni_range_of(-d->pad, d->n_in + d->pad));
    return 1 / (double)stni_range_length(counted);
}

/* The weight of input i in output o, which reads it, before it is divided by the output's total. */
STNI_INLINE double stni_resample_part(const struct stni_resample_dim *d, int64_t o, int64_t i)
{
    struct stni_range reads = stni_resample_reads(d, o);
    if (d->mode == STNI_RESAMPLE_WINDOW)
        return stni_resample_window_weight(d, o);
    if (d->mode <= STNI_RESAMPLE_NEAREST_EXACT)
        return 1;
    if (d->mode == STNI_RESAMPLE_AREA)
        return 1 / (double)stni_range_length(reads);
    if (stni_resample_reach(d) > 0)
        return stni_resample_filter(d, fabs((double)i + 0.5 - ((double)o + 0.5) * stni_resample_scale(d)) /
                                           stni_resample_widening(d));
    double p = stni_resample_position(d, o), base = floor(p), t = p - base, sum = 0;
    if (d->mode == STNI_RESAMPLE_LINEAR) {
        if (stni_range_length(reads) == 1)
            return 1;
        return i == reads.begin ? 1 - t : t;
    }
    for (int k = -1; k <= 2; k++)
        if (stni_resample_clamp((int64_t)base + k, d->n_in) == i)
            sum += stni_resample_cubic(fabs((double)k - t), -0.75);
    return sum;
}

/* By which parts are divided: of a filter their sum, else 1. */
STNI_INLINE double stni_resample_total(const struct stni_resample_dim *d, int64_t o)
{
    const struct stni_range reads = stni_resample_reads(d, o);
    double sum = 0;
    for (int64_t i = reads.begin; i < reads.end && stni_resample_reach(d) > 0; i++)
        sum += stni_resample_part(d, o, i);
    return sum != 0 ? sum : 1;
}

/* The outputs that read input i: those before the first that begins behind it, from the first that ends behind it
 * on. */
STNI_INLINE struct stni_range stni_resample_readers(const struct stni_resample_dim *d, int64_t i)
{
    struct stni_range r;
    int64_t low = 0, high = d->n_out;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (stni_resample_reads(d, middle).end > i)
            high = middle;
        else
            low = middle + 1;
    }
    r.begin = low;
    high = d->n_out;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (stni_resample_reads(d, middle).begin > i)
            high = middle;
        else
            low = middle + 1;
    }
    r.end = low;
    return r;
}

/* What target t of a resampling, or of its adjoint, is made of. May be empty for the adjoint. */
STNI_INLINE struct stni_range stni_resample_sources(const struct stni_resample_dim *d, int transposed, int64_t t)
{
    return transposed ? stni_resample_readers(d, t) : stni_resample_reads(d, t);
}

#endif
