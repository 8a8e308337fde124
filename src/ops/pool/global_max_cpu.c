#include "ops/pool/global_max_kernel.h"
#include "ops/pool/max_line.h"

#define TEMPLATE "ops/pool/global_max_tmpl.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"

stn_status stni_global_max_cpu(stn_queue *queue, const void *args)
{
    static void (*const choose[STN_DTYPE_COUNT])(const struct stni_global_max_args *) = {
        [STN_DTYPE_F32] = choose_f32, [STN_DTYPE_F64] = choose_f64, [STN_DTYPE_BF16] = choose_bf16,
        [STN_DTYPE_F16] = choose_f16, [STN_DTYPE_I64] = choose_i64, [STN_DTYPE_I32] = choose_i32,
        [STN_DTYPE_U8] = choose_u8};
    const struct stni_global_max_args *a = args;
    (void)queue;
    choose[a->dtype](a);
    return STN_OK;
}
