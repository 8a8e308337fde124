/* The one place that knows which compiler reads a .cu file: nvcc, or g++ for the stand-in of the tests, on which the same sources run without a
 * GPU. Everything else is CUDA's own words (__global__, threadIdx, __syncthreads, __shfl_down_sync, atomicAdd), which the
 * stand-in has too; but for instructions that CUDA has no words for, in tensor_cores.cuh and late_copies.cuh.
 *
 * Rules for kernels: they and their templates stand in unnamed namespaces, since the linker keeps one of several template instances of one name;
 * they are launched by STNI_LAUNCH; no exceptions, no RTTI, no containers of the standard library.
 *
 *   STNI_SHARED(type, name, count)                     `type name[count]` in the memory that a block shares, values undefined
 *   STNI_LAUNCH(kernel, grid, block, stream, args...)  puts a kernel, which is named and no pointer, on a stream; a template with commas goes in
 *                                                      parentheses. Errors are those of cudaGetLastError
 *   STNI_UNROLL                                        before a loop over an array that is to stay in registers
 *   STNI_KEEP_LOOP                                     before a loop that is to stay one, for a smaller module
 *   STNI_SMALL_COUNT                                   elements from which on indices have 64 bits (STANDIN_SMALL)
 *   STNI_DEVICE                                        begins a small function of kernels
 *   STNI_HOST_DEVICE                                   begins a small function of kernels and of the host */
#ifndef STNI_CORE_DEVICE_CUDA_GRID_H
#define STNI_CORE_DEVICE_CUDA_GRID_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/device/cuda/known_kernels.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define STNI_SHARED(type, name, count) __shared__ type name[count]
#define STNI_LAUNCH(kernel, grid, block, stream, ...) \
    (STNI_LIST_KERNEL(kernel), kernel<<<grid, block, 0, stream>>>(__VA_ARGS__))
#define STNI_UNROLL _Pragma("unroll")
#define STNI_KEEP_LOOP _Pragma("unroll 1")
#define STNI_SMALL_COUNT ((int64_t)1 << 31)
#define STNI_DEVICE static __device__ __forceinline__
#define STNI_DEVICE_CALLED static __device__ __noinline__ /* long, and not what a kernel's time goes into */
#define STNI_HOST_DEVICE static __host__ __device__ __forceinline__

#else

#include <grid_cpu.h>

#define STNI_SHARED(type, name, count) \
    type *const name = static_cast<type *>(standin::shared(__COUNTER__, sizeof(type) * (count), #name, __FILE__, __LINE__))
#define STNI_LAUNCH(kernel, grid, block, stream, ...) \
    (STNI_LIST_KERNEL(kernel), standin::launch(kernel, grid, block, stream, __VA_ARGS__))
#define STNI_UNROLL
#define STNI_KEEP_LOOP
#define STNI_SMALL_COUNT standin::small_count
#define STNI_DEVICE static inline
#define STNI_DEVICE_CALLED static inline
#define STNI_HOST_DEVICE static inline

#endif

/* Conversions of 16-bit floats: on the device its instructions. The toolkit's two headers of them took half of the
 * compiler's time for a short source. */
#ifdef __CUDA_ARCH__
STNI_HOST_DEVICE float stni_grid_bf16_to_f32(uint16_t bits)
{
    float value;
    asm("mov.b32 %0, {0, %1};" : "=f"(value) : "h"(bits));
    return value;
}

STNI_HOST_DEVICE uint16_t stni_grid_f32_to_bf16(float value)
{
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

STNI_HOST_DEVICE float stni_grid_f16_to_f32(uint16_t bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

STNI_HOST_DEVICE uint16_t stni_grid_f32_to_f16(float value)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#else
#define stni_grid_bf16_to_f32 stni_bf16_to_f32
#define stni_grid_f32_to_bf16 stni_f32_to_bf16
#define stni_grid_f16_to_f32 stni_f16_to_f32
#define stni_grid_f32_to_f16 stni_f32_to_f16
#endif

#endif
