/* The last step of statistics on a CUDA device. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/reduce/statistic_kernel.h"

namespace {

enum { THREADS = 256 };

template <class S>
__global__ void __launch_bounds__(THREADS) finish(const __grid_constant__ stni_statistic_finish_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < a.count)
        store(static_cast<S *>(a.out)[i], (typename computed<S>::type)stni_statistic_value(&a, i));
}

void launch_finish(const stni_statistic_finish_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) {
        STNI_LAUNCH(finish<decltype(element)>, blocks_for(a.count, THREADS), THREADS, stream, a);
    });
}

}

#define KERNEL(op) STNI_CUDA_KERNEL(op ".finish", FLOATING_DTYPES, stni_statistic_finish_args, launch_finish)

STNI_CUDA_KERNELS(statistic) = {
    KERNEL("var"), KERNEL("std"), KERNEL("weighted_mean"), KERNEL("weighted_var"),
    STNI_CUDA_KERNELS_END
};
