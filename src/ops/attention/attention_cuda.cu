/* Attention on a CUDA device. Rows of at most 128 elements, in f32 and 16-bit floats, go by tiles
 * (attention_forward.cuh, attention_backward.cuh), all others and the gradient of a mask row by row.
 *
 * There, a block of threads computes the probabilities of THREADS keys (of a query row) or of THREADS query rows (of a
 * key) at a time, keeps them in shared memory, and multiplies them into rows, a thread each column. No scores lie in
 * memory, and no number is added to by two blocks, so that results have the same bits in every run.
 *
 * Scores are computed in the type of arithmetic, sums over keys and rows in f64. */
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/attention/attention_backward.cuh"
#include "ops/attention/attention_forward.cuh"
#include "ops/attention/attention_place.cuh"

#include <math.h>

namespace {

enum { THREADS = 128 };

template <class S> STNI_DEVICE const S *row_of(const stni_attention_operand &o, int64_t at, int64_t row)
{
    return (const S *)o.data + at + row * o.row;
}

template <class S> STNI_DEVICE typename computed<S>::type dot(const S *a, int64_t a_col, const S *b, int64_t b_col, int64_t n)
{
    typename computed<S>::type sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += load(a[i * a_col]) * load(b[i * b_col]);
    return sum;
}

/* The score of query row i and key row j; -infinity where i may not attend to j. */
template <class S> STNI_DEVICE typename computed<S>::type score(const arguments &p, const place &at, int64_t i, int64_t j)
{
    typedef typename computed<S>::type A;
    const int64_t mask = at.mask + i * p.mask.row + j * p.mask.col;
    if ((p.is_causal && j > p.row_offset + i) || (p.mask_kind == STNI_ATTENTION_ALLOWS && !((const uint8_t *)p.mask.data)[mask]))
        return -(A)INFINITY;
    const A product = (A)p.scale * dot(row_of<S>(p.query, at.query, i), p.query.col, row_of<S>(p.key, at.key, j), p.key.col, p.e);
    return p.mask_kind == STNI_ATTENTION_ADDS ? product + load(((const S *)p.mask.data)[mask]) : product;
}

/* Forward: a block each query row. */

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
    S *out = (S *)p.out.data + at.out + i * p.out.row;
    for (int64_t first = 0; first < p.v; first += THREADS) {
        const int64_t c = first + threadIdx.x;
        double sum = 0;
        for (int64_t keys = 0; keys < p.s; keys += THREADS) {
            const int64_t j = keys + threadIdx.x;
            weight[threadIdx.x] = j < p.s && row.sum != 0 ? exp((double)score<S>(p, at, i, j) - row.largest) * kept(p, at, i, j) : 0;
            __syncthreads();
            for (int k = 0; k < THREADS && keys + k < p.s && c < p.v; k++)
                sum += weight[k] * (double)load(row_of<S>(p.value, at.value, keys + k)[c * p.value.col]);
            __syncthreads();
        }
        if (c < p.v)
            store(out[c * p.out.col], (A)(row.sum == 0 ? 0 : sum / row.sum));
    }
    if (threadIdx.x == 0)
        ((A *)p.lse.data)[at.lse + i * p.lse.row] = row.sum == 0 ? (A)INFINITY : (A)(row.largest + log(row.sum));
}

/* Backward: probabilities again, and from the gradients of these the gradients of scores. */

struct entry {
    double dropped, grad_score; /* the probability times dropout's factor; the gradient of the score */
};

/* The mean of the probabilities' gradients, weighted by the probabilities: the product of the cotangent's row and the result's. */
template <class S> STNI_DEVICE double mean_of(const arguments &p, const place &at, int64_t i)
{
    return (double)dot(row_of<S>(p.grad, at.grad, i), p.grad.col, row_of<S>(p.out, at.out, i), p.out.col, p.v);
}

template <class S> STNI_DEVICE entry entry_of(const arguments &p, const place &at, int64_t i, int64_t j, double mean)
{
    typedef typename computed<S>::type A;
    const double lse = (double)((const A *)p.lse.data)[at.lse + i * p.lse.row], weight = exp((double)score<S>(p, at, i, j) - lse);
    const double factor = kept(p, at, i, j);
    const A by_weight = dot(row_of<S>(p.grad, at.grad, i), p.grad.col, row_of<S>(p.value, at.value, j), p.value.col, p.v);
    return {weight * factor, weight * ((double)by_weight * factor - mean)};
}

