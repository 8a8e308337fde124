/* Gradients of attention of 16-bit floats on a CUDA device, by products of tensor cores (attention_mma.cuh). A block
 * has query rows and walks over the keys for the gradient of queries, or keys and walks over the query rows for those
 * of keys and of values: nothing is added to by two blocks. Probabilities and gradients of scores are rounded to 16
 * bits as factors. The products of each row of the cotangent with the result's, which all of them want, are computed
 * with the first. Each type is compiled by itself: together they take the compiler 40 s. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_MMA_BACKWARD_CUH
#define STNI_OPS_ATTENTION_ATTENTION_MMA_BACKWARD_CUH

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/packs.cuh"
#include "ops/attention/attention_mma_scores.cuh"

#include <type_traits>

namespace {

enum gradient { OF_QUERIES, OF_KEYS, OF_VALUES, OF_KEYS_AND_VALUES };

/* Whether a kernel makes gradients of what scores are made of, and of what probabilities are multiplied by. */
template <gradient OF> struct makes {
    static constexpr bool SCORED = OF != OF_VALUES, VALUED = OF == OF_VALUES || OF == OF_KEYS_AND_VALUES;
};

/* The log-sum-exp of query rows and the means of their probabilities' gradients, which lie beside a tile of query
 * rows. */
template <class P> struct row_numbers {
    float lse[2][P::ROWS], mean[2][P::ROWS];
};

/* Calls visit(m, row) for each of a warp's own rows that a lane has parts of. */
template <class P, class F> STNI_DEVICE void for_own_rows(F visit)
{
    STNI_UNROLL
    for (int m = 0; m < P::HIGH; m++)
        STNI_UNROLL
        for (int row = 0; row < 2; row++)
            visit(m, row);
}

template <class S> STNI_DEVICE float dot_of_words(S, uint32_t a, uint32_t b, float sum)
{
    float a0, a1, b0, b1;
    load_two(S{}, a, a0, a1);
    load_two(S{}, b, b0, b1);
    return fmaf(a1, b1, fmaf(a0, b0, sum));
}

/* The products of the warp's rows of the cotangent with the result's; the first of a row's lanes keeps them for the
 * other gradients. */
template <class P, class S>
STNI_DEVICE void make_means(const arguments &p, const place &at, S *space, int64_t first, float *means,
                            const own_factors<P> &grad, float (&mean)[P::HIGH][2])
{
    own_factors<P> out;
    read_own_rows<P>(space, p.out, {at.out, p.l, p.v}, first, out);
    for_own_rows<P>([&](int m, int row) {
        const int64_t i = first + warp_row<P>() + m * SQUARE + product_row(2 * row);
        float sum = 0;
        STNI_UNROLL
        for (int k = 0; k < P::SQUARES; k++) {
            const left_factor a = factor_of<P>(grad, m, k), b = factor_of<P>(out, m, k);
            sum = dot_of_words(S{}, a.word[row], b.word[row], sum);
            sum = dot_of_words(S{}, a.word[row + 2], b.word[row + 2], sum);
        }
        mean[m][row] = sum_of_lanes(sum);
        if (product_col(0, 0) == 0 && i < p.l)
            means[i] = mean[m][row];
    });
}

/* Of query rows that a warp has as its own. */
template <class P>
STNI_DEVICE void read_lse(const arguments &p, const place &at, int64_t own, float (&lse)[P::HIGH][2])
{
    for_own_rows<P>([&](int m, int row) {
        const int64_t i = own + m * SQUARE + product_row(2 * row);
        lse[m][row] = i < p.l ? ((const float *)p.lse.data)[at.lse + i * p.lse.row] : INFINITY;
    });
}

/* The other rows: of which scores are made, and which meet values or cotangents. */
template <bool BY_KEYS> STNI_DEVICE const stni_attention_operand &scored_of(const arguments &p)
{
    return BY_KEYS ? p.query : p.key;
}

template <bool BY_KEYS> STNI_DEVICE const stni_attention_operand &valued_of(const arguments &p)
{
    return BY_KEYS ? p.grad : p.value;
}

template <bool BY_KEYS> STNI_DEVICE section scored_rows(const arguments &p, const place &at)
{
    return BY_KEYS ? section{at.query, p.l, p.e} : section{at.key, p.s, p.e};
}

template <bool BY_KEYS> STNI_DEVICE section valued_rows(const arguments &p, const place &at)
{
    return BY_KEYS ? section{at.grad, p.l, p.v} : section{at.value, p.s, p.v};
}

