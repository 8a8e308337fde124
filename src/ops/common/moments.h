/* Count, mean and sum of squared deviations of sets of numbers, and of their unions: statistics that ranks share.
 * Inside arrays they stand in planes: three, or four where numbers have weights. */
#ifndef STNI_OPS_COMMON_MOMENTS_H
#define STNI_OPS_COMMON_MOMENTS_H

#include "core/base/inline.h"

#include <shardtensor/op.h>

#include <float.h>
#include <math.h>

struct stni_moments {
    double n, mean, m2; /* m2: sum of squared deviations from the mean */
};

STNI_INLINE struct stni_moments stni_moments_of(double n, double mean, double m2)
{
    const struct stni_moments m = {n, mean, m2};
    return m;
}

/* What deviations are taken from, by an element of the numbers. An infinite one would make NaN of every deviation, and
 * of a mean that is infinite. */
STNI_INLINE double stni_moments_shift(double element)
{
    return fabs(element) <= DBL_MAX ? element : 0;
}

/* Of n numbers by the sums of z = x - shift and of z^2. Rounding makes no square sum negative; NaN stays, and so does
 * an infinite sum of the squares of finite numbers. */
STNI_INLINE struct stni_moments stni_moments_of_sums(double n, double shift, double sum, double squares)
{
    const int overflows = squares > DBL_MAX && fabs(sum) <= DBL_MAX;
    const double m2 = overflows ? squares : squares - sum * (sum / n);
    return stni_moments_of(n, shift + sum / n, m2 < 0 ? 0 : m2);
}

/* Where a mean is infinite the other's distance from it says nothing; the weighted means are added then, which gives
 * the mean that one pass over all numbers would.
 * Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979. */
STNI_INLINE struct stni_moments stni_moments_join(struct stni_moments a, struct stni_moments b)
{
    if (a.n == 0 || b.n == 0)
        return a.n == 0 ? b : a;
    const double n = a.n + b.n, d = b.mean - a.mean;
    const double mean = fabs(d) <= DBL_MAX ? a.mean + d * (b.n / n) : a.mean * (a.n / n) + b.mean * (b.n / n);
    return stni_moments_of(n, mean, a.m2 + b.m2 + d * d * (a.n * b.n / n));
}

STNI_INLINE struct stni_moments stni_moments_read(const double *planes, int64_t count, int64_t i)
{
    return stni_moments_of(planes[i], planes[count + i], planes[2 * count + i]);
}

STNI_INLINE void stni_moments_write(double *planes, int64_t count, int64_t i, struct stni_moments m)
{
    planes[i] = m.n;
    planes[count + i] = m.mean;
    planes[2 * count + i] = m.m2;
}

/* The i-th of `count` over `n` ranks' planes, one after the other: joined in their order, so that all ranks get the
 * same bits. */
STNI_INLINE struct stni_moments stni_moments_merge(const double *parts, int n, int64_t count, int64_t i)
{
    struct stni_moments all = stni_moments_of(0, 0, 0);
    for (int part = 0; part < n; part++)
        all = stni_moments_join(all, stni_moments_read(parts + part * 3 * count, count, i));
    return all;
}

/* Of numbers x with weights w of any sign: the sum of w, a number c near the x, the sums of w (x - c) and of w (x -
 * c)^2. A part may have weights that add up to 0, and then has no mean of its own. */
enum { STNI_WEIGHTED_WEIGHT, STNI_WEIGHTED_ABOUT, STNI_WEIGHTED_FIRST, STNI_WEIGHTED_SECOND, STNI_WEIGHTED_PLANES };

/* What a part has of `plane` at i. */
STNI_INLINE double stni_weighted_plane(const double *parts, int part, int plane, int64_t count, int64_t i)
{
    return parts[(part * STNI_WEIGHTED_PLANES + plane) * count + i];
}

/* Sum of weights, weighted mean, and sum of weighted squared deviations from it, of the i-th of `count` over `n`
 * ranks' planes. NaN where the weights add up to 0. Sums are taken about one number, then about the mean; of weights
 * of one sign no square sum is negative but by rounding. */
STNI_INLINE struct stni_moments stni_weighted_merge(const double *parts, int n, int64_t count, int64_t i)
{
    double weight = 0, first = 0, second = 0, terms = 0;
    int some = n - 1; /* a part that has elements, if one does */
    while (some > 0 && stni_weighted_plane(parts, some, STNI_WEIGHTED_WEIGHT, count, i) == 0)
        some--;
    const double about = stni_weighted_plane(parts, some, STNI_WEIGHTED_ABOUT, count, i);
    for (int part = 0; part < n; part++) {
        const double w = stni_weighted_plane(parts, part, STNI_WEIGHTED_WEIGHT, count, i);
        const double c = stni_weighted_plane(parts, part, STNI_WEIGHTED_ABOUT, count, i);
        weight += w;
        first += stni_weighted_plane(parts, part, STNI_WEIGHTED_FIRST, count, i) + w * (c - about);
    }
    const double mean = weight == 0 ? (double)NAN : about + first / weight;
    for (int part = 0; part < n; part++) {
        const double w = stni_weighted_plane(parts, part, STNI_WEIGHTED_WEIGHT, count, i);
        const double d = stni_weighted_plane(parts, part, STNI_WEIGHTED_ABOUT, count, i) - mean;
        const double own[] = {stni_weighted_plane(parts, part, STNI_WEIGHTED_SECOND, count, i),
                              2 * d * stni_weighted_plane(parts, part, STNI_WEIGHTED_FIRST, count, i), w * d * d};
        for (int k = 0; k < 3; k++) {
            second += own[k];
            terms += fabs(own[k]);
        }
    }
    return stni_moments_of(weight, mean, terms <= DBL_MAX && fabs(second) <= 4 * DBL_EPSILON * terms ? 0 : second);
}

/* Brings `planes` planes of `count` numbers of every rank of `comm` to each of them, in scratch. For run. */
stn_status stni_moments_gather(const stn_op_call *call, stn_comm *comm, int planes, const double *own, int64_t count,
                               const double **parts);

#endif
