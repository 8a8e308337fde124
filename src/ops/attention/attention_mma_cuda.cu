/* Attention of 16-bit floats on a CUDA device, by products of tensor cores (attention_mma.cuh). Of each query row its
 * lanes keep the largest score so far, the sum of exponentials relative to that, and the products with the values,
 * which are rescaled where the largest score grows; probabilities are rounded to 16 bits for these products, and not
 * for the sum.
 * Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; Dao 2023, "FlashAttention-2". */
#include "ops/attention/attention_mma_cuda.h"

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "ops/attention/attention_mma_scores.cuh"

namespace {

/* Of the two rows that a lane has parts of; the sums are of its own numbers. */
struct row_states {
    float largest[2], sum[2];
};

/* Scores, of `unit`, become exponentials relative to the largest score so far. */
template <int N, int M> STNI_DEVICE void raise(row_states &rows, float unit, product (&score)[N], product (&out)[M])
{
    float largest[2] = {-INFINITY, -INFINITY}, measure[2], before[2];
    for_numbers<N>([&](int row, int n, int half, int i) { largest[row] = fmaxf(largest[row], score[n].v[half][i]); });
    STNI_UNROLL
    for (int row = 0; row < 2; row++) {
        largest[row] = fmaxf(rows.largest[row], unit * largest_of_lanes(largest[row]));
        measure[row] = largest[row] > -INFINITY ? largest[row] : 0;
        before[row] = near_exp(rows.largest[row] - measure[row]);
        rows.largest[row] = largest[row];
        rows.sum[row] *= before[row];
    }
    for_numbers<N>([&](int row, int n, int half, int i) {
        score[n].v[half][i] = near_exp(fmaf(score[n].v[half][i], unit, -measure[row]));
        rows.sum[row] += score[n].v[half][i];
    });
    for_numbers<M>([&](int row, int n, int half, int i) { out[n].v[half][i] *= before[row]; });
}

template <class S, int N>
STNI_DEVICE void close_rows(const arguments &p, const place &at, int64_t first, const row_states &rows,
                            const product (&out)[N])
{
    float scale[2];
    STNI_UNROLL
    for (int row = 0; row < 2; row++) {
        const float sum = sum_of_lanes(rows.sum[row]);
        const int64_t i = first + product_row(2 * row);
        scale[row] = sum == 0 ? 0 : scale_of_kept(p) / sum;
        if (product_col(0, 0) == 0 && i < p.l)
            ((float *)p.lse.data)[at.lse + i * p.lse.row] = sum == 0 ? INFINITY : rows.largest[row] + logf(sum);
    }
    store_rows<S>(p.out, {at.out, p.l, p.v}, first, scale, out);
}

/* What a block works on. It lies in shared memory: not in the registers of each thread. */
struct work {
    place at;
    int64_t first, end; /* its first row; the first key that none of its rows may attend to */
};

STNI_DEVICE void find_work(const arguments &p, int64_t blocks, int rows, work *to)
{
    int64_t index[STN_MAX_NDIM];
    index_of(p, blockIdx.x / blocks, index);
    to->at = place_of(p, index);
    to->first = blockIdx.x % blocks * rows;
    to->end = keys_end(p, to->first, rows);
}

/* The next tile of keys and of values. */
template <class P>
STNI_DEVICE void copy_tiles(const arguments &p, const place &at, tiles<P> *memory, int64_t j, int turn)
{
    copy_rows<P, P::ROWS>(tile_of(memory, 0, turn), p.key, {at.key, p.s, p.e}, j);
    copy_rows<P, P::ROWS>(tile_of(memory, 1, turn), p.value, {at.value, p.s, p.v}, j);
}

template <class P> __global__ void __launch_bounds__(P::THREADS, P::BLOCKS)
attend_by_products(const __grid_constant__ arguments p, int64_t blocks)
{
    enum { N = P::ROWS / SQUARE };
    typedef typename P::element S;
    STNI_SHARED(tiles<P>, memory, 1);
    STNI_SHARED(work, of_block, 1);
    const place &at = of_block->at;
    if (threadIdx.x == 0)
        find_work(p, blocks, P::OWN, of_block);
    __syncthreads();
    own_factors<P> query;
    row_products<P> out;
    row_states rows = {{-INFINITY, -INFINITY}, {0, 0}};
    read_own_rows<P>(memory->elements, p.query, {at.query, p.l, p.e}, of_block->first, query);
    clear_products(out);
    __syncthreads();
    if (of_block->end > 0)
        copy_tiles(p, at, memory, 0, 0);
    STNI_KEEP_LOOP
    for (int64_t j = 0; j < of_block->end; j += P::ROWS) {
        const int turn = (int)(j / P::ROWS % 2);
        const corner here = {of_block->first + warp_row(), j};
        wait_for_copies();
        __syncthreads();
        if (j + P::ROWS < of_block->end)
            copy_tiles(p, at, memory, j + P::ROWS, turn ^ 1);
        if (here.i >= p.l || is_empty<false, N>(p, here))
            continue;
        product score[N];
        multiply_rows<P>(query, tile_of(memory, 0, turn), score);
        const float unit = make_scores<S, false>(p, at, here, score);
        raise(rows, unit, score, out);
        if (p.threshold != 0)
            drop<false>(p, at, here, 1, score);
        add_rows<P>(score, tile_of(memory, 1, turn), out);
    }
    close_rows<S>(p, at, of_block->first + warp_row(), rows, out);
}

template <class P> void launch_with(const arguments &p, cudaStream_t stream)
{
    const int64_t blocks = (p.l + P::OWN - 1) / P::OWN;
    STNI_LAUNCH(attend_by_products<P>, blocks_for(rows_of_batch(p) / p.l * blocks, 1), P::THREADS, stream, p, blocks);
}

template <class S> void launch_of(const arguments &p, cudaStream_t stream)
{
    if (p.e <= 64 && p.v <= 64)
        launch_with<mma_shape<S, 64, 8, 2>>(p, stream);
    else
        launch_with<mma_shape<S, 128, 8, 1>>(p, stream);
}

}

void stni_attention_mma_launch(const struct stni_attention_args *args, void *stream)
{
    dispatch<bf16, f16>(args->dtype, [&](auto element) {
        launch_of<decltype(element)>(*args, static_cast<cudaStream_t>(stream));
    });
}
