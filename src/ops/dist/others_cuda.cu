/* Derivatives of products and extremes over ranks on a CUDA device. */
#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/dist/all_reduce_kernel.h"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) differentiate(const __grid_constant__ stni_others_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    stni_others others = stni_others_of(read_element<double>(a.all, a.dtype, a.me * a.n + i));
    for (int r = 0; r < a.p; r++)
        stni_others_take(&others, &a, r, read_element<double>(a.all, a.dtype, r * a.n + i));
    write_element(a.out, a.dtype, i, read_element<double>(a.grad, a.dtype, i) * stni_others_factor(&others, a.op));
}

void launch_others(const stni_others_args &a, cudaStream_t stream)
{
    if (a.n > 0)
        STNI_LAUNCH(differentiate, blocks_for(a.n, THREADS), THREADS, stream, a);
}

}

STNI_CUDA_KERNELS(others) = {
    STNI_CUDA_KERNEL("dist_others.forward", FLOATING_DTYPES, stni_others_args, launch_others),
    STNI_CUDA_KERNELS_END
};
