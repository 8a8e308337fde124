/* grid_sample on the CPU, compiled once per instruction set. What a block of points reads is found once and serves
 * all channels. */
#include "core/base/isa.h"
#include "ops/resample/sample_plane.h"

#define TEMPLATE "ops/resample/sample_rows_tmpl.h"
#include "core/box/each_float.h"
#undef TEMPLATE
#define TEMPLATE "ops/resample/sample_plane_tmpl.h"
#include "core/box/each_float.h"

static void forward(const struct stni_sample_args *a)
{
    typedef void batch_fn(const struct stni_sample_args *, int64_t);
    static batch_fn *const points[] = {batch_points_f32, batch_points_f64, batch_points_bf16, batch_points_f16};
    static batch_fn *const planes[] = {batch_planes_f32, batch_planes_f64, batch_planes_bf16, batch_planes_f16};
    const int neighbours = a->n_channels > 1 && a->input.channel == 1 && a->output.channel == 1;
    for (int64_t b = 0; b < a->n_batch; b++)
        (!neighbours && stni_sample_is_plane(a) ? planes : points)[a->dtype](a, b);
}

stn_status STNI_ISA_NAME(stni_sample)(stn_queue *queue, const void *args)
{
    (void)queue;
    forward(args);
    return STN_OK;
}
