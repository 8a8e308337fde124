#include "train/update_kernel.h"

#include "core/device/device.h"

stn_status stni_update_cpu(stn_queue *queue, const void *raw)
{
    const struct stni_update_args *args = raw;
    const struct stni_update_kernels *kernels = STNI_ISA_PICK(stni_update_kernels, queue->isa);
    stni_update_fn update = (args->dtype == STN_DTYPE_F64 ? kernels->f64 : kernels->f32)[args->kind];
    for (int i = 0; i < args->n; i++)
        update(&args->chunk[i], &args->numbers);
    return STN_OK;
}
