#include "ops/pool/unfold.h"

/* Lanes that are summed at a time. */
enum { BLOCK = 128 };

#define TEMPLATE "ops/pool/unfold_rows_tmpl.h"
#include "core/box/each_complex.h"
#include "core/box/each_float.h"

stn_status stni_unfold_backward_cpu(stn_queue *queue, const void *args)
{
    static void (*const images[STN_DTYPE_COUNT])(const struct stni_unfold_args *, int64_t, int64_t) = {
        [STN_DTYPE_F32] = image_f32, [STN_DTYPE_F64] = image_f64, [STN_DTYPE_BF16] = image_bf16,
        [STN_DTYPE_F16] = image_f16, [STN_DTYPE_C64] = image_c64, [STN_DTYPE_C128] = image_c128};
    const struct stni_unfold_args *a = args;
    int64_t at[STNI_UNFOLD_OUTER] = {0}, to = 0, from = 0;
    (void)queue;
    for (int d = 0; d >= 0;) {
        images[a->dtype](a, to, from);
        for (d = a->n_outer - 1; d >= 0; d--) {
            to += a->to_outer[d], from += a->from_outer[d];
            if (++at[d] < a->outer[d])
                break;
            to -= at[d] * a->to_outer[d], from -= at[d] * a->from_outer[d];
            at[d] = 0;
        }
    }
    return STN_OK;
}
