/* Shared memory of a block beyond the 48 KiB of STNI_SHARED, which a launch asks for.
 *
 *   STNI_SHARED_BY_LAUNCH(type, name)                `type *name` to memory of the launch's, values undefined
 *   STNI_LAUNCH_SHARING(kernel, bytes, grid, block, stream, args...)
 *                                                    STNI_LAUNCH with so many bytes of it: at most 96 KiB, which every
 *                                                    device of compute capability 8.0 and later has
 * Source: CUDA C++ Programming Guide, "Technical specifications per compute capability". */
#ifndef STNI_CORE_DEVICE_CUDA_LARGE_SHARED_CUH
#define STNI_CORE_DEVICE_CUDA_LARGE_SHARED_CUH

#include "core/device/cuda/grid.h"

#ifdef __CUDACC__

#define STNI_SHARED_BY_LAUNCH(type, name) \
    extern __shared__ uint4 shared_by_launch[]; \
    type *const name = reinterpret_cast<type *>(shared_by_launch)

#define STNI_LAUNCH_SHARING(kernel, bytes, grid, block, stream, ...)                             \
    do {                                                                                         \
        STNI_LIST_KERNEL(kernel);                                                                \
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes)); \
        kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__);                                     \
    } while (0)

#else

#define STNI_SHARED_BY_LAUNCH(type, name) \
    type *const name = static_cast<type *>(standin::shared_by_launch(sizeof(type), #name, STANDIN_LINE))

#define STNI_LAUNCH_SHARING(kernel, bytes, grid, block, stream, ...) \
    (STNI_LIST_KERNEL(kernel), standin::launch_sharing(bytes, kernel, grid, block, stream, __VA_ARGS__))

#endif

#endif
