/* In place of NCCL's files, in a build of the module without its header. */
#include "core/device/cuda/module.h"

#include <stdio.h>

stn_status stni_cuda_comm_join(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size,
                               char *text, size_t text_size)
{
    (void)options, (void)ops, (void)impl, (void)rank, (void)size;
    snprintf(text, text_size, "it was built without nccl.h");
    return STN_ERR_UNSUPPORTED;
}
