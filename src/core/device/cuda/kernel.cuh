/* Rows of kernels: a .cu ends in a table of what it serves, and the module collects the tables.
 *
 *     static void launch_softmax(const struct stni_softmax_args &args, cudaStream_t stream);
 *
 *     STNI_CUDA_KERNELS(softmax) = {
 *         STNI_CUDA_KERNEL("softmax.forward", FLOATING_DTYPES, struct stni_softmax_args, launch_softmax),
 *         STNI_CUDA_KERNELS_END
 *     };
 *
 * stands in softmax_cuda.cu: the table has the name of its file without "_cuda". A launcher runs on the host, with the
 * device chosen, and puts grids on the stream; it says nothing of errors: what cudaGetLastError gives afterwards fails
 * the queue. */
#ifndef STNI_CORE_DEVICE_CUDA_KERNEL_CUH
#define STNI_CORE_DEVICE_CUDA_KERNEL_CUH

#include "core/device/cuda/grid.h"
#include "core/device/cuda/module.h"

namespace {

constexpr uint32_t dtype_bit(stn_dtype dtype)
{
    return (uint32_t)1 << dtype;
}

constexpr uint32_t ALL_DTYPES = dtype_bit(STN_DTYPE_COUNT) - 1;
constexpr uint32_t FLOATING_DTYPES =
    dtype_bit(STN_DTYPE_F32) | dtype_bit(STN_DTYPE_F64) | dtype_bit(STN_DTYPE_BF16) | dtype_bit(STN_DTYPE_F16);
constexpr uint32_t COMPLEX_DTYPES = dtype_bit(STN_DTYPE_C64) | dtype_bit(STN_DTYPE_C128);
constexpr uint32_t NARROW_DTYPES = dtype_bit(STN_DTYPE_I8) | dtype_bit(STN_DTYPE_I16);
constexpr uint32_t INTEGER_DTYPES =
    dtype_bit(STN_DTYPE_I64) | dtype_bit(STN_DTYPE_I32) | dtype_bit(STN_DTYPE_U8) | NARROW_DTYPES;

/* What foreign libraries want of their workspace; so many bytes more than they ask for let it begin at such an
 * address. */
enum { WORKSPACE_ALIGNMENT = 256 };

inline void *aligned(void *workspace)
{
    const uintptr_t at = (uintptr_t)workspace;
    return reinterpret_cast<void *>((at + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT);
}

/* What `bytes` take where something aligned follows them. */
inline size_t aligned_bytes(size_t bytes)
{
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

template <class ARGS, void (*LAUNCH)(const ARGS &, cudaStream_t)>
stn_status launch_row(stn_queue *queue, const void *args)
{
    LAUNCH(*static_cast<const ARGS *>(args), static_cast<cudaStream_t>(stni_cuda_stream(queue)));
    return stni_cuda_launched(queue);
}

}

#define STNI_CUDA_KERNELS(name)                                     \
    extern "C" const stn_kernel stni_cuda_kernels_##name[];          \
    const stn_kernel stni_cuda_kernels_##name[]
#define STNI_CUDA_KERNEL(slot, dtypes, args, launch) STNI_CUDA_KERNEL_WITH(slot, dtypes, args, launch, nullptr)
/* A row that says how much scratch it wants. */
#define STNI_CUDA_KERNEL_WITH(slot, dtypes, args, launch, workspace) \
    STNI_CUDA_KERNEL_OF_QUEUE(slot, dtypes, args, (launch_row<args, launch>), workspace)
/* The same, and its function takes the queue itself. */
#define STNI_CUDA_KERNEL_OF_QUEUE(slot, dtypes, args, function, workspace) \
    {sizeof(stn_kernel), slot, "cuda", dtypes, sizeof(args), function, workspace}
#define STNI_CUDA_KERNELS_END {}

#endif
