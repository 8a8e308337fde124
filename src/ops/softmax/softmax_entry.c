/* The softmax kernels' entries on the CPU. */
#include "core/isa.h"
#include "ops/softmax/softmax_kernel.h"

static const struct stni_softmax_cpu *kernels(void)
{
    return STNI_ISA_PICK(stni_softmax_cpu, stni_isa_best());
}

stn_status stni_softmax_forward_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->forward(args);
    return STN_OK;
}

stn_status stni_softmax_max_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->max(args);
    return STN_OK;
}

stn_status stni_softmax_sum_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->sum(args);
    return STN_OK;
}

stn_status stni_softmax_scale_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->scale(args);
    return STN_OK;
}

stn_status stni_softmax_backward_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->backward(args);
    return STN_OK;
}

stn_status stni_softmax_dot_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->dot(args);
    return STN_OK;
}

stn_status stni_softmax_apply_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    kernels()->apply(args);
    return STN_OK;
}
