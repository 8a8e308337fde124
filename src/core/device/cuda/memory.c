/* Memory of a CUDA device: of the runtime, of a caller's functions, and of the host. */
#include "core/device/cuda/device.h"

stn_status stni_cuda_allocate(void *impl, size_t bytes, void **out)
{
    const int before = stni_cuda_enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaMalloc(out, bytes);
    stni_cuda_permit_in_capture(mode);
    return stni_cuda_leave(impl, before, error);
}

void stni_cuda_deallocate(void *impl, void *pointer, size_t bytes)
{
    (void)bytes;
    const int before = stni_cuda_enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaFree(pointer);
    stni_cuda_permit_in_capture(mode);
    stni_cuda_leave(impl, before, error);
}

/* No work is ever put on this stream, so that memory in its order can be used by all. The device is the current one. */
static cudaError_t memory_stream(struct stni_cuda_device *device, cudaStream_t *out)
{
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&device->lock);
    if (!device->memory)
        error = cudaStreamCreateWithFlags(&device->memory, cudaStreamNonBlocking);
    *out = device->memory;
    pthread_mutex_unlock(&device->lock);
    return error;
}

/* Asks the caller, whose function may leave another device behind, and with nothing to give an error that the
 * runtime keeps. */
static cudaError_t ask(struct stni_cuda_device *device, const stn_device_allocator *allocator, cudaStream_t stream,
                       size_t bytes, void **out)
{
    *out = allocator->allocate(allocator->arg, bytes, stream);
    stni_cuda_enter(device);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

static void give(struct stni_cuda_device *device, const stn_device_allocator *allocator, cudaStream_t stream,
                 void *pointer, size_t bytes)
{
    allocator->deallocate(allocator->arg, pointer, bytes, stream);
    stni_cuda_enter(device);
}

static cudaError_t ask_for_all(struct stni_cuda_device *device, const stn_device_allocator *allocator, size_t bytes,
                               void **out)
{
    cudaStream_t stream = NULL;
    cudaError_t error = memory_stream(device, &stream);
    if (error == cudaSuccess)
        error = ask(device, allocator, stream, bytes, out);
    if (error != cudaSuccess)
        return error;
    error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) {
        give(device, allocator, stream, *out, bytes);
        *out = NULL;
    }
    return error;
}

stn_status stni_cuda_allocate_from(void *impl, const stn_device_allocator *allocator, void *queue, size_t bytes,
                                   void **out)
{
    const int before = stni_cuda_enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    *out = NULL;
    const cudaError_t error =
        queue ? ask(impl, allocator, queue, bytes, out) : ask_for_all(impl, allocator, bytes, out);
    stni_cuda_permit_in_capture(mode);
    return stni_cuda_leave(impl, before, error);
}

void stni_cuda_deallocate_to(void *impl, const stn_device_allocator *allocator, void *queue, void *pointer,
                             size_t bytes)
{
    cudaStream_t stream = queue;
    const int before = stni_cuda_enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    if (!queue)
        memory_stream(impl, &stream);
    give(impl, allocator, stream, pointer, bytes);
    stni_cuda_permit_in_capture(mode);
    stni_cuda_leave(impl, before, cudaSuccess);
}

/* In every device's address space, at the address that the host has. */
stn_status stni_cuda_host_allocate(void *impl, size_t bytes, void **out)
{
    const int before = stni_cuda_enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaHostAlloc(out, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    stni_cuda_permit_in_capture(mode);
    return stni_cuda_leave(impl, before, error);
}

void stni_cuda_host_deallocate(void *impl, void *pointer, size_t bytes)
{
    (void)bytes;
    const int before = stni_cuda_enter(impl);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t error = cudaFreeHost(pointer);
    stni_cuda_permit_in_capture(mode);
    stni_cuda_leave(impl, before, error);
}

/* Memory of another device is reached where that device's queues are waited for. */
int stni_cuda_reaches(void *impl, const void *pointer)
{
    const struct stni_cuda_device *device = impl;
    struct cudaPointerAttributes about;
    if (device->reaches_all)
        return 1;
    const int before = stni_cuda_enter(impl); /* else the runtime begins to use the thread's device */
    const cudaError_t error = cudaPointerGetAttributes(&about, pointer);
    stni_cuda_leave(impl, before, error);
    return error != cudaSuccess || about.type != cudaMemoryTypeUnregistered;
}
