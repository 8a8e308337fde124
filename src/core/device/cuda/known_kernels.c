#include "core/device/cuda/known_kernels.h"

#include <cuda_runtime_api.h>

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 64 };

const struct stni_cuda_known_kernel *stni_cuda_known_kernels;

/* The variable by which CUDA is told how to load; unset, it loads lazily. */
static int is_unwanted(void)
{
    const char *wish = getenv("CUDA_MODULE_LOADING");
    return wish && strcmp(wish, "LAZY") == 0;
}

/* Asking for a kernel's attributes loads it. */
void stni_cuda_load_kernels(void)
{
    static atomic_uint_fast64_t loaded; /* bit i: on GPU i */
    struct cudaFuncAttributes attributes;
    int gpu = GPUS;
    if (is_unwanted() || cudaGetDevice(&gpu) != cudaSuccess || gpu >= GPUS)
        return;
    if (atomic_fetch_or(&loaded, (uint_fast64_t)1 << gpu) >> gpu & 1)
        return;
    for (const struct stni_cuda_known_kernel *known = stni_cuda_known_kernels; known; known = known->next)
        cudaFuncGetAttributes(&attributes, known->kernel);
    cudaGetLastError();
}
