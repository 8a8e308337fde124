/* Functions of the CUDA runtime and of NCCL that programs find by their names in the module, as they would in the
 * libraries that a real one is linked to or opens; those of cuda_runtime_api.h, which torch calls too, say so there.
 * The module itself calls the stand-in's, whatever else was loaded. */
#ifndef STANDIN_FOUND_BY_NAME_H
#define STANDIN_FOUND_BY_NAME_H

#include <cuda_runtime_api.h>

#define STANDIN_FOUND_BY_NAME __attribute__((visibility("protected")))

#ifdef __cplusplus

namespace standin {

/* Of enum cudaDeviceAttr, by CUDA's numbers. */
enum { CLOCK_RATE = 13, MULTIPROCESSORS = 16 };

}

extern "C" {

#endif

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

/* Whether the process has begun to use a GPU, which on a real one takes some hundred MB of it. */
int standin_has_context(int gpu);

/* How many kernels were not on their GPU when they were launched for the first time, and had to be loaded then. */
int standin_loaded_by_launches(void);

/* From now on events of this GPU say that a kernel has failed; -1: of none. */
void standin_break_gpu(int gpu);

/* The driver's, with int for its types. */
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active);

#ifdef __cplusplus
}
#endif

#endif
