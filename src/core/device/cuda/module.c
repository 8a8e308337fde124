/* The CUDA module: what the library asks for by name. */
#include "core/device/cuda/module.h"

#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const stn_host *host;
static stn_module module = {.size = sizeof module,
                            .abi = STN_MODULE_ABI,
                            .name = "cuda",
                            .device_join = stni_cuda_device_join,
                            .device_count = stni_cuda_device_count,
                            .comm_join = stni_cuda_comm_join};

const stn_host *stni_cuda_host(void)
{
    return host;
}

void *stni_cuda_stream(stn_queue *queue)
{
    return host->queue_native(queue);
}

stn_status stni_cuda_launched(stn_queue *queue)
{
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        return STN_OK;
    return host->queue_fail(queue, STN_ERR_DEVICE, "cuda: a kernel was not launched: %s", cudaGetErrorString(error));
}

static int count_rows(const stn_kernel *table)
{
    int n = 0;
    while (table[n].name)
        n++;
    return n;
}

/* One table of all. Without memory for it the module has no kernels, which the library reports. */
static void collect_kernels(void)
{
    size_t n = 0, at = 0;
    for (int t = 0; stni_cuda_kernel_tables[t]; t++)
        n += (size_t)count_rows(stni_cuda_kernel_tables[t]);
    stn_kernel *all = malloc(n * sizeof *all);
    for (int t = 0; all && stni_cuda_kernel_tables[t]; t++) {
        size_t rows = (size_t)count_rows(stni_cuda_kernel_tables[t]);
        memcpy(all + at, stni_cuda_kernel_tables[t], rows * sizeof *all);
        at += rows;
    }
    module.kernels = all;
    module.n_kernels = (int)at;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

STN_API const stn_module *stn_module_cuda(const stn_host *given);

const stn_module *stn_module_cuda(const stn_host *given)
{
    if (given->abi != STN_MODULE_ABI || given->size < sizeof *given)
        return NULL;
    pthread_mutex_lock(&opening);
    if (!host) {
        host = given;
        collect_kernels();
    }
    pthread_mutex_unlock(&opening);
    return &module;
}