/* Gradients of queries: a block each row. */
template <class S> __global__ void __launch_bounds__(THREADS)
gather_grad_query(const __grid_constant__ arguments p, const __grid_constant__ batches b)
{
    STNI_SHARED(double, grad_score, THREADS);
    const int64_t i = blockIdx.x % p.l, own = blockIdx.x / p.l;
    for (int64_t first = 0; first < p.e; first += THREADS) {
        const int64_t c = first + threadIdx.x;
        int64_t index[STN_MAX_NDIM], to = 0;
        double sum = 0;
        for (int64_t n = 0; n < b.summed; n++) {
            find_index(p, b, false, own, n, index);
            const place at = place_of(p, index);
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
            store(((S *)p.grad_query.at.data)[to + c * p.grad_query.at.col],
                  (typename computed<S>::type)(p.scale * sum));
    }
}

/* Gradients of keys, or of values: a block each row. */
template <class S, bool OF_VALUES> __global__ void __launch_bounds__(THREADS)
gather_grad_rows(const __grid_constant__ arguments p, const __grid_constant__ batches b)
{
    STNI_SHARED(double, factor, THREADS);
    const int64_t j = blockIdx.x % p.s, own = blockIdx.x / p.s, cols = OF_VALUES ? p.v : p.e;
    const stni_attention_operand &from = OF_VALUES ? p.grad : p.query, &to = OF_VALUES ? p.grad_value.at : p.grad_key.at;
    for (int64_t first = 0; first < cols; first += THREADS) {
        const int64_t c = first + threadIdx.x;
        int64_t index[STN_MAX_NDIM], to_at = -1;
        double sum = 0;
        for (int64_t k = 0; k < b.summed; k++) {
            if (!find_index(p, b, true, own, k, index))
                continue;
            const place at = place_of(p, index);
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
            store(((S *)to.data)[to_at + j * to.row + c * to.col], (typename computed<S>::type)sum);
    }
}

/* The gradient of a mask that is added: a thread each element, summed where it was broadcast, along rows and keys too. */
template <class S> __global__ void __launch_bounds__(THREADS)
gather_grad_mask(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t own_rows, int64_t own_keys)
{
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x, key = t % own_keys, row = t / own_keys % own_rows, own = t / own_keys / own_rows;
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
    S &element = ((S *)p.grad_mask.at.data)[to + row * p.grad_mask.at.row + key * p.grad_mask.at.col];
    store(element, (typename computed<S>::type)sum);
}

/* Key heads and batches that this rank's queries do not meet keep zeros. */
template <class S> void clear(const stni_attention_sum &sum, cudaStream_t stream)
{
    if (sum.at.data && sum.n > 0)
        cudaMemsetAsync(sum.at.data, 0, (size_t)sum.n * sizeof(S), stream);
}

/* Whether tiles in f32 serve: f64 has none, and longer rows would not stay in registers. */
template <class S> constexpr bool has_tiles = sizeof(typename computed<S>::type) == sizeof(float);

template <class S> bool takes_tiles(const arguments &p)
{
    return has_tiles<S> && p.e <= 2 * SIDE && p.v <= 2 * SIDE;
}

template <class S> void launch_forward_tiles(const arguments &p, cudaStream_t stream)
{
    const int64_t tiles = (p.l + SIDE - 1) / SIDE, blocks = rows_of_batch(p) / p.l * tiles;
    if (p.v <= SIDE)
        STNI_LAUNCH((attend_tiles<S, 1>), blocks_for(blocks, 1), TILE_THREADS, stream, p, tiles);
    else
        STNI_LAUNCH((attend_tiles<S, 2>), blocks_for(blocks, 1), TILE_THREADS, stream, p, tiles);
}

template <class S> void launch_forward_of(const arguments &p, cudaStream_t stream)
{
    const int64_t rows = rows_of_batch(p);
    if (rows == 0)
        return;
    if constexpr (has_tiles<S>)
        if (takes_tiles<S>(p))
            return launch_forward_tiles<S>(p, stream);
    STNI_LAUNCH(attend<S>, blocks_for(rows, 1), THREADS, stream, p);
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

template <class S, int PARTS> void launch_query_tiles(const arguments &p, const batches &b, cudaStream_t stream)
{
    const int64_t tiles = (p.l + SIDE - 1) / SIDE;
    STNI_LAUNCH((gather_query_tiles<S, PARTS>), blocks_for(b.own * tiles, 1), TILE_THREADS, stream, p, b, tiles);
}

template <class S, int PARTS, bool OF_VALUES>
void launch_key_tiles(const arguments &p, const batches &b, cudaStream_t stream)
{
    const int64_t tiles = (p.s + SIDE - 1) / SIDE;
    const unsigned blocks = blocks_for(b.own * tiles, 1);
    STNI_LAUNCH((gather_key_tiles<S, PARTS, OF_VALUES>), blocks, TILE_THREADS, stream, p, b, tiles);
}

/* Queries first: the others read the means that these leave in the workspace. */
template <class S> void launch_gradient_tiles(const arguments &p, const batches_of_gradients &b, cudaStream_t stream)
{
    p.e <= SIDE ? launch_query_tiles<S, 1>(p, b.queries, stream) : launch_query_tiles<S, 2>(p, b.queries, stream);
    p.e <= SIDE ? launch_key_tiles<S, 1, false>(p, b.keys, stream) : launch_key_tiles<S, 2, false>(p, b.keys, stream);
    p.v <= SIDE ? launch_key_tiles<S, 1, true>(p, b.values, stream) : launch_key_tiles<S, 2, true>(p, b.values, stream);
}

template <class S> void launch_gradients(const arguments &p, const batches_of_gradients &b, cudaStream_t stream)
{
    if constexpr (has_tiles<S>)
        if (takes_tiles<S>(p))
            return launch_gradient_tiles<S>(p, b, stream);
    launch_gradient_rows<S>(p, b, stream);
}

template <class S> void launch_backward_of(const arguments &p, cudaStream_t stream)
{
    const int64_t rows = rows_of_batch(p);
    const batches queries = batches_of(p, p.grad_query.at, false), keys = batches_of(p, p.grad_key.at, true);
    const batches values = batches_of(p, p.grad_value.at, true);
    const batches masks = batches_of(p, p.grad_mask.at, false);
    const int64_t own_rows = p.grad_mask.at.row != 0 ? p.l : 1, own_keys = p.grad_mask.at.col != 0 ? p.s : 1;
    clear<S>(p.grad_query, stream);
    clear<S>(p.grad_key, stream);
    clear<S>(p.grad_value, stream);
    clear<S>(p.grad_mask, stream);
    if (rows == 0 || p.s == 0)
        return;
    launch_gradients<S>(p, {queries, keys, values}, stream);
    if (p.grad_mask.at.data)
        STNI_LAUNCH(gather_grad_mask<S>, blocks_for(masks.own * own_rows * own_keys, THREADS), THREADS, stream, p, masks, own_rows, own_keys);
}

void launch_forward(const arguments &p, cudaStream_t stream)
{
    dispatch_floating(p.dtype, [&](auto element) { launch_forward_of<decltype(element)>(p, stream); });
}

void launch_backward(const arguments &p, cudaStream_t stream)
{
    dispatch_floating(p.dtype, [&](auto element) { launch_backward_of<decltype(element)>(p, stream); });
}

/* Of gradients: means of the query rows, in f32. */
size_t workspace_of_backward(stn_queue *, const void *args)
{
    return (size_t)rows_of_batch(*static_cast<const arguments *>(args)) * sizeof(float);
}

}

STNI_CUDA_KERNELS(attention) = {
    STNI_CUDA_KERNEL("scaled_dot_product_attention.forward", STNI_ATTENTION_DTYPES, stni_attention_args, launch_forward),
    STNI_CUDA_KERNEL_WITH("scaled_dot_product_attention_backward.backward", STNI_ATTENTION_DTYPES, stni_attention_args,
                          launch_backward, workspace_of_backward),
    STNI_CUDA_KERNELS_END
};
