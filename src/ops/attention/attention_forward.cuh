/* Attention forward on a CUDA device by tiles: a block has 64 query rows and walks over the keys, 64 at a time. Of each
 * row it keeps the largest score so far, the sum of exponentials relative to that, and the products with the values,
 * which are rescaled where the largest score grows.
 * Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_FORWARD_CUH
#define STNI_OPS_ATTENTION_ATTENTION_FORWARD_CUH

#include "ops/attention/attention_scores.cuh"

namespace {

/* Of a thread's rows; the sums are of its own columns. */
struct row_states {
    float largest[TILE_ROWS], sum[TILE_ROWS];
};

/* The 16 threads of a row are neighbouring lanes. */
STNI_DEVICE float largest_of_row(float value)
{
    STNI_UNROLL
    for (int by = ROW_FOURS / 2; by > 0; by /= 2)
        value = fmaxf(value, value_across(value, by));
    return value;
}

STNI_DEVICE float sum_of_row(float value)
{
    STNI_UNROLL
    for (int by = ROW_FOURS / 2; by > 0; by /= 2)
        value += value_across(value, by);
    return value;
}

/* Scores become exponentials relative to the largest score so far. */
template <int PARTS> STNI_DEVICE void raise(row_states &rows, numbers &score, numbers (&out)[PARTS])
{
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        float largest = score[r][0];
        STNI_UNROLL
        for (int c = 1; c < TILE_COLS; c++)
            largest = fmaxf(largest, score[r][c]);
        largest = fmaxf(rows.largest[r], largest_of_row(largest));
        const float measure = largest > -INFINITY ? largest : 0, before = expf(rows.largest[r] - measure);
        rows.largest[r] = largest;
        rows.sum[r] *= before;
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            score[r][c] = expf(score[r][c] - measure);
            rows.sum[r] += score[r][c];
            STNI_UNROLL
            for (int k = 0; k < PARTS; k++)
                out[k][r][c] *= before;
        }
    }
}

template <class S, int PARTS>
STNI_DEVICE void close_rows(const arguments &p, const place &at, int64_t first, row_states &rows, numbers (&out)[PARTS])
{
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        const float sum = sum_of_row(rows.sum[r]);
        const int64_t i = first + own_row(r);
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            STNI_UNROLL
            for (int k = 0; k < PARTS; k++)
                out[k][r][c] = sum == 0 ? 0 : out[k][r][c] / sum;
        if (own_col(0) == 0 && i < p.l)
            ((float *)p.lse.data)[at.lse + i * p.lse.row] = sum == 0 ? INFINITY : rows.largest[r] + logf(sum);
    }
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        store_numbers<S>(p.out, {at.out, first, p.l, k * SIDE, p.v}, out[k]);
}

template <class S, int PARTS> __global__ void __launch_bounds__(TILE_THREADS, PARTS == 1 ? 3 : 2)
attend_tiles(const __grid_constant__ arguments p, int64_t tiles)
{
    STNI_SHARED(four, query, TILE_FOURS);
    STNI_SHARED(four, key, TILE_FOURS); /* then probabilities */
    STNI_SHARED(four, value, TILE_FOURS);
    const int64_t first = blockIdx.x % tiles * SIDE, end = keys_end(p, first, SIDE);
    int64_t index[STN_MAX_NDIM];
    index_of(p, blockIdx.x / tiles, index);
    const place at = place_of(p, index);
    row_states rows;
    numbers out[PARTS];
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        clear_numbers(out[k]);
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        rows.largest[r] = -INFINITY;
        rows.sum[r] = 0;
    }
    STNI_KEEP_LOOP
    for (int64_t j = 0; j < end; j += SIDE) {
        const corner here = {first, j};
        const int fours = (least_of_side(p.s - j) + 3) / 4;
        numbers score;
        __syncthreads();
        load_tile<S>(value, p.value, {at.value, j, p.s, 0, p.v});
        multiply_operands<S>(query, p.query, {at.query, first, p.l, 0, p.e}, j > 0 && p.e <= SIDE, key, p.key,
                             {at.key, j, p.s, 0, p.e}, score);
        make_scores<S, false>(p, at, here, key, score);
        raise(rows, score, out);
        put_numbers(key, score);
        if (p.threshold != 0)
            drop<false>(p, at, here, key);
        __syncthreads();
        multiply_columns(key, value, fours, out[0]);
        STNI_UNROLL
        for (int k = 1; k < PARTS; k++) {
            __syncthreads();
            load_tile<S>(value, p.value, {at.value, j, p.s, k * SIDE, p.v});
            __syncthreads();
            multiply_columns(key, value, fours, out[k]);
        }
    }
    close_rows<S>(p, at, first, rows, out);
}

}

#endif
