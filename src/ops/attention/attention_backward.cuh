/* Gradients of attention on a CUDA device by tiles. A block has 64 query rows and walks over the keys for the gradient
 * of queries, or 64 keys and walks over the query rows for those of keys and of values: nothing is added to by two blocks.
 * The products of each row of the cotangent with the result's, which all of them want, are computed with the first. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_BACKWARD_CUH
#define STNI_OPS_ATTENTION_ATTENTION_BACKWARD_CUH

#include "ops/attention/attention_scores.cuh"

namespace {

/* The product of a row of the cotangent with the result's. */
template <class S> STNI_DEVICE float row_mean(const arguments &p, const place &at, int64_t i)
{
    const S *grad = (const S *)p.grad.data + at.grad + i * p.grad.row;
    const S *out = (const S *)p.out.data + at.out + i * p.out.row;
    double sum = 0;
    STNI_KEEP_LOOP
    for (int64_t c = 0; c < p.v; c++)
        sum += (double)load(grad[c * p.grad.col]) * (double)load(out[c * p.out.col]);
    return (float)sum;
}

/* Scores become probabilities. */
template <bool BY_KEYS>
STNI_DEVICE void make_weights(const arguments &p, const place &at, const corner &first, numbers &score)
{
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            const int64_t i = first.i + (BY_KEYS ? own_col(c) : own_row(r));
            const float lse = i < p.l ? ((const float *)p.lse.data)[at.lse + i * p.lse.row] : INFINITY;
            score[r][c] = expf(score[r][c] - lse);
        }
}

/* Gradients of probabilities become those of scores. */
template <bool BY_KEYS>
STNI_DEVICE void make_grad_scores(const arguments &p, const float *means, const corner &first, const numbers &weight,
                                  numbers &grad)
{
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            const int64_t i = first.i + (BY_KEYS ? own_col(c) : own_row(r));
            const int64_t j = first.j + (BY_KEYS ? own_row(r) : own_col(c));
            grad[r][c] = i < p.l && j < p.s ? weight[r][c] * (grad[r][c] - means[i]) : 0;
        }
}

/* Three tiles, and what a block computes with them. */
struct tiles_of_block {
    four *left, *right, *third;
};

/* The probabilities of a tile; `right` keeps the last columns of what the block walks over, and `left` is free. */
template <class S, bool BY_KEYS>
STNI_DEVICE void weights_of(const arguments &p, const place &at, const corner &here, const tiles_of_block &t,
                            numbers &weight)
{
    const section queries = {at.query, here.i, p.l, 0, p.e}, keys = {at.key, here.j, p.s, 0, p.e};
    __syncthreads();
    if (BY_KEYS)
        multiply_operands<S>(t.left, p.key, keys, false, t.right, p.query, queries, weight);
    else
        multiply_operands<S>(t.left, p.query, queries, false, t.right, p.key, keys, weight);
    make_scores<S, BY_KEYS>(p, at, here, t.left, weight);
    make_weights<BY_KEYS>(p, at, here, weight);
}

/* The gradients of a tile's scores. */
template <class S, bool BY_KEYS>
STNI_DEVICE void grad_scores_of(const arguments &p, const place &at, const float *means, const corner &here,
                                const tiles_of_block &t, numbers &grad)
{
    const section rows = {at.grad, here.i, p.l, 0, p.v}, values = {at.value, here.j, p.s, 0, p.v};
    numbers weight;
    weights_of<S, BY_KEYS>(p, at, here, t, weight);
    if (BY_KEYS)
        multiply_operands<S>(t.left, p.value, values, false, t.third, p.grad, rows, grad);
    else
        multiply_operands<S>(t.left, p.grad, rows, false, t.third, p.value, values, grad);
    __syncthreads();
    if (p.threshold != 0) {
        put_numbers(t.left, grad);
        drop<BY_KEYS>(p, at, here, t.left);
        get_numbers(t.left, grad);
    }
    make_grad_scores<BY_KEYS>(p, means, here, weight, grad);
}

/* Adds the tile of factors in `left` times rows of an operand, whose first columns are in `right` already where
 * `is_loaded`. */
template <class S, int PARTS>
STNI_DEVICE void add_rows(four *left, four *right, const stni_attention_operand &o, section of, bool is_loaded,
                          numbers (&sum)[PARTS])
{
    const int fours = (least_of_side(of.rows - of.row) + 3) / 4;
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++) {
        __syncthreads();
        of.col = k * SIDE;
        if (k > 0 || !is_loaded) {
            load_tile<S>(right, o, of);
            __syncthreads();
        }
        multiply_columns(left, right, fours, sum[k]);
    }
}

