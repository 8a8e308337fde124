/* Attention forward on a CUDA device by tiles: a block has 64 query rows and walks over the keys, 64 at a time. Of each
 * row it keeps the largest score so far, the sum of exponentials relative to that, and the products with the values,
 * which are rescaled where the largest score grows.
 * Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_FORWARD_CUH
#define STNI_OPS_ATTENTION_ATTENTION_FORWARD_CUH

#include "ops/attention/attention_scores.cuh"

namespace {

/* Of a thread's rows; the sums are of its own columns. */
template <int ROWS> struct row_states {
    float largest[ROWS], sum[ROWS];
};

/* The threads of a row are lanes of one warp whose numbers differ in these bits. */
STNI_DEVICE float largest_of_row(float value)
{
    STNI_UNROLL
    for (int by = COL_GROUPS; by > 1; by /= 2)
        value = fmaxf(value, value_across(value, by));
    return value;
}

STNI_DEVICE float sum_of_row(float value)
{
    STNI_UNROLL
    for (int by = COL_GROUPS; by > 1; by /= 2)
        value += value_across(value, by);
    return value;
}

/* Scores become exponentials relative to the largest score so far. */
template <int ROWS, int PARTS>
STNI_DEVICE void raise(row_states<ROWS> &rows, numbers<ROWS> &score, numbers<ROWS> (&out)[PARTS])
{
    STNI_UNROLL
    for (int r = 0; r < ROWS; r++) {
        float largest = score[r][0];
        STNI_UNROLL
        for (int c = 1; c < TILE_COLS; c++)
            largest = fmaxf(largest, score[r][c]);
        largest = fmaxf(rows.largest[r], largest_of_row(largest));
        const float measure = largest > -INFINITY ? largest : 0, before = power_of_e(rows.largest[r] - measure);
        rows.largest[r] = largest;
        rows.sum[r] *= before;
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            score[r][c] = power_of_e(score[r][c] - measure);
            rows.sum[r] += score[r][c];
            STNI_UNROLL
            for (int k = 0; k < PARTS; k++)
                out[k][r][c] *= before;
        }
    }
}

template <int ROWS, int PARTS>
STNI_DEVICE void close_rows(const arguments &p, const place &at, int64_t first, row_states<ROWS> &rows,
                            numbers<ROWS> (&out)[PARTS])
{
    const int t = (int)threadIdx.x;
    STNI_UNROLL
    for (int r = 0; r < ROWS; r++) {
        const float sum = sum_of_row(rows.sum[r]), factor = sum == 0 ? 0 : 1 / sum;
        const int64_t i = first + own_row<ROWS>(t, r);
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            STNI_UNROLL
            for (int k = 0; k < PARTS; k++)
                out[k][r][c] = sum == 0 ? 0 : out[k][r][c] * factor;
        if (col_group(t) == 0 && i < p.l)
            ((float *)p.lse.data)[at.lse + i * p.lse.row] = sum == 0 ? INFINITY : rows.largest[r] + logf(sum);
    }
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        store_numbers<ROWS>(p.out, {at.out, first, p.l, k * SIDE, p.v}, 1, t, out[k]);
}

/* Of rows of at most 64 PARTS elements. A thread has as many numbers of the result whatever PARTS. */
template <int PARTS> struct forward_shape {
    enum {
        ROWS = 8 / PARTS,
        THREADS = threads_of_tile<ROWS>,
        BLOCKS = 4 / PARTS, /* of a processor */
        KEY = PARTS,        /* tiles of queries come first */
        VALUE = KEY + 1,
        TILES = VALUE + PARTS
    };
};

template <int PARTS> __global__ void __launch_bounds__(forward_shape<PARTS>::THREADS, forward_shape<PARTS>::BLOCKS)
attend_tiles(const __grid_constant__ arguments p, int64_t tiles)
{
    typedef forward_shape<PARTS> shape;
    enum { ROWS = shape::ROWS };
    STNI_SHARED_BY_LAUNCH(tile_memory<shape::TILES>, shared);
    four *const memory = shared->fours;
    four *const key = memory + shape::KEY * TILE_FOURS; /* then probabilities */
    four *const value = memory + shape::VALUE * TILE_FOURS;
    const int t = (int)threadIdx.x;
    const int64_t first = blockIdx.x % tiles * SIDE, end = keys_end(p, first, SIDE);
    STNI_SHARED(place, of_block, 1); /* which would take registers of the products */
    const place &at = of_block[0];
    row_states<ROWS> rows;
    numbers<ROWS> out[PARTS];
    if (t == 0) {
        int64_t index[STN_MAX_NDIM];
        index_of(p, blockIdx.x / tiles, index);
        of_block[0] = place_of(p, index);
    }
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        clear_numbers<ROWS>(out[k]);
    STNI_UNROLL
    for (int r = 0; r < ROWS; r++) {
        rows.largest[r] = -INFINITY;
        rows.sum[r] = 0;
    }
    STNI_KEEP_LOOP
    for (int64_t j = 0; j < end; j += SIDE) {
        const corner here = {first, j};
        numbers<ROWS> score;
        __syncthreads();
        multiply_operands<ROWS>(memory, p.query, {at.query, first, p.l, 0, p.e}, j > 0, key, p.key,
                                {at.key, j, p.s, 0, p.e}, score);
        __syncthreads();
        STNI_UNROLL
        for (int k = 0; k < PARTS; k++)
            load_tile<shape::THREADS>(value + k * TILE_FOURS, p.value, {at.value, j, p.s, k * SIDE, p.v}, t);
        make_scores<ROWS, false>(p, at, here, key, t, score);
        raise<ROWS>(rows, score, out);
        put_numbers<ROWS>(key, t, score);
        if (p.threshold != 0)
            drop<ROWS, false>(p, at, here, key, t);
        wait_for_tiles();
        multiply_columns<ROWS>(key, value, fours_of(p.s - j), t, out);
    }
    __syncthreads(); /* a block without keys has passed no barrier */
    close_rows<ROWS>(p, at, first, rows, out);
}

}

#endif
