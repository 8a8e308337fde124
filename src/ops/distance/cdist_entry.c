/* Entries of the distances' kernels on the CPU. */
#include "core/isa.h"
#include "ops/distance/cdist_kernel.h"

stn_status stni_cdist_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    STNI_ISA_PICK(stni_cdist_kernels, stni_isa_best())->forward(args);
    return STN_OK;
}

stn_status stni_cdist_backward_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    STNI_ISA_PICK(stni_cdist_kernels, stni_isa_best())->backward(args);
    return STN_OK;
}