template <int PARTS> STNI_DEVICE void clear_parts(numbers (&sum)[PARTS])
{
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        clear_numbers(sum[k]);
}

template <class S, int PARTS>
STNI_DEVICE void store_parts(const stni_attention_operand &to, section of, float scale, numbers (&sum)[PARTS])
{
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++) {
        STNI_UNROLL
        for (int r = 0; r < TILE_ROWS; r++)
            STNI_UNROLL
            for (int c = 0; c < TILE_COLS; c++)
                sum[k][r][c] *= scale;
        of.col = k * SIDE;
        store_numbers<S>(to, of, sum[k]);
    }
}

/* Gradients of queries. */
template <class S, int PARTS> __global__ void __launch_bounds__(TILE_THREADS, 2)
gather_query_tiles(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t tiles)
{
    STNI_SHARED(four, left, TILE_FOURS);
    STNI_SHARED(four, right, TILE_FOURS);
    STNI_SHARED(four, third, TILE_FOURS);
    const int64_t first = blockIdx.x % tiles * SIDE, own = blockIdx.x / tiles, end = keys_end(p, first, SIDE);
    int64_t to = 0, index[STN_MAX_NDIM];
    numbers sum[PARTS];
    clear_parts(sum);
    STNI_KEEP_LOOP
    for (int64_t k = 0; k < b.summed; k++) {
        find_index(p, b, false, own, k, index);
        const place at = place_of(p, index);
        float *means = means_of(p, index);
        to = at.grad_query;
        if (threadIdx.x < SIDE && first + threadIdx.x < p.l)
            means[first + threadIdx.x] = row_mean<S>(p, at, first + threadIdx.x);
        STNI_KEEP_LOOP
        for (int64_t j = 0; j < end; j += SIDE) {
            numbers grad;
            grad_scores_of<S, false>(p, at, means, {first, j}, {left, right, third}, grad);
            put_numbers(left, grad);
            add_rows<S>(left, right, p.key, {at.key, j, p.s, 0, p.e}, p.e <= SIDE, sum);
        }
    }
    store_parts<S>(p.grad_query.at, {to, first, p.l, 0, p.e}, (float)p.scale, sum);
}

/* Gradients of keys, or of values. */
template <class S, int PARTS, bool OF_VALUES> __global__ void __launch_bounds__(TILE_THREADS, 2)
gather_key_tiles(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t tiles)
{
    STNI_SHARED(four, left, TILE_FOURS);
    STNI_SHARED(four, right, TILE_FOURS);
    STNI_SHARED(four, third, TILE_FOURS);
    const int64_t first = blockIdx.x % tiles * SIDE, own = blockIdx.x / tiles;
    int64_t to = -1, index[STN_MAX_NDIM];
    numbers sum[PARTS];
    clear_parts(sum);
    STNI_KEEP_LOOP
    for (int64_t k = 0; k < b.summed; k++) {
        if (!find_index(p, b, true, own, k, index))
            continue;
        const place at = place_of(p, index);
        to = OF_VALUES ? at.grad_value : at.grad_key;
        STNI_KEEP_LOOP
        for (int64_t i = rows_begin(p, first, SIDE); i < p.l; i += SIDE) {
            const corner here = {i, first};
            numbers factor;
            if (OF_VALUES) {
                weights_of<S, true>(p, at, here, {left, right, third}, factor);
                put_numbers(left, factor);
                if (p.threshold != 0)
                    drop<true>(p, at, here, left);
                add_rows<S>(left, third, p.grad, {at.grad, i, p.l, 0, p.v}, false, sum);
            } else {
                grad_scores_of<S, true>(p, at, means_of(p, index), here, {left, right, third}, factor);
                put_numbers(left, factor);
                add_rows<S>(left, right, p.query, {at.query, i, p.l, 0, p.e}, p.e <= SIDE, sum);
            }
        }
    }
    if (to >= 0)
        store_parts<S>(OF_VALUES ? p.grad_value.at : p.grad_key.at, {to, first, p.s, 0, OF_VALUES ? p.v : p.e},
                       OF_VALUES ? 1 : (float)p.scale, sum);
}

}

#endif
