/* Max pools on the CPU, compiled once per instruction set. Rows of a window are compared first, then its columns: of
 * equal elements the first in row-major order is the maximum, of NaNs the last. */
#include "ops/pool/max_line.h"

#define TEMPLATE "ops/pool/max_lines_tmpl.h"
#include "core/box/each_compute.h"
#include "core/box/each_integer.h"
#undef TEMPLATE

#define OF_ACC(f) _Generic((ACC)0, float: f##_f32, double: f##_f64, int64_t: f##_i64, int32_t: f##_i32, uint8_t: f##_u8)
#define TEMPLATE "ops/pool/max_rows_tmpl.h"
#include "core/box/each_float.h"
#include "core/box/each_integer.h"

static void run(const struct stni_max_args *args)
{
    const struct stni_resample_args *a = &args->at;
    static void (*const images[STN_DTYPE_COUNT])(const struct stni_resample_args *, const struct stni_max_tables *,
                                                 int64_t, int64_t) = {
        [STN_DTYPE_F32] = image_f32, [STN_DTYPE_F64] = image_f64, [STN_DTYPE_BF16] = image_bf16,
        [STN_DTYPE_F16] = image_f16, [STN_DTYPE_I64] = image_i64, [STN_DTYPE_I32] = image_i32,
        [STN_DTYPE_U8] = image_u8};
    struct stni_max_tables tables;
    stni_max_fill_tables(args, &tables);
    for (int64_t i = 0; i < a->n_outer[0]; i++)
        for (int64_t j = 0; j < a->n_outer[1]; j++)
            images[a->dtype](a, &tables, i * a->outer_source[0] + j * a->outer_source[1],
                             i * a->outer_target[0] + j * a->outer_target[1]);
}

stn_status STNI_ISA_NAME(stni_max)(stn_queue *queue, const void *args)
{
    (void)queue;
    run(args);
    return STN_OK;
}
