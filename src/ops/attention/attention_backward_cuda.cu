/* Gradients of attention on a CUDA device: by cuDNN where that serves (attention_library.h), else by our own kernels:
 * by tiles (attention_backward.cuh; of 16-bit floats attention_mma_backward.cuh), row by row where these do not
 * serve, and for the mask (attention_rows.cuh). */
#include "core/base/status.h"
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/attention/attention_backward.cuh"
#include "ops/attention/attention_library.h"
#include "ops/attention/attention_mma_cuda.h"
#include "ops/attention/attention_rows.cuh"
#include "ops/attention/attention_whole_cuda.h"

namespace {

/* Blocks of a processor that leave each thread as many registers as it takes. */
enum { GATHER_BLOCKS = 8 };

/* Probabilities again, and from the gradients of these the gradients of scores. */

struct entry {
    double dropped, grad_score; /* the probability times dropout's factor; the gradient of the score */
};

/* The mean of the probabilities' gradients, weighted by the probabilities: the product of the cotangent's row and the
 * result's. */
template <class S> STNI_DEVICE double mean_of(const arguments &p, const place &at, int64_t i)
{
    return (double)dot(row_of<S>(p.grad, at.grad, i), p.grad.col, row_of<S>(p.out, at.out, i), p.out.col, p.v);
}

template <class S> STNI_DEVICE entry entry_of(const arguments &p, const place &at, int64_t i, int64_t j, double mean)
{
    typedef typename computed<S>::type A;
    const double lse = (double)((const A *)p.lse.data)[at.lse + i * p.lse.row],
                 weight = exp((double)score<S>(p, at, i, j) - lse);
    const double factor = kept(p, at, i, j);
    const A by_weight =
        dot(row_of<S>(p.grad, at.grad, i), p.grad.col, row_of<S>(p.value, at.value, j), p.value.col, p.v);
    return {weight * factor, weight * ((double)by_weight * factor - mean)};
}

/* Gradients of queries: a block each row. */
template <class S> __global__ void __launch_bounds__(THREADS, GATHER_BLOCKS)
gather_grad_query(const __grid_constant__ arguments p, const __grid_constant__ batches b)
{
    STNI_SHARED(double, grad_score, THREADS);
    STNI_SHARED(element, of_batch, 1);
    const place &at = of_batch->at;
    const int64_t i = blockIdx.x % p.l, own = blockIdx.x / p.l;
    for (int64_t first = 0; first < p.e; first += THREADS) {
        const int64_t c = first + threadIdx.x;
        int64_t to = 0;
        double sum = 0;
        for (int64_t n = 0; n < b.summed; n++) {
            find_element(p, b, false, own, n, of_batch);
            const double mean = mean_of<S>(p, at, i);
            to = at.grad_query + i * p.grad_query.at.row;
            for (int64_t keys = 0; keys < p.s; keys += THREADS) {
                const int64_t j = keys + threadIdx.x;
                grad_score[threadIdx.x] = j < p.s ? entry_of<S>(p, at, i, j, mean).grad_score : 0;
                __syncthreads();
                for (int k = 0; k < THREADS && keys + k < p.s && c < p.e; k++)
                    sum += grad_score[k] * (double)load(row_of<S>(p.key, at.key, keys + k)[c * p.key.col]);
                __syncthreads();
            }
        }
        if (c < p.e)
            put<S>(p, p.grad_query.at, to + c * p.grad_query.at.col, (typename computed<S>::type)(p.scale * sum));
    }
}

/* Gradients of keys, or of values: a block each row. */
template <class S, bool OF_VALUES> __global__ void __launch_bounds__(THREADS, GATHER_BLOCKS)
gather_grad_rows(const __grid_constant__ arguments p, const __grid_constant__ batches b)
{
    STNI_SHARED(double, factor, THREADS);
    STNI_SHARED(element, of_batch, 1);
    const place &at = of_batch->at;
    const int64_t j = blockIdx.x % p.s, own = blockIdx.x / p.s, cols = OF_VALUES ? p.v : p.e;
    const stni_attention_operand &from = OF_VALUES ? p.grad : p.query,
                                 &to = OF_VALUES ? p.grad_value.at : p.grad_key.at;
    for (int64_t first = 0; first < cols; first += THREADS) {
        const int64_t c = first + threadIdx.x;
        int64_t to_at = -1;
        double sum = 0;
        for (int64_t k = 0; k < b.summed; k++) {
            find_element(p, b, true, own, k, of_batch);
            if (!of_batch->is_there)
                continue;
            const int64_t from_at = OF_VALUES ? at.grad : at.query;
            to_at = OF_VALUES ? at.grad_value : at.grad_key;
            for (int64_t rows = 0; rows < p.l; rows += THREADS) {
                const int64_t i = rows + threadIdx.x;
                const entry e = i < p.l ? entry_of<S>(p, at, i, j, mean_of<S>(p, at, i)) : entry{0, 0};
                factor[threadIdx.x] = OF_VALUES ? e.dropped : p.scale * e.grad_score;
                __syncthreads();
                for (int r = 0; r < THREADS && rows + r < p.l && c < cols; r++)
                    sum += factor[r] * (double)load(row_of<S>(from, from_at, rows + r)[c * from.col]);
                __syncthreads();
            }
        }
        if (to_at >= 0 && c < cols)
            put<S>(p, to, to_at + j * to.row + c * to.col, (typename computed<S>::type)sum);
    }
}

/* The gradient of a mask that is added: a thread each element, summed where it was broadcast, along rows and keys
 * too. */
template <class S>
__global__ void __launch_bounds__(THREADS, GATHER_BLOCKS)
    gather_grad_mask(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t own_rows,
                     int64_t own_keys)
{
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x, key = t % own_keys, row = t / own_keys % own_rows,
                  own = t / own_keys / own_rows;
    int64_t index[STN_MAX_NDIM], to = 0;
    double sum = 0;
    if (own >= b.own)
        return;
    for (int64_t k = 0; k < b.summed; k++) {
        find_index(p, b, false, own, k, index);
        const place at = place_of(p, index);
        to = at.grad_mask;
        for (int64_t i = row; i < p.l; i += own_rows) {
            const double mean = mean_of<S>(p, at, i);
            for (int64_t j = key; j < p.s; j += own_keys)
                sum += entry_of<S>(p, at, i, j, mean).grad_score;
        }
    }
    put<S>(p, p.grad_mask.at, to + row * p.grad_mask.at.row + key * p.grad_mask.at.col,
           (typename computed<S>::type)sum);
}

/* Key heads and batches that this rank's queries do not meet keep zeros. */
template <class S> void clear(const arguments &p, const stni_attention_sum &sum, cudaStream_t stream)
{
    const size_t size = p.is_wide ? sizeof(typename computed<S>::type) : sizeof(S);
    if (sum.at.data && sum.n > 0)
        cudaMemsetAsync(sum.at.data, 0, (size_t)sum.n * size, stream);
}

/* Of the gradients of queries, keys and values. */
struct batches_of_gradients {
    batches queries, keys, values;
};

template <class S> void launch_gradient_rows(const arguments &p, const batches_of_gradients &b, cudaStream_t stream)
{
    STNI_LAUNCH(gather_grad_query<S>, blocks_for(b.queries.own * p.l, 1), THREADS, stream, p, b.queries);
    STNI_LAUNCH((gather_grad_rows<S, false>), blocks_for(b.keys.own * p.s, 1), THREADS, stream, p, b.keys);
    STNI_LAUNCH((gather_grad_rows<S, true>), blocks_for(b.values.own * p.s, 1), THREADS, stream, p, b.values);
}

/* What the kernels of tiles have in common. */
template <auto KERNEL>
void launch_tiles(const arguments &p, const batches &b, int64_t rows, cudaStream_t stream)
{
    const int64_t tiles = (rows + SIDE - 1) / SIDE;
    const unsigned blocks = blocks_for(b.own * tiles, 1);
    STNI_LAUNCH_SHARING(KERNEL, sizeof(tile_memory<TILES>), blocks, BLOCK, stream, p, b, tiles);
}

inline bool batches_are_same(const batches &a, const batches &b)
{
    return memcmp(&a, &b, sizeof a) == 0; /* batches_of has filled all of them */
}

/* Queries first: the others read the means that these leave in the workspace. */
inline void launch_gradient_tiles(const arguments &p, const batches_of_gradients &b, cudaStream_t stream)
{
    const bool short_e = p.e <= SIDE, short_v = p.v <= SIDE;
    const auto of_queries = short_e ? launch_tiles<gather_tiles<1, false>> : launch_tiles<gather_tiles<2, false>>;
    const auto of_keys = short_e ? launch_tiles<gather_tiles<1, true>> : launch_tiles<gather_tiles<2, true>>;
    const auto of_values = short_v ? launch_tiles<gather_value_tiles<1>> : launch_tiles<gather_value_tiles<2>>;
    of_queries(p, b.queries, p.l, stream);
    if (short_e && short_v && batches_are_same(b.keys, b.values))
        return launch_tiles<gather_key_and_value_tiles>(p, b.keys, p.s, stream);
    of_keys(p, b.keys, p.s, stream);
    of_values(p, b.values, p.s, stream);
}

template <class S> void launch_gradients(const arguments &p, const batches_of_gradients &b, cudaStream_t stream)
{
    if constexpr (has_tiles<S>)
        if (takes_tiles(p))
            return launch_gradient_tiles(p, b, stream);
    if constexpr (has_products<S>)
        if (takes_products(p))
            return p.dtype == STN_DTYPE_BF16 ? stni_attention_mma_backward_bf16(&p, stream)
                                             : stni_attention_mma_backward_f16(&p, stream);
    launch_gradient_rows<S>(p, b, stream);
}

/* Of queries, keys and values. */
template <class S> stn_status run_gradients(stn_queue *queue, const arguments &p, cudaStream_t stream)
{
    if (stni_attention_whole_serves(&p, 1))
        return stni_attention_whole(queue, &p, 1);
    launch_gradients<S>(p, {batches_of(p, p.grad_query.at, false), batches_of(p, p.grad_key.at, true),
                            batches_of(p, p.grad_value.at, true)}, stream);
    return stni_cuda_launched(queue);
}

template <class S> stn_status run_backward_of(stn_queue *queue, const arguments &p, cudaStream_t stream)
{
    const batches masks = batches_of(p, p.grad_mask.at, false);
    const int64_t own_rows = p.grad_mask.at.row != 0 ? p.l : 1, own_keys = p.grad_mask.at.col != 0 ? p.s : 1;
    clear<S>(p, p.grad_query, stream);
    clear<S>(p, p.grad_key, stream);
    clear<S>(p, p.grad_value, stream);
    clear<S>(p, p.grad_mask, stream);
    if (rows_of_batch(p) == 0 || p.s == 0)
        return stni_cuda_launched(queue);
    STNI_TRY(run_gradients<S>(queue, p, stream));
    if (p.grad_mask.at.data)
        STNI_LAUNCH(gather_grad_mask<S>, blocks_for(masks.own * own_rows * own_keys, THREADS), THREADS, stream, p,
                    masks, own_rows, own_keys);
    return stni_cuda_launched(queue);
}

/* Keys that no row attends to have a gradient of zeros, which the library does not write. */
stn_status run_library(stn_queue *queue, const arguments &p, cudaStream_t stream)
{
    if (p.is_causal) {
        clear<bf16>(p, p.grad_key, stream);
        clear<bf16>(p, p.grad_value, stream);
    }
    return stni_attention_library_run(queue, &p, 1);
}

stn_status run_backward(stn_queue *queue, const void *given)
{
    const arguments &p = *static_cast<const arguments *>(given);
    cudaStream_t stream = static_cast<cudaStream_t>(stni_cuda_stream(queue));
    if (stni_attention_library_workspace(queue, &p, 1) > 0 && run_library(queue, p, stream) == STN_OK)
        return stni_cuda_launched(queue);
    stn_status status = STN_OK;
    dispatch_floating(p.dtype, [&](auto element) { status = run_backward_of<decltype(element)>(queue, p, stream); });
    return status;
}

/* Of our own kernels: means of the query rows, in f32. */
size_t workspace_of_backward(stn_queue *queue, const void *given)
{
    const arguments &p = *static_cast<const arguments *>(given);
    const size_t own = (size_t)rows_of_batch(p) * sizeof(float);
    const size_t other = stni_attention_whole_serves(&p, 1) ? stni_attention_whole_workspace(queue, &p, 1) :
                                                              stni_attention_library_workspace(queue, &p, 1);
    return other > own ? other : own;
}

}

STNI_CUDA_KERNELS(attention_backward) = {
    STNI_CUDA_KERNEL_OF_QUEUE("scaled_dot_product_attention_backward.backward", STNI_ATTENTION_DTYPES,
                              stni_attention_args, run_backward, workspace_of_backward),
    STNI_CUDA_KERNELS_END
};
