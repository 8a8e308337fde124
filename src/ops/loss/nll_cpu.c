/* Kernels of nll_loss on the CPU: one step per target. */
#include "ops/loss/nll_position.h"

#define TEMPLATE "ops/loss/nll_lanes_tmpl.h"
#include "core/box/each_float.h"

stn_status stni_nll_cpu(stn_queue *queue, const void *raw)
{
    static void (*const forward[])(const struct stni_nll_args *, stn_queue *) = {forward_f32, forward_f64, forward_bf16,
                                                                                 forward_f16};
    const struct stni_nll_args *a = raw;
    forward[a->dtype](a, queue);
    return STN_OK;
}

stn_status stni_nll_backward_cpu(stn_queue *queue, const void *raw)
{
    static void (*const backward[])(const struct stni_nll_args *, stn_queue *) = {backward_f32, backward_f64,
                                                                                  backward_bf16, backward_f16};
    const struct stni_nll_args *a = raw;
    backward[a->dtype](a, queue);
    return STN_OK;
}
