/* The kernel of marks. */
#include "core/comm/nccl/mark.h"

#include "core/device/cuda/grid.h"

namespace {

/* Atomic, as the host reads meanwhile. */
__global__ void write_mark(uint32_t *at, uint32_t value)
{
    atomicExch(at, value);
}

}

cudaError_t stni_nccl_mark(cudaStream_t stream, uint32_t *at, uint32_t value)
{
    STNI_LAUNCH(write_mark, 1, 1, stream, at, value);
    return cudaGetLastError();
}
