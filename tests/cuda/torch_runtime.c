/* torch.cuda on the stand-in: what torch asks of CUDA's runtime and driver, and the module does not. Loaded before
 * torch, with the stand-in behind it, this stands for libcuda.so.1, too. What torch computes on a GPU
 * python/tests/torch/cuda_standin.py has the processor do: a kernel that would run all the same ends the program. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

/* As cudaDeviceGetAttribute has it. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "stand-in");
    cudaError_t error = cudaDeviceGetAttribute(&out->major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&out->minor, cudaDevAttrComputeCapabilityMinor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&out->multiProcessorCount, cudaDevAttrMultiProcessorCount, device);
    out->totalGlobalMem = (size_t)1 << 34;
    out->warpSize = 32;
    out->maxThreadsPerBlock = 1024;
    out->maxThreadsPerMultiProcessor = 2048;
    return error;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = (size_t)1 << 34;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *n)
{
    (void)graph, (void)nodes, (void)edges;
    if (id)
        *id = 1;
    if (n)
        *n = 0;
    return cudaStreamIsCapturing(stream, status);
}

static CUresult refuse(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* What of the driver torch may want: virtual memory, multicast and the like. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result)
{
    (void)symbol, (void)version, (void)flags;
    memcpy(function, &(CUresult(*)(void)){refuse}, sizeof *function);
    if (result)
        *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

static cudaError_t end(void)
{
    fputs("stand-in: a kernel of torch's would run on the GPU\n", stderr);
    abort();
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t stream)
{
    (void)function, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
    return end();
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    (void)config, (void)function, (void)args;
    return end();
}
