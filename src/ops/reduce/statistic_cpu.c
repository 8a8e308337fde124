/* The last step of statistics on the CPU. */
#include "core/base/dtype.h"
#include "ops/reduce/statistic_kernel.h"

stn_status stni_statistic_finish_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_statistic_finish_args *a = raw;
    (void)queue;
    for (int64_t i = 0; i < a->count; i++) {
        const double v = stni_statistic_value(a, i);
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
