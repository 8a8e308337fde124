/* Gradients of attention of 16-bit floats on a CUDA device, by products of tensor cores (attention_mma.cuh). A block
 * has query rows and walks over the keys for the gradient of queries, or keys and walks over the query rows for those
 * of keys and of values: nothing is added to by two blocks. Probabilities and gradients of scores are rounded to 16
 * bits as factors. The products of each row of the cotangent with the result's, which all of them want, are computed
 * with the first. */
#include "ops/attention/attention_mma_cuda.h"

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/packs.cuh"
#include "ops/attention/attention_mma_scores.cuh"

namespace {

enum gradient { OF_QUERIES, OF_KEYS, OF_VALUES };

/* Other rows that a warp takes at once: more would not stay in registers. */
enum { AT_ONCE = 2 * SQUARE };

/* The log-sum-exp of query rows and the means of their probabilities' gradients, which lie beside a tile of query
 * rows. */
template <class P> struct row_numbers {
    float lse[2][P::ROWS], mean[2][P::ROWS];
};

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
                            const own_factors<P> &grad, float (&mean)[2])
{
    own_factors<P> out;
    read_own_rows<P>(space, p.out, {at.out, p.l, p.v}, first, out);
    STNI_UNROLL
    for (int row = 0; row < 2; row++) {
        const int64_t i = first + warp_row() + product_row(2 * row);
        float sum = 0;
        STNI_UNROLL
        for (int k = 0; k < P::SQUARES; k++) {
            sum = dot_of_words(S{}, grad[k].word[row], out[k].word[row], sum);
            sum = dot_of_words(S{}, grad[k].word[row + 2], out[k].word[row + 2], sum);
        }
        mean[row] = sum_of_lanes(sum);
        if (product_col(0, 0) == 0 && i < p.l)
            means[i] = mean[row];
    }
}

/* Of query rows that a warp has as its own: what a lane needs of its two. */
STNI_DEVICE void read_lse(const arguments &p, const place &at, int64_t own, float (&lse)[2])
{
    STNI_UNROLL
    for (int row = 0; row < 2; row++) {
        const int64_t i = own + product_row(2 * row);
        lse[row] = i < p.l ? ((const float *)p.lse.data)[at.lse + i * p.lse.row] : INFINITY;
    }
}

/* The next tile of the other rows: keys and values, or queries and cotangents with their numbers. Query rows that
 * there are not have zeros throughout, and add nothing. */
template <class P, bool BY_KEYS>
STNI_DEVICE void copy_tiles(const arguments &p, const place &at, const float *means, tiles<P> *memory,
                            row_numbers<P> *numbers, int64_t first, int turn)
{
    if (!BY_KEYS) {
        copy_rows<P, P::ROWS>(tile_of(memory, 0, turn), p.key, {at.key, p.s, p.e}, first);
        copy_rows<P, P::ROWS>(tile_of(memory, 1, turn), p.value, {at.value, p.s, p.v}, first);
        return;
    }
    copy_rows<P, P::ROWS>(tile_of(memory, 0, turn), p.query, {at.query, p.l, p.e}, first);
    copy_rows<P, P::ROWS>(tile_of(memory, 1, turn), p.grad, {at.grad, p.l, p.v}, first);
    if (threadIdx.x < P::ROWS) {
        const int64_t i = first + threadIdx.x;
        const float *const lse = (const float *)p.lse.data + at.lse;
        copy_late<4>(&numbers->lse[turn][threadIdx.x], 0, lse + (i < p.l ? i * p.lse.row : 0), i < p.l);
        copy_late<4>(&numbers->mean[turn][threadIdx.x], 0, means + (i < p.l ? i : 0), i < p.l);
    }
}

/* What a warp computes with: factors of its own rows (queries and cotangents, or keys and values), numbers of its own
 * query rows. */
template <class P> struct own_rows {
    own_factors<P> scored, valued;
    float lse[2], mean[2];
};

