/* A CUDA device inside: what its entries share. A call works on its own device and leaves the thread's current one as
 * it was (current.h). */
#ifndef STNI_CORE_DEVICE_CUDA_DEVICE_H
#define STNI_CORE_DEVICE_CUDA_DEVICE_H

#include "core/device/cuda/current.h"
#include "core/device/cuda/library.h"

#include <pthread.h>
#include <stdatomic.h>

/* A queue that runs on a stream of the caller's. */
struct stni_cuda_lent {
    struct stni_cuda_lent *next;
    cudaStream_t stream;
};

struct stni_cuda_device {
    int index;
    int reaches_all;               /* its kernels reach all memory of the host too */
    _Atomic(const char *) failure; /* of any thread; the runtime's text */
    uint64_t peers;                /* bit i: its kernels may use the memory of device i */
    pthread_mutex_t lock;
    struct stni_cuda_lent *lent;
    cudaStream_t memory; /* on which a caller's allocator is asked where no queue can be; NULL: not yet */
    struct stni_cuda_opened *kept[STNI_CUDA_LIBRARIES];
};

static inline stn_status stni_cuda_status_of(cudaError_t error)
{
    switch ((int)error) {
    case cudaSuccess: return STN_OK;
    case cudaErrorMemoryAllocation: return STN_ERR_MEMORY;
    default: return STN_ERR_DEVICE;
    }
}

/* Makes the device current; returns the one that was. */
static inline int stni_cuda_enter(void *impl)
{
    const struct stni_cuda_device *device = impl;
    return stni_cuda_make_current(device->index);
}

static inline stn_status stni_cuda_leave(void *impl, int before, cudaError_t error)
{
    struct stni_cuda_device *device = impl;
    stni_cuda_go_back(device->index, before);
    if (error != cudaSuccess) {
        cudaGetLastError(); /* it is reported by the status; kept, it would fail the next launch */
        atomic_store(&device->failure, cudaGetErrorString(error));
    }
    return stni_cuda_status_of(error);
}

/* Entries of the device's table (stn_device_ops): memory. */
stn_status stni_cuda_allocate(void *impl, size_t bytes, void **out);
void stni_cuda_deallocate(void *impl, void *pointer, size_t bytes);
stn_status stni_cuda_allocate_from(void *impl, const stn_device_allocator *allocator, void *queue, size_t bytes,
                                   void **out);
void stni_cuda_deallocate_to(void *impl, const stn_device_allocator *allocator, void *queue, void *pointer,
                             size_t bytes);
stn_status stni_cuda_host_allocate(void *impl, size_t bytes, void **out);
void stni_cuda_host_deallocate(void *impl, void *pointer, size_t bytes);
int stni_cuda_reaches(void *impl, const void *pointer);

#endif