/* The next tile of the other rows: keys and values, or queries and cotangents with their numbers. Query rows that
 * there are not have zeros throughout, and add nothing. */
template <class P, bool BY_KEYS>
STNI_DEVICE void copy_tiles(const arguments &p, const place &at, const float *means, tiles<P> *memory,
                            const places_in_tiles<P> &places, row_numbers<P> *numbers, int64_t first, int turn,
                            source<P> (&next)[2])
{
    copy_tile<P>(memory, places, 0, turn, scored_of<BY_KEYS>(p), scored_rows<BY_KEYS>(p, at), first, next[0]);
    copy_tile<P>(memory, places, 1, turn, valued_of<BY_KEYS>(p), valued_rows<BY_KEYS>(p, at), first, next[1]);
    if (BY_KEYS && threadIdx.x < P::ROWS) {
        const int64_t i = first + threadIdx.x;
        const float *const lse = (const float *)p.lse.data + at.lse;
        const bool is_there = i < p.l;
        copy_late<4>(address_in_shared(&numbers->lse[turn][threadIdx.x]), 0, lse + (is_there ? i * p.lse.row : 0),
                     is_there);
        copy_late<4>(address_in_shared(&numbers->mean[turn][threadIdx.x]), 0, means + (is_there ? i : 0), is_there);
    }
}

/* What a warp computes with: factors of its own rows (queries and cotangents, or keys and values), numbers of its own
 * query rows. */
template <class P> struct own_rows {
    own_factors<P> scored, valued;
    float lse[P::HIGH][2], mean[P::HIGH][2];
};

/* Numbers of the query row of a number of a product. */
template <bool BY_KEYS>
STNI_DEVICE float number_of(const float (&own)[2], const float *others, int row, int n, int half, int i)
{
    return BY_KEYS ? others[n * SQUARE + product_col(half, i)] : own[row];
}

/* Products of 16 own rows with other rows become probabilities. */
template <class S, bool BY_KEYS, bool IS_PLAIN, int N>
STNI_DEVICE void make_weights(const arguments &p, const place &at, const corner &here, const float (&own)[2],
                              const float *others, product (&weight)[N])
{
    const float unit = IS_PLAIN ? (float)p.scale : make_scores<S, BY_KEYS>(p, at, here, weight);
    for_numbers<N>([&](int row, int n, int half, int i) {
        const float lse = number_of<BY_KEYS>(own, others, row, n, half, i);
        weight[n].v[half][i] = near_exp_of<IS_PLAIN>(weight[n].v[half][i], unit, lse);
    });
}

/* Gradients of probabilities become those of scores. */
template <bool BY_KEYS, int N>
STNI_DEVICE void make_grads(const float (&own)[2], const float *others, const product (&weight)[N], product (&grad)[N])
{
    for_numbers<N>([&](int row, int n, int half, int i) {
        const float mean = number_of<BY_KEYS>(own, others, row, n, half, i);
        grad[n].v[half][i] = weight[n].v[half][i] * (grad[n].v[half][i] - mean);
    });
}

/* Where the squares of a warp's own rows begin, one below another. */
template <bool BY_KEYS> STNI_DEVICE corner below(const corner &first, int squares)
{
    return BY_KEYS ? corner{first.i, first.j + squares * SQUARE} : corner{first.i + squares * SQUARE, first.j};
}

/* Sums of the gradients that a kernel makes; the compiler drops those that it does not. */
template <class P> struct gradient_sums {
    row_products<P> scored, valued;
};

/* What other rows' probabilities give to values. */
template <class P, bool IS_PLAIN, int M, int N>
STNI_DEVICE void add_weights(const arguments &p, const place &at, const corner &here, const product (&weight)[M][N],
                             shared_address cotangents, row_products<P> &sum)
{
    product left[M][N];
    STNI_UNROLL
    for (int m = 0; m < M; m++) {
        STNI_UNROLL
        for (int n = 0; n < N; n++)
            left[m][n] = weight[m][n];
        if (!IS_PLAIN && p.threshold != 0)
            drop<true>(p, at, below<true>(here, m), 1, left[m]);
    }
    add_rows<P>(left, cotangents, sum);
}

