/* The last step of statistics, for C, C++ and CUDA compilers. */
#ifndef STNI_OPS_REDUCE_STATISTIC_KERNEL_H
#define STNI_OPS_REDUCE_STATISTIC_KERNEL_H

#include "ops/common/moments.h"

#include <shardtensor/op.h>

enum stni_statistic { STNI_STATISTIC_MEAN, STNI_STATISTIC_VARIANCE, STNI_STATISTIC_DEVIATION };

/* out = the statistic of the joined moments, or weighted sums (ops/common/moments.h), of `count` results. */
struct stni_statistic_finish_args {
    stn_dtype dtype;
    enum stni_statistic what;
    int weighted; /* which parts those are */
    int n_parts;
    const double *parts;
    int64_t count;
    double correction;
    void *out;
};

/* Result i. */
STNI_INLINE double stni_statistic_value(const struct stni_statistic_finish_args *a, int64_t i)
{
    if (a->weighted) {
        const struct stni_moments w = stni_weighted_merge(a->parts, a->n_parts, a->count, i);
        return a->what == STNI_STATISTIC_MEAN ? w.mean : w.m2 / w.n;
    }
    const struct stni_moments m = stni_moments_merge(a->parts, a->n_parts, a->count, i);
    const double divisor = m.n - a->correction;
    const double variance = m.m2 / (divisor > 0 ? divisor : 0);
    return a->what == STNI_STATISTIC_VARIANCE ? variance : sqrt(variance);
}

stn_status stni_statistic_finish_cpu(stn_queue *queue, const void *args);

#endif
