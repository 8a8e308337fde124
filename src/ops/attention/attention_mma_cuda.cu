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
template <bool IS_PLAIN, int N, int M>
STNI_DEVICE void raise(row_states &rows, float unit, product (&score)[N], product (&out)[M])
{
    float largest[2] = {-INFINITY, -INFINITY}, measure[2], before[2];
    for_numbers<N>([&](int row, int n, int half, int i) { largest[row] = fmaxf(largest[row], score[n].v[half][i]); });
    STNI_UNROLL
    for (int row = 0; row < 2; row++) {
        largest[row] = fmaxf(rows.largest[row], unit * largest_of_lanes(largest[row]));
        measure[row] = largest[row] > -INFINITY ? largest[row] : 0;
        before[row] = near_exp2((rows.largest[row] - measure[row]) * LOG2_E);
        rows.largest[row] = largest[row];
        rows.sum[row] *= before[row];
    }
    for_numbers<N>([&](int row, int n, int half, int i) {
        score[n].v[half][i] = near_exp_of<IS_PLAIN>(score[n].v[half][i], unit, measure[row]);
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
    if (p.is_wide)
        store_rows<float>(p.out, {at.out, p.l, p.v}, first, scale, out);
    else
        store_rows<S>(p.out, {at.out, p.l, p.v}, first, scale, out);
}

/* Adds to the result what P::AT_ONCE keys give. */
template <class P, bool IS_PLAIN>
STNI_DEVICE void add_keys(const arguments &p, const place &at, const corner &first, const own_factors<P> &query,
                          shared_address keys, shared_address values, row_states (&rows)[P::HIGH],
                          row_products<P> &out)
{
    typedef typename P::element S;
    product score[P::HIGH][P::AT_ONCE / SQUARE];
    multiply_rows<P>(query, keys, score);
    STNI_UNROLL
    for (int m = 0; m < P::HIGH; m++) {
        const corner here = {first.i + m * SQUARE, first.j};
        const float unit = IS_PLAIN ? (float)p.scale : make_scores<S, false>(p, at, here, score[m]);
        raise<IS_PLAIN>(rows[m], unit, score[m], out[m]);
        if (!IS_PLAIN && p.threshold != 0)
            drop<false>(p, at, here, 1, score[m]);
    }
    add_rows<P>(score, values, out);
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
STNI_DEVICE void copy_tiles(const arguments &p, const place &at, tiles<P> *memory, const places_in_tiles<P> &places,
                            int64_t j, int turn, source<P> (&next)[2])
{
    copy_tile<P>(memory, places, 0, turn, p.key, {at.key, p.s, p.e}, j, next[0]);
    copy_tile<P>(memory, places, 1, turn, p.value, {at.value, p.s, p.v}, j, next[1]);
}

template <class P> __global__ void __launch_bounds__(P::THREADS, P::BLOCKS)
attend_by_products(const __grid_constant__ arguments p, int64_t blocks)
{
    typedef typename P::element S;
    STNI_SHARED_BY_LAUNCH(tiles<P>, memory);
    STNI_SHARED(work, of_block, 1);
    const place &at = of_block->at;
    if (threadIdx.x == 0)
        find_work(p, blocks, P::OWN, of_block);
    __syncthreads();
    own_factors<P> query;
    row_products<P> out;
    row_states rows[P::HIGH];
    read_own_rows<P>(own_space(memory, 0), p.query, {at.query, p.l, p.e}, of_block->first, query);
    clear_products(out);
    STNI_UNROLL
    for (int m = 0; m < P::HIGH; m++)
        rows[m] = {{-INFINITY, -INFINITY}, {0, 0}};
    const places_in_tiles<P> places = places_in(memory);
    source<P> next[2] = {source_of<P>(p.key, {at.key, p.s, p.e}, 0), source_of<P>(p.value, {at.value, p.s, p.v}, 0)};
    __syncthreads();
    if (of_block->end > 0)
        copy_tiles(p, at, memory, places, 0, 0, next);
    STNI_KEEP_LOOP
    for (int64_t j = 0; j < of_block->end; j += P::ROWS) {
        const int turn = (int)(j / P::ROWS % 2);
        const int64_t mine = of_block->first + warp_row<P>();
        wait_for_copies();
        __syncthreads();
        if (j + P::ROWS < of_block->end)
            copy_tiles(p, at, memory, places, j + P::ROWS, turn ^ 1, next);
        STNI_KEEP_LOOP
        for (int r = 0; r < P::ROWS && mine < p.l && !is_beyond(p, j + r, mine + P::WARP_ROWS - 1); r += P::AT_ONCE) {
            const corner here = {mine, j + r};
            const shared_address keys = places.transposes + bytes_to<P>(0, turn, r);
            const shared_address values = places.squares + bytes_to<P>(1, turn, r);
            if (is_plain(p, here, P::AT_ONCE))
                add_keys<P, true>(p, at, here, query, keys, values, rows, out);
            else
                add_keys<P, false>(p, at, here, query, keys, values, rows, out);
        }
    }
    STNI_UNROLL
    for (int m = 0; m < P::HIGH; m++)
        close_rows<S>(p, at, of_block->first + warp_row<P>() + m * SQUARE, rows[m], out[m]);
}

template <class P> void launch_with(const arguments &p, cudaStream_t stream)
{
    const int64_t blocks = (p.l + P::OWN - 1) / P::OWN;
    STNI_LAUNCH_SHARING(attend_by_products<P>, sizeof(tiles<P>), blocks_for(rows_of_batch(p) / p.l * blocks, 1),
                        P::THREADS, stream, p, blocks);
}

template <class S> void launch_of(const arguments &p, cudaStream_t stream)
{
    if (p.e <= 64 && p.v <= 64)
        launch_with<mma_shape<S, 64, 2, 4, 2, 64>>(p, stream);
    else
        launch_with<mma_shape<S, 128, 2, 4, 2, 32, 1>>(p, stream);
}

}

void stni_attention_mma_launch(const struct stni_attention_args *args, void *stream)
{
    dispatch<bf16, f16>(args->dtype, [&](auto element) {
        launch_of<decltype(element)>(*args, static_cast<cudaStream_t>(stream));
    });
}
