/* Count, mean and sum of squared deviations of sets of numbers, and of their unions: statistics that ranks share. Inside arrays they stand in
 * planes: three, or four where numbers have weights. */
#ifndef STNI_OPS_COMMON_MOMENTS_H
#define STNI_OPS_COMMON_MOMENTS_H

#include <shardtensor/op.h>

struct stni_moments {
    double n, mean, m2; /* m2: sum of squared deviations from the mean */
};

/* Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979. */
static inline struct stni_moments stni_moments_join(struct stni_moments a, struct stni_moments b)
{
    if (b.n == 0)
        return a;
    double n = a.n + b.n, d = b.mean - a.mean;
    return (struct stni_moments){n, a.mean + d * (b.n / n), a.m2 + b.m2 + d * d * (a.n * b.n / n)};
}

static inline struct stni_moments stni_moments_read(const double *planes, int64_t count, int64_t i)
{
    return (struct stni_moments){planes[i], planes[count + i], planes[2 * count + i]};
}

static inline void stni_moments_write(double *planes, int64_t count, int64_t i, struct stni_moments m)
{
    planes[i] = m.n;
    planes[count + i] = m.mean;
    planes[2 * count + i] = m.m2;
}

/* The i-th of `count` over `n` ranks' planes, one after the other: joined in their order, so that all ranks get the same bits. */
static inline struct stni_moments stni_moments_merge(const double *parts, int n, int64_t count, int64_t i)
{
    struct stni_moments all = {0, 0, 0};
    for (int part = 0; part < n; part++)
        all = stni_moments_join(all, stni_moments_read(parts + part * 3 * count, count, i));
    return all;
}

/* Of numbers x with weights w of any sign: the sum of w, a number c near the x, the sums of w (x - c) and of w (x - c)^2. A part may have weights
 * that add up to 0, and then has no mean of its own. */
enum { STNI_WEIGHTED_WEIGHT, STNI_WEIGHTED_ABOUT, STNI_WEIGHTED_FIRST, STNI_WEIGHTED_SECOND, STNI_WEIGHTED_PLANES };

/* Sum of weights, weighted mean, and sum of weighted squared deviations from it, of the i-th of `count` over `n` ranks' planes. NaN where the
 * weights add up to 0. */
struct stni_moments stni_weighted_merge(const double *parts, int n, int64_t count, int64_t i);

/* Brings `planes` planes of `count` numbers of every rank of `comm` to each of them, in scratch. For run. */
stn_status stni_moments_gather(const stn_op_call *call, stn_comm *comm, int planes, const double *own, int64_t count, const double **parts);

#endif