/* Numbers of the query row of a number of a product. */
template <bool BY_KEYS>
STNI_DEVICE float number_of(const float (&own)[2], const float *others, int row, int n, int half, int i)
{
    return BY_KEYS ? others[n * SQUARE + product_col(half, i)] : own[row];
}

/* Adds to a gradient what AT_ONCE other rows give; `scored`, `valued`, `lse` and `mean` are theirs. */
template <class P, gradient OF, class S>
STNI_DEVICE void add_others(const arguments &p, const place &at, const corner &here, const own_rows<P> &own,
                            const S *scored, const S *valued, const float *lse, const float *mean, row_products<P> &sum)
{
    enum { N = AT_ONCE / SQUARE };
    constexpr bool BY_KEYS = OF != OF_QUERIES;
    product weight[N], grad[N];
    multiply_rows<P>(own.scored, scored, weight);
    const float unit = make_scores<S, BY_KEYS>(p, at, here, weight);
    for_numbers<N>([&](int row, int n, int half, int i) {
        const float of_row = number_of<BY_KEYS>(own.lse, lse, row, n, half, i);
        weight[n].v[half][i] = near_exp(fmaf(weight[n].v[half][i], unit, -of_row));
    });
    if (OF == OF_VALUES) {
        if (p.threshold != 0)
            drop<BY_KEYS>(p, at, here, 1, weight);
        add_rows<P>(weight, valued, sum);
        return;
    }
    multiply_rows<P>(own.valued, valued, grad);
    if (p.threshold != 0)
        drop<BY_KEYS>(p, at, here, scale_of_kept(p), grad);
    for_numbers<N>([&](int row, int n, int half, int i) {
        grad[n].v[half][i] = weight[n].v[half][i] *
                             (grad[n].v[half][i] - number_of<BY_KEYS>(own.mean, mean, row, n, half, i));
    });
    add_rows<P>(grad, scored, sum);
}

/* An element of the batch, which a block adds to its sums. It lies in shared memory: not in the registers of each
 * thread. */
struct element {
    bool is_there;
    place at;
    float *means;
};

template <bool BY_KEYS>
STNI_DEVICE void find_element(const arguments &p, const batches &b, int64_t own, int64_t summed, element *to)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        int64_t index[STN_MAX_NDIM];
        to->is_there = find_index(p, b, BY_KEYS, own, summed, index);
        if (to->is_there) {
            to->at = place_of(p, index);
            to->means = means_of(p, index);
        }
    }
    __syncthreads();
}

/* The walk of a block over the other rows of an element of the batch. */
template <class P, gradient OF>
STNI_DEVICE void walk(const arguments &p, const place &at, const float *means, tiles<P> *memory,
                      row_numbers<P> *numbers, int64_t first, const own_rows<P> &own, row_products<P> &sum)
{
    enum { ROWS = P::ROWS };
    constexpr bool BY_KEYS = OF != OF_QUERIES;
    const int64_t mine = first + warp_row(), begin = BY_KEYS ? rows_begin(p, first, ROWS) : 0;
    const int64_t end = BY_KEYS ? p.l : keys_end(p, first, P::OWN);
    int turn = 0;
    __syncthreads();
    if (begin < end)
        copy_tiles<P, BY_KEYS>(p, at, means, memory, numbers, begin, 0);
    STNI_KEEP_LOOP
    for (int64_t other = begin; other < end; other += ROWS, turn ^= 1) {
        wait_for_copies();
        __syncthreads();
        if (other + ROWS < end)
            copy_tiles<P, BY_KEYS>(p, at, means, memory, numbers, other + ROWS, turn ^ 1);
        if (mine >= (BY_KEYS ? p.s : p.l))
            continue;
        STNI_KEEP_LOOP
        for (int r = 0; r < ROWS && other + r < end; r += AT_ONCE) {
            const corner here = BY_KEYS ? corner{other + r, mine} : corner{mine, other + r};
            if (is_empty<BY_KEYS, AT_ONCE / SQUARE>(p, here))
                continue;
            add_others<P, OF>(p, at, here, own, tile_of(memory, 0, turn) + r * P::PITCH,
                              tile_of(memory, 1, turn) + r * P::PITCH, numbers->lse[turn] + r,
                              numbers->mean[turn] + r, sum);
        }
    }
}

