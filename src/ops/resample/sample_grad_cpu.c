/* The gradients of grid_sample on the CPU: what each point's cotangent gives to the elements that it read, and to its coordinates. */
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
    static void (*const points[])(const struct stni_sample_args *, int64_t, int64_t) = {point_f32, point_f64};
    const struct stni_sample_args *a = args;
    (void)queue;
    if (a->grad_input.data)
        memset(a->grad_input.data, 0, a->grad_input_bytes);
    for (int64_t b = 0; b < a->n_batch; b++)
        for (int64_t i = 0; i < a->n_points[0] * a->n_points[1] * a->n_points[2]; i++)
            points[a->dtype](a, b, i);
    return STN_OK;
}
