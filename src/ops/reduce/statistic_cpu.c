/* The last step of statistics on the CPU. */
#include "core/dtype.h"
#include "ops/reduce/statistic.h"
#include "ops/util/moments.h"

#include <math.h>

static double value(const struct stni_statistic_finish_args *a, struct stni_moments m)
{
    const double divisor = m.n - a->correction;
    if (a->what == STNI_STATISTIC_MEAN)
        return m.n == 0 ? NAN : m.mean;
    const double variance = m.m2 / (divisor > 0 ? divisor : 0);
    return a->what == STNI_STATISTIC_VARIANCE ? variance : sqrt(variance);
}

stn_status stni_statistic_finish_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_statistic_finish_args *a = raw;
    (void)queue;
    for (int64_t i = 0; i < a->count; i++) {
        double v = value(a, stni_moments_merge(a->parts, a->n_parts, a->count, i));
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