template <class P, gradient OF> __global__ void __launch_bounds__(P::THREADS, P::BLOCKS)
gather_by_products(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t blocks)
{
    constexpr bool BY_KEYS = OF != OF_QUERIES;
    typedef typename P::element S;
    STNI_SHARED(tiles<P>, memory, 1);
    STNI_SHARED(row_numbers<P>, numbers, 1);
    STNI_SHARED(element, of_batch, 1);
    const place &at = of_batch->at;
    const stni_attention_sum &to = OF == OF_QUERIES ? p.grad_query : OF == OF_KEYS ? p.grad_key : p.grad_value;
    const int64_t first = blockIdx.x % blocks * P::OWN, gathered = blockIdx.x / blocks;
    int64_t to_at = -1;
    row_products<P> sum;
    clear_products(sum);
    STNI_KEEP_LOOP
    for (int64_t k = 0; k < b.summed; k++) {
        find_element<BY_KEYS>(p, b, gathered, k, of_batch);
        if (!of_batch->is_there)
            continue;
        own_rows<P> own;
        if (OF == OF_QUERIES) {
            read_own_rows<P>(memory->elements, p.grad, {at.grad, p.l, p.v}, first, own.valued);
            make_means<P>(p, at, memory->elements, first, of_batch->means, own.valued, own.mean);
            read_own_rows<P>(memory->elements, p.query, {at.query, p.l, p.e}, first, own.scored);
            read_lse(p, at, first + warp_row(), own.lse);
        } else {
            read_own_rows<P>(memory->elements, p.key, {at.key, p.s, p.e}, first, own.scored);
            if (OF == OF_KEYS)
                read_own_rows<P>(memory->elements, p.value, {at.value, p.s, p.v}, first, own.valued);
        }
        to_at = OF == OF_QUERIES ? at.grad_query : OF == OF_KEYS ? at.grad_key : at.grad_value;
        walk<P, OF>(p, at, of_batch->means, memory, numbers, first, own, sum);
    }
    const float scale = OF == OF_VALUES ? scale_of_kept(p) : (float)p.scale;
    const section all = {to_at, BY_KEYS ? p.s : p.l, OF == OF_VALUES ? p.v : p.e};
    if (to_at >= 0)
        store_rows<S>(to.at, all, first + warp_row(), {scale, scale}, sum);
}

template <class P, gradient OF>
void launch_gradient(const arguments &p, const stni_attention_operand &to, cudaStream_t stream)
{
    const batches b = batches_of(p, to, OF != OF_QUERIES);
    const int64_t blocks = ((OF == OF_QUERIES ? p.l : p.s) + P::OWN - 1) / P::OWN;
    STNI_LAUNCH((gather_by_products<P, OF>), blocks_for(b.own * blocks, 1), P::THREADS, stream, p, b, blocks);
}

/* Queries first: the others read the means that these leave in the workspace. */
template <class P, class OF_VALUES_P> void launch_gradients(const arguments &p, cudaStream_t stream)
{
    launch_gradient<P, OF_QUERIES>(p, p.grad_query.at, stream);
    launch_gradient<P, OF_KEYS>(p, p.grad_key.at, stream);
    launch_gradient<OF_VALUES_P, OF_VALUES>(p, p.grad_value.at, stream);
}

template <class S> void launch_of(const arguments &p, cudaStream_t stream)
{
    if (p.e <= 64 && p.v <= 64)
        launch_gradients<mma_shape<S, 64, 4, 3>, mma_shape<S, 64, 8, 2>>(p, stream);
    else
        launch_gradients<mma_shape<S, 128, 8, 1>, mma_shape<S, 128, 8, 1>>(p, stream);
}

}

void stni_attention_mma_backward_launch(const struct stni_attention_args *args, void *stream)
{
    dispatch<bf16, f16>(args->dtype, [&](auto element) {
        launch_of<decltype(element)>(*args, static_cast<cudaStream_t>(stream));
    });
}