/* Adds to gradients what P::AT_ONCE other rows give; they begin at `tile`, and `lse` and `mean` are theirs. */
template <class P, gradient OF, bool IS_PLAIN>
STNI_DEVICE void add_others(const arguments &p, const place &at, const corner &here, const own_rows<P> &own,
                            const places_in_tiles<P> &tile, const float *lse, const float *mean, gradient_sums<P> &sum)
{
    enum { M = P::HIGH, N = P::AT_ONCE / SQUARE };
    constexpr bool BY_KEYS = OF != OF_QUERIES;
    typedef typename P::element S;
    product weight[M][N], grad[M][N];
    multiply_rows<P>(own.scored, tile.transposes, weight);
    STNI_UNROLL
    for (int m = 0; m < M; m++)
        make_weights<S, BY_KEYS, IS_PLAIN>(p, at, below<BY_KEYS>(here, m), own.lse[m], lse, weight[m]);
    if (makes<OF>::VALUED)
        add_weights<P, IS_PLAIN>(p, at, here, weight, tile.squares + bytes_to<P>(1, 0, 0), sum.valued);
    if (!makes<OF>::SCORED)
        return;
    multiply_rows<P>(own.valued, tile.transposes + bytes_to<P>(1, 0, 0), grad);
    STNI_UNROLL
    for (int m = 0; m < M; m++) {
        if (!IS_PLAIN && p.threshold != 0)
            drop<BY_KEYS>(p, at, below<BY_KEYS>(here, m), scale_of_kept(p), grad[m]);
        make_grads<BY_KEYS>(own.mean[m], mean, weight[m], grad[m]);
    }
    add_rows<P>(grad, tile.squares, sum.scored);
}

/* The walk of a block over the other rows of an element of the batch. */
template <class P, gradient OF>
STNI_DEVICE void walk(const arguments &p, const place &at, const float *means, tiles<P> *memory,
                      row_numbers<P> *numbers, int64_t first, const own_rows<P> &own, gradient_sums<P> &sum)
{
    enum { ROWS = P::ROWS };
    constexpr bool BY_KEYS = OF != OF_QUERIES;
    constexpr int rows = BY_KEYS ? (int)P::AT_ONCE : (int)P::WARP_ROWS; /* of queries */
    const int64_t mine = first + warp_row<P>(), begin = BY_KEYS ? rows_begin(p, first, ROWS) : 0;
    const int64_t end = BY_KEYS ? p.l : keys_end(p, first, P::OWN);
    const places_in_tiles<P> places = places_in(memory);
    source<P> next[2] = {source_of<P>(scored_of<BY_KEYS>(p), scored_rows<BY_KEYS>(p, at), begin),
                         source_of<P>(valued_of<BY_KEYS>(p), valued_rows<BY_KEYS>(p, at), begin)};
    int turn = 0;
    __syncthreads();
    if (begin < end)
        copy_tiles<P, BY_KEYS>(p, at, means, memory, places, numbers, begin, 0, next);
    STNI_KEEP_LOOP
    for (int64_t other = begin; other < end; other += ROWS, turn ^= 1) {
        wait_for_copies();
        __syncthreads();
        if (other + ROWS < end)
            copy_tiles<P, BY_KEYS>(p, at, means, memory, places, numbers, other + ROWS, turn ^ 1, next);
        if (mine >= (BY_KEYS ? p.s : p.l))
            continue;
        STNI_KEEP_LOOP
        for (int r = 0; r < ROWS && other + r < end; r += P::AT_ONCE) {
            const corner here = BY_KEYS ? corner{other + r, mine} : corner{mine, other + r};
            if (is_beyond(p, here.j, here.i + rows - 1))
                continue;
            const int skipped = bytes_to<P>(0, turn, r);
            const places_in_tiles<P> tile = {places.squares + skipped, places.transposes + skipped, places.packs};
            const float *const lse = numbers->lse[turn] + r, *const mean = numbers->mean[turn] + r;
            if (is_plain(p, here, BY_KEYS ? (int)P::WARP_ROWS : (int)P::AT_ONCE))
                add_others<P, OF, true>(p, at, here, own, tile, lse, mean, sum);
            else
                add_others<P, OF, false>(p, at, here, own, tile, lse, mean, sum);
        }
    }
}

template <class S, class P>
STNI_DEVICE void store_sums_as(const stni_attention_operand &o, const section &of, int64_t first, float scale,
                               const row_products<P> &sum)
{
    STNI_UNROLL
    for (int m = 0; m < P::HIGH; m++)
        store_rows<S>(o, of, first + warp_row<P>() + m * SQUARE, {scale, scale}, sum[m]);
}

template <class P>
STNI_DEVICE void store_sums(const arguments &p, const stni_attention_operand &o, const section &of, int64_t first,
                            float scale, const row_products<P> &sum)
{
    if (p.is_wide)
        store_sums_as<float, P>(o, of, first, scale, sum);
    else
        store_sums_as<typename P::element, P>(o, of, first, scale, sum);
}

