/* The CPU's entry: which instruction set. */
#include "core/isa.h"
#include "ops/random/dropout_kernel.h"

stn_status stni_dropout_cpu(stn_queue *queue, const void *args)
{
    (void)queue;
    STNI_ISA_PICK(stni_dropout_kernels, stni_isa_best())->run(args);
    return STN_OK;
}
