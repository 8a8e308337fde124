/* The last step of statistics on the CPU. */
#include "core/base/dtype.h"
#include "ops/reduce/statistic.h"
#include "ops/common/moments.h"

#include <math.h>

static double value(const struct stni_statistic_finish_args *a, int64_t i)
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

stn_status stni_statistic_finish_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_statistic_finish_args *a = raw;
    (void)queue;
    for (int64_t i = 0; i < a->count; i++) {
        double v = value(a, i);
        if (a->dtype == STN_DTYPE_F64)
            ((double *)a->out)[i] = v;
        else if (a->dtype == STN_DTYPE_F32)
            ((float *)a->out)[i] = (float)v;
        else if (a->dtype == STN_DTYPE_BF16)
            ((uint16_t *)a->out)[i] = stni_f32_to_bf16((float)v);
        else
            ((uint16_t *)a->out)[i] = stni_f32_to_f16((float)v);
    }
    return STN_OK;
}