template <class P, gradient OF> __global__ void __launch_bounds__(P::THREADS, P::BLOCKS)
gather_by_products(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t blocks)
{
    constexpr bool BY_KEYS = OF != OF_QUERIES;
    typedef typename P::element S;
    STNI_SHARED_BY_LAUNCH(tiles<P>, memory);
    STNI_SHARED(row_numbers<P>, numbers, 1);
    STNI_SHARED(element, of_batch, 1);
    const place &at = of_batch->at;
    S *const scored = own_space(memory, 0), *const valued = own_space(memory, 1);
    const int64_t first = blockIdx.x % blocks * P::OWN, gathered = blockIdx.x / blocks;
    int64_t scored_at = -1, valued_at = -1;
    gradient_sums<P> sum;
    clear_products(sum.scored);
    clear_products(sum.valued);
    STNI_KEEP_LOOP
    for (int64_t k = 0; k < b.summed; k++) {
        find_element(p, b, BY_KEYS, gathered, k, of_batch);
        if (!of_batch->is_there)
            continue;
        own_rows<P> own;
        if (OF == OF_QUERIES) {
            read_own_rows<P>(valued, p.grad, {at.grad, p.l, p.v}, first, own.valued);
            make_means<P>(p, at, scored, first, of_batch->means, own.valued, own.mean);
            read_own_rows<P>(scored, p.query, {at.query, p.l, p.e}, first, own.scored);
            read_lse<P>(p, at, first + warp_row<P>(), own.lse);
        } else {
            read_own_rows<P>(scored, p.key, {at.key, p.s, p.e}, first, own.scored);
            if (makes<OF>::SCORED)
                read_own_rows<P>(valued, p.value, {at.value, p.s, p.v}, first, own.valued);
        }
        scored_at = BY_KEYS ? at.grad_key : at.grad_query;
        valued_at = at.grad_value;
        walk<P, OF>(p, at, of_batch->means, memory, numbers, first, own, sum);
    }
    if (makes<OF>::SCORED && scored_at >= 0)
        store_sums<P>(p, BY_KEYS ? p.grad_key.at : p.grad_query.at, {scored_at, BY_KEYS ? p.s : p.l, p.e}, first,
                      (float)p.scale, sum.scored);
    if (makes<OF>::VALUED && valued_at >= 0)
        store_sums<P>(p, p.grad_value.at, {valued_at, p.s, p.v}, first, scale_of_kept(p), sum.valued);
}

template <class P, gradient OF>
void launch_gradient(const arguments &p, const stni_attention_operand &to, cudaStream_t stream)
{
    const batches b = batches_of(p, to, OF != OF_QUERIES);
    const int64_t blocks = ((OF == OF_QUERIES ? p.l : p.s) + P::OWN - 1) / P::OWN;
    STNI_LAUNCH_SHARING((gather_by_products<P, OF>), sizeof(tiles<P>), blocks_for(b.own * blocks, 1), P::THREADS,
                        stream, p, b, blocks);
}

/* Queries first: the others read the means that these leave in the workspace. Keys and values are gathered together
 * where they have places of their own along the same dims, by BOTH_P if there is such a shape. */
template <class P, class VALUES_P, class BOTH_P> void launch_gradients(const arguments &p, cudaStream_t stream)
{
    const batches of_keys = batches_of(p, p.grad_key.at, true), of_values = batches_of(p, p.grad_value.at, true);
    launch_gradient<P, OF_QUERIES>(p, p.grad_query.at, stream);
    if constexpr (!std::is_void<BOTH_P>::value) {
        if (memcmp(&of_keys, &of_values, sizeof of_keys) == 0) {
            launch_gradient<BOTH_P, OF_KEYS_AND_VALUES>(p, p.grad_key.at, stream);
            return;
        }
    }
    launch_gradient<P, OF_KEYS>(p, p.grad_key.at, stream);
    launch_gradient<VALUES_P, OF_VALUES>(p, p.grad_value.at, stream);
}

/* Of one type's gradients. */
template <class S> void launch_of(const arguments &p, cudaStream_t stream)
{
    if (p.e <= 64 && p.v <= 64)
        launch_gradients<mma_shape<S, 64, 2, 4, 2, 32>, mma_shape<S, 64, 2, 4, 2, 32>,
                         mma_shape<S, 64, 2, 4, 2, 32, 2>>(p, stream);
    else
        launch_gradients<mma_shape<S, 128, 1, 8, 1, 32>, mma_shape<S, 128, 2, 4, 2, 32, 1>, void>(p, stream);
}

}

#endif
