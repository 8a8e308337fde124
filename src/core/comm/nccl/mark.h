/* Marks of recorded collectives: the device writes a number to memory of the host, where the watch reads how far it
 * is. */
#ifndef STNI_CORE_COMM_NCCL_MARK_H
#define STNI_CORE_COMM_NCCL_MARK_H

#include <cuda_runtime_api.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* *at = value, once what is on the stream has ended. `at` is memory of the host that the device reaches at the same
 * address. */
cudaError_t stni_nccl_mark(cudaStream_t stream, uint32_t *at, uint32_t value);

#ifdef __cplusplus
}
#endif

#endif
