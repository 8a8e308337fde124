/* Attention over parts of the keys joined on a CUDA device: a block each query row. */
#include "core/base/inline.h"
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/attention/attention_merge_kernel.h"

#include <math.h>

namespace {

enum { THREADS = 64 };

#define TEMPLATE "ops/attention/attention_shares_tmpl.h"
#include "core/box/each_compute.h"

STNI_DEVICE shares_f32 shares_of(float lse, float more)
{
    return shares_of_f32(lse, more);
}

STNI_DEVICE shares_f64 shares_of(double lse, double more)
{
    return shares_of_f64(lse, more);
}

/* Where row `row` of element `element` of the batch begins. */
STNI_DEVICE int64_t place_in(const stni_attention_merge_args &p, const stni_attention_operand &o, int64_t element,
                             int64_t row)
{
    int64_t at = row * o.row;
    for (int d = p.n_batch - 1; d >= 0; d--) {
        at += element % p.batch[d] * o.batch[d];
        element /= p.batch[d];
    }
    return at;
}

/* The row's logarithm is written once all threads have read it. */
template <class A> __global__ void __launch_bounds__(THREADS) merge(const __grid_constant__ stni_attention_merge_args p)
{
    const int64_t row = blockIdx.x % p.l, element = blockIdx.x / p.l;
    A *const lse = (A *)p.lse.data + place_in(p, p.lse, element, row);
    A *const out = (A *)p.out.data + place_in(p, p.out, element, row);
    const A *const more = (const A *)p.more.data + place_in(p, p.more, element, row);
    const auto s = shares_of(*lse, ((const A *)p.more_lse.data)[place_in(p, p.more_lse, element, row)]);
    for (int64_t c = threadIdx.x; c < p.v; c += THREADS)
        out[c * p.out.col] = s.own * out[c * p.out.col] + s.more * more[c * p.more.col];
    __syncthreads();
    if (threadIdx.x == 0)
        *lse = s.lse;
}

void launch_merge(const stni_attention_merge_args &p, cudaStream_t stream)
{
    int64_t rows = p.l;
    for (int d = 0; d < p.n_batch; d++)
        rows *= p.batch[d];
    if (rows == 0)
        return;
    dispatch<float, double>(p.dtype, [&](auto element) {
        STNI_LAUNCH(merge<decltype(element)>, blocks_for(rows, 1), THREADS, stream, p);
    });
}

template <class S> __global__ void __launch_bounds__(THREADS) round(const __grid_constant__ stni_attention_round_args p)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < p.n)
        store(((S *)p.to)[i], ((const float *)p.from)[i]);
}

void launch_round(const stni_attention_round_args &p, cudaStream_t stream)
{
    dispatch<bf16, f16>(p.dtype, [&](auto element) {
        STNI_LAUNCH(round<decltype(element)>, blocks_for(p.n, THREADS), THREADS, stream, p);
    });
}

}

STNI_CUDA_KERNELS(attention_merge) = {
    STNI_CUDA_KERNEL("scaled_dot_product_attention.merge", STNI_ATTENTION_WIDE, stni_attention_merge_args,
                     launch_merge),
    STNI_CUDA_KERNEL("scaled_dot_product_attention.round", STNI_ATTENTION_NARROW, stni_attention_round_args,
                     launch_round),
    STNI_CUDA_KERNEL("scaled_dot_product_attention_backward.round", STNI_ATTENTION_NARROW, stni_attention_round_args,
                     launch_round),
    STNI_CUDA_KERNELS_END
};
