/* The gradients of grid_sample on the CPU: what each point's cotangent gives to the elements that it read, and to
 * its coordinates. What a block of points reads is found once and serves all channels. */
#include "ops/resample/sample_kernel.h"

#include <string.h>

#define TEMPLATE "ops/resample/sample_grad_rows_tmpl.h"
#define T float
#define NAME(f) f##_f32
#include TEMPLATE
#undef T
#undef NAME
#define T double
#define NAME(f) f##_f64
#include TEMPLATE
#undef T
#undef NAME

stn_status stni_sample_grad_cpu(stn_queue *queue, const void *args)
{
    static void (*const batches[])(const struct stni_sample_args *, int64_t) = {batch_f32, batch_f64};
    const struct stni_sample_args *a = args;
    (void)queue;
    if (a->grad_input.data)
        memset(a->grad_input.data, 0, a->grad_input_bytes);
    for (int64_t b = 0; b < a->n_batch; b++)
        batches[a->dtype](a, b);
    return STN_OK;
}
