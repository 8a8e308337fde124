#include "ops/common/moments.h"

#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/base/host_alloc.h"

#include <float.h>
#include <math.h>

/* What a part has of `plane` at i. */
static double plane_of(const double *parts, int part, int plane, int64_t count, int64_t i)
{
    return parts[(part * STNI_WEIGHTED_PLANES + plane) * count + i];
}

/* Sums about one number, then about the mean. Of weights of one sign no square sum is negative but by rounding. */
struct stni_moments stni_weighted_merge(const double *parts, int n, int64_t count, int64_t i)
{
    double weight = 0, first = 0, second = 0, terms = 0;
    int some = n - 1; /* a part that has elements, if one does */
    while (some > 0 && plane_of(parts, some, STNI_WEIGHTED_WEIGHT, count, i) == 0)
        some--;
    const double about = plane_of(parts, some, STNI_WEIGHTED_ABOUT, count, i);
    for (int part = 0; part < n; part++) {
        const double w = plane_of(parts, part, STNI_WEIGHTED_WEIGHT, count, i);
        weight += w;
        first += plane_of(parts, part, STNI_WEIGHTED_FIRST, count, i) + w * (plane_of(parts, part, STNI_WEIGHTED_ABOUT, count, i) - about);
    }
    const double mean = weight == 0 ? NAN : about + first / weight;
    for (int part = 0; part < n; part++) {
        const double w = plane_of(parts, part, STNI_WEIGHTED_WEIGHT, count, i), d = plane_of(parts, part, STNI_WEIGHTED_ABOUT, count, i) - mean;
        const double own[] = {plane_of(parts, part, STNI_WEIGHTED_SECOND, count, i),
                              2 * d * plane_of(parts, part, STNI_WEIGHTED_FIRST, count, i), w * d * d};
        for (int k = 0; k < 3; k++) {
            second += own[k];
            terms += fabs(own[k]);
        }
    }
    return (struct stni_moments){weight, mean, isfinite(terms) && fabs(second) <= 4 * DBL_EPSILON * terms ? 0 : second};
}

stn_status stni_moments_gather(const stn_op_call *call, stn_comm *comm, int planes, const double *own, int64_t count, const double **parts)
{
    void *all;
    STNI_TRY(stn_op_scratch(call, (size_t)(comm->size * planes * count) * sizeof(double), &all));
    int64_t *counts = stni_malloc((size_t)comm->size * sizeof *counts);
    if (!counts)
        return stni_fail_memory(call->context, "counts of moments", (size_t)comm->size * sizeof *counts);
    for (int i = 0; i < comm->size; i++)
        counts[i] = planes * count;
    stn_status status = stni_comm_all_gather(comm, call->context->queue, own, all, counts, STN_DTYPE_F64);
    stni_free(counts);
    *parts = all;
    return status;
}
