/* Attention on a CUDA device: by cuDNN where that serves (attention_library.h), else by our own kernels. Rows of at
 * most 128 elements go by tiles, in f32 (attention_forward.cuh) and in 16-bit floats (attention_mma_cuda.cu), all
 * others row by row (attention_rows.cuh), or, of f32 and f64, where there are scores enough, by products of whole
 * matrices (attention_whole_cuda.cu). */
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/attention/attention_forward.cuh"
#include "ops/attention/attention_library.h"
#include "ops/attention/attention_mma_cuda.h"
#include "ops/attention/attention_rows.cuh"
#include "ops/attention/attention_whole_cuda.h"

namespace {

/* A block each query row. */

/* The largest score of a row and the sum of its exponentials relative to that. */
struct row_sum {
    double largest, sum;
};

STNI_DEVICE row_sum joined(row_sum a, row_sum b)
{
    if (b.largest > a.largest) {
        const row_sum c = a;
        a = b;
        b = c;
    }
    a.sum += b.sum > 0 ? b.sum * exp(b.largest - a.largest) : b.sum;
    return a;
}

template <class S> STNI_DEVICE row_sum sum_row(const arguments &p, const place &at, int64_t i)
{
    row_sum mine = {-(double)INFINITY, 0};
    for (int64_t j = threadIdx.x; j < p.s; j += THREADS) {
        const double s = (double)score<S>(p, at, i, j);
        mine = s == -(double)INFINITY ? mine : joined(mine, {s, 1});
    }
    return reduce_block_to_all<THREADS>(mine, [](row_sum a, row_sum b) { return joined(a, b); });
}

template <class S> __global__ void __launch_bounds__(THREADS) attend(const __grid_constant__ arguments p)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(double, weight, THREADS);
    const int64_t i = blockIdx.x % p.l;
    int64_t index[STN_MAX_NDIM];
    index_of(p, blockIdx.x / p.l, index);
    const place at = place_of(p, index);
    const row_sum row = sum_row<S>(p, at, i);
    for (int64_t first = 0; first < p.v; first += THREADS) {
        const int64_t c = first + threadIdx.x;
        double sum = 0;
        for (int64_t keys = 0; keys < p.s; keys += THREADS) {
            const int64_t j = keys + threadIdx.x;
            weight[threadIdx.x] =
                j < p.s && row.sum != 0 ? exp((double)score<S>(p, at, i, j) - row.largest) * kept(p, at, i, j) : 0;
            __syncthreads();
            for (int k = 0; k < THREADS && keys + k < p.s && c < p.v; k++)
                sum += weight[k] * (double)load(row_of<S>(p.value, at.value, keys + k)[c * p.value.col]);
            __syncthreads();
        }
        if (c < p.v)
            put<S>(p, p.out, at.out + i * p.out.row + c * p.out.col, (A)(row.sum == 0 ? 0 : sum / row.sum));
    }
    if (threadIdx.x == 0)
        ((A *)p.lse.data)[at.lse + i * p.lse.row] = row.sum == 0 ? (A)INFINITY : (A)(row.largest + log(row.sum));
}

template <int PARTS> void launch_forward_tiles(const arguments &p, cudaStream_t stream)
{
    const int64_t tiles = (p.l + SIDE - 1) / SIDE;
    const unsigned blocks = blocks_for(rows_of_batch(p) / p.l * tiles, 1);
    typedef forward_shape<PARTS> shape;
    STNI_LAUNCH_SHARING(attend_tiles<PARTS>, sizeof(tile_memory<shape::TILES>), blocks, shape::THREADS, stream, p,
                        tiles);
}

inline void launch_forward_by_tiles(const arguments &p, cudaStream_t stream)
{
    p.e <= SIDE && p.v <= SIDE ? launch_forward_tiles<1>(p, stream) : launch_forward_tiles<2>(p, stream);
}

template <class S> void launch_forward_of(const arguments &p, cudaStream_t stream)
{
    const int64_t rows = rows_of_batch(p);
    if (rows == 0)
        return;
    if constexpr (has_tiles<S>)
        if (takes_tiles(p))
            return launch_forward_by_tiles(p, stream);
    if constexpr (has_products<S>)
        if (takes_products(p))
            return stni_attention_mma_launch(&p, stream);
    STNI_LAUNCH(attend<S>, blocks_for(rows, 1), THREADS, stream, p);
}

stn_status run_forward(stn_queue *queue, const void *given)
{
    const arguments &p = *static_cast<const arguments *>(given);
    cudaStream_t stream = static_cast<cudaStream_t>(stni_cuda_stream(queue));
    if (stni_attention_whole_serves(&p, 0))
        return stni_attention_whole(queue, &p, 0);
    if (stni_attention_library_run(queue, &p, 0) != STN_OK)
        dispatch_floating(p.dtype, [&](auto element) { launch_forward_of<decltype(element)>(p, stream); });
    return stni_cuda_launched(queue);
}

size_t workspace_of_forward(stn_queue *queue, const void *given)
{
    const arguments &p = *static_cast<const arguments *>(given);
    return stni_attention_whole_serves(&p, 0) ? stni_attention_whole_workspace(queue, &p, 0) :
                                                stni_attention_library_workspace(queue, &p, 0);
}

}

STNI_CUDA_KERNELS(attention) = {
    STNI_CUDA_KERNEL_OF_QUEUE("scaled_dot_product_attention.forward", STNI_ATTENTION_DTYPES, stni_attention_args,
                              run_forward, workspace_of_forward),
    STNI_CUDA_KERNELS_END
};
