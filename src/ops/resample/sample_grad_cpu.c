/* The gradients of grid_sample on the CPU: what each point's cotangent gives to the elements that it read, and to
 * its coordinates. What a block of points reads is found once and serves all channels. Compiled once per instruction
 * set. */
#include "core/base/isa.h"
#include "ops/resample/sample_plane.h"

#include <string.h>

#define T float
#define NAME(f) f##_f32
#include "ops/resample/sample_grad_rows_tmpl.h"
#include "ops/resample/sample_grad_plane_tmpl.h"
#undef T
#undef NAME
#define T double
#define NAME(f) f##_f64
#include "ops/resample/sample_grad_rows_tmpl.h"
#include "ops/resample/sample_grad_plane_tmpl.h"
#undef T
#undef NAME

static void backward(const struct stni_sample_args *a)
{
    static void (*const points[])(const struct stni_sample_args *, int64_t) = {batch_points_f32, batch_points_f64};
    static void (*const planes[])(const struct stni_sample_args *, int64_t) = {batch_planes_f32, batch_planes_f64};
    if (a->grad_input.data)
        memset(a->grad_input.data, 0, a->grad_input_bytes);
    for (int64_t b = 0; b < a->n_batch; b++)
        (stni_sample_is_plane(a) ? planes : points)[a->dtype](a, b);
}

stn_status STNI_ISA_NAME(stni_sample_grad)(stn_queue *queue, const void *args)
{
    (void)queue;
    backward(args);
    return STN_OK;
}
