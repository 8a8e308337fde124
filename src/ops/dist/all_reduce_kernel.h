/* Derivatives of products and extremes over ranks. */
#ifndef STNI_OPS_DIST_ALL_REDUCE_KERNEL_H
#define STNI_OPS_DIST_ALL_REDUCE_KERNEL_H

#include "core/base/inline.h"

#include <shardtensor/op.h>

#include <math.h>

/* n elements of p ranks: all[r n + i] is rank r's element i. */
struct stni_others_args {
    stn_dtype dtype;
    stn_reduce_op op; /* PROD, MIN or MAX */
    int p, me;
    int64_t n;
    const void *grad, *all;
    void *out;
};

/* PROD: out = grad times the product of the OTHERS, so that zeros are right. MIN, MAX: grad to the holders of the
 * extreme, split evenly; a NaN anywhere gives NaN. */
struct stni_others {
    double mine, product;
    int holders, beaten, has_nan;
};

STNI_INLINE struct stni_others stni_others_of(double mine)
{
    const struct stni_others none = {mine, 1, 0, 0, 0};
    return none;
}

/* Rank r has x. */
STNI_INLINE void stni_others_take(struct stni_others *o, const struct stni_others_args *a, int r, double x)
{
    const double sign = a->op == STN_MAX ? 1 : -1;
    o->product *= r != a->me ? x : 1;
    o->has_nan |= x != x;
    o->beaten |= sign * x > sign * o->mine;
    o->holders += x == o->mine;
}

/* By what the cotangent is multiplied. */
STNI_INLINE double stni_others_factor(const struct stni_others *o, stn_reduce_op op)
{
    if (op == STN_PROD)
        return o->product;
    return o->has_nan ? NAN : o->beaten ? 0 : 1.0 / o->holders;
}

stn_status stni_others_cpu(stn_queue *queue, const void *args);

#endif
