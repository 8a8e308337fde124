/* Summing and storing of routed rows on the CPU. */
#include "core/dtype.h"
#include "ops/util/route_kernel.h"

#define TEMPLATE "ops/util/route_sum.inc"
#include "core/each_float.h"
#include "core/each_complex.h"

stn_dtype stni_rows_sum_dtype(stn_dtype dtype)
{
    return dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16 ? STN_DTYPE_F32 : dtype;
}

stn_status stni_rows_sum_cpu(stn_queue *queue, const void *args)
{
    static void (*const of[STN_DTYPE_COUNT])(const struct stni_rows_sum_args *) = {
        [STN_DTYPE_F32] = sum_f32, [STN_DTYPE_F64] = sum_f64, [STN_DTYPE_BF16] = sum_bf16,
        [STN_DTYPE_F16] = sum_f16, [STN_DTYPE_C64] = sum_c64, [STN_DTYPE_C128] = sum_c128,
    };
    const struct stni_rows_sum_args *a = args;
    (void)queue;
    of[a->sums_in ? stni_rows_sum_dtype(a->dtype) : a->dtype](a);
    return STN_OK;
}

stn_status stni_rows_store_cpu(stn_queue *queue, const void *args)
{
    static void (*const of[STN_DTYPE_COUNT])(const struct stni_rows_store_args *) = {
        [STN_DTYPE_F32] = store_f32, [STN_DTYPE_F64] = store_f64, [STN_DTYPE_BF16] = store_bf16,
        [STN_DTYPE_F16] = store_f16, [STN_DTYPE_C64] = store_c64, [STN_DTYPE_C128] = store_c128,
    };
    const struct stni_rows_store_args *a = args;
    (void)queue;
    of[a->dtype](a);
    return STN_OK;
}
