/* grid_sample on the CPU, compiled once per instruction set. What a block of points reads is found once and serves all channels. */
#include "core/base/isa.h"
#include "ops/resample/sample_kernel.h"

#define TEMPLATE "ops/resample/sample_rows_tmpl.h"
#include "core/box/each_float.h"

static void forward(const struct stni_sample_args *a)
{
    static void (*const batches[])(const struct stni_sample_args *, int64_t) = {batch_f32, batch_f64, batch_bf16, batch_f16};
    for (int64_t b = 0; b < a->n_batch; b++)
        batches[a->dtype](a, b);
}

stn_status STNI_ISA_NAME(stni_sample)(stn_queue *queue, const void *args)
{
    (void)queue;
    forward(args);
    return STN_OK;
}
