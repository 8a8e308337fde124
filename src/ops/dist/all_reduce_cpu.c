/* Derivatives of products and extremes over ranks, element by element. f64 throughout: p values an element, no long
 * sums. */
#include "core/base/dtype.h"
#include "ops/dist/all_reduce_kernel.h"

static double load(stn_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case STN_DTYPE_F64:
        return ((const double *)data)[i];
    case STN_DTYPE_BF16:
        return (double)stni_bf16_to_f32(((const uint16_t *)data)[i]);
    case STN_DTYPE_F16:
        return (double)stni_f16_to_f32(((const uint16_t *)data)[i]);
    case STN_DTYPE_F32:
    case STN_DTYPE_I64:
    case STN_DTYPE_I32:
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL:
    case STN_DTYPE_C64:
    case STN_DTYPE_C128:
    case STN_DTYPE_I8:
    case STN_DTYPE_I16:
    case STN_DTYPE_COUNT:
        break;
    }
    return (double)((const float *)data)[i];
}

static void store(stn_dtype dtype, void *data, int64_t i, double x)
{
    if (dtype == STN_DTYPE_F64)
        ((double *)data)[i] = x;
    else if (dtype == STN_DTYPE_BF16)
        ((uint16_t *)data)[i] = stni_f32_to_bf16((float)x);
    else if (dtype == STN_DTYPE_F16)
        ((uint16_t *)data)[i] = stni_f32_to_f16((float)x);
    else
        ((float *)data)[i] = (float)x;
}

stn_status stni_others_cpu(stn_queue *queue, const void *args)
{
    const struct stni_others_args *a = args;
    (void)queue;
    for (int64_t i = 0; i < a->n; i++) {
        struct stni_others others = stni_others_of(load(a->dtype, a->all, a->me * a->n + i));
        for (int r = 0; r < a->p; r++)
            stni_others_take(&others, a, r, load(a->dtype, a->all, r * a->n + i));
        store(a->dtype, a->out, i, load(a->dtype, a->grad, i) * stni_others_factor(&others, a->op));
    }
    return STN_OK;
}
