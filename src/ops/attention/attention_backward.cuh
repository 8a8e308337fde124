/* Gradients of attention on a CUDA device by tiles. A block has 64 query rows and walks over the keys for the gradient
 * of queries, or 64 keys and walks over the query rows for those of keys and of values: nothing is added to by two
 * blocks.
 *
 * Half of a block's threads multiply queries and keys for the scores while the others multiply the cotangent and values
 * for the gradients of probabilities. The first half then leaves probabilities in shared memory, the second makes
 * gradients of scores of these, and all multiply them by the rows that the block walks over.
 *
 * The products of each row of the cotangent with the result's, which all of them want, are computed with the first. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_BACKWARD_CUH
#define STNI_OPS_ATTENTION_ATTENTION_BACKWARD_CUH

#include "ops/attention/attention_scores.cuh"

namespace {

enum {
    BLOCK = 128, /* threads, whatever the kernel */
    HALF = BLOCK / 2,
    HALF_ROWS = 8, WHOLE_ROWS = 4, /* of a thread, where half a block and where all of it works on a tile */
    BLOCKS = 2,                    /* of a processor */
    /* Tiles: a half's own rows and those that it walks over; probabilities and gradients of scores. */
    OWN = 0, WALKED = 2, WEIGHT = 4, GRAD_SCORE = 5, TILES = 6
};
static_assert(threads_of_tile<HALF_ROWS> == HALF && threads_of_tile<WHOLE_ROWS> == BLOCK, "threads of tiles");
static_assert((int)HALF_ROWS == (int)TILE_COLS, "a thread of a half has as many rows as columns");

STNI_DEVICE four *tile_at(four *memory, int n)
{
    return memory + n * TILE_FOURS;
}

/* The products of 64 rows of the cotangent with the result's: 8 lanes a row. */
STNI_DEVICE void put_means(const arguments &p, const place &at, int64_t first, float *means)
{
    enum { LANES = 8 };
    STNI_KEEP_LOOP
    for (int row = (int)threadIdx.x / LANES; row < SIDE; row += BLOCK / LANES) {
        const int64_t i = first + row;
        const float *grad = (const float *)p.grad.data + at.grad + i * p.grad.row;
        const float *out = (const float *)p.out.data + at.out + i * p.out.row;
        double sum = 0;
        for (int64_t c = threadIdx.x % LANES; i < p.l && c < p.v; c += LANES)
            sum += (double)grad[c * p.grad.col] * (double)out[c * p.out.col];
        STNI_UNROLL
        for (int by = LANES / 2; by > 0; by /= 2)
            sum += value_across(sum, by);
        if (threadIdx.x % LANES == 0 && i < p.l)
            means[i] = (float)sum;
    }
}

/* What a half multiplies: rows of its own by those that it walks over. */
struct half_operands {
    const stni_attention_operand &own, &walked;
    int64_t own_at, walked_at, cols;
};

template <bool BY_KEYS> STNI_DEVICE half_operands operands_of(const arguments &p, const place &at, int half)
{
    if (BY_KEYS)
        return {half ? p.value : p.key, half ? p.grad : p.query, half ? at.value : at.key, half ? at.grad : at.query,
                half ? p.v : p.e};
    return {half ? p.grad : p.query, half ? p.value : p.key, half ? at.grad : at.query, half ? at.value : at.key,
            half ? p.v : p.e};
}

/* A half's products over all columns. Its tile of walked rows keeps the first 64 columns: they come last. */
template <bool BY_KEYS>
STNI_DEVICE void multiply_halves(const arguments &p, const place &at, const corner &here, bool is_loaded, four *memory,
                                 numbers<HALF_ROWS> &to)
{
    const int half = (int)threadIdx.x / HALF, t = (int)threadIdx.x % HALF;
    const half_operands o = operands_of<BY_KEYS>(p, at, half);
    four *const own = tile_at(memory, OWN + half), *const walked = tile_at(memory, WALKED + half);
    const int64_t own_row = BY_KEYS ? here.j : here.i, own_rows = BY_KEYS ? p.s : p.l;
    const int64_t row = BY_KEYS ? here.i : here.j, rows = BY_KEYS ? p.l : p.s;
    clear_numbers<HALF_ROWS>(to);
    STNI_KEEP_LOOP
    for (int64_t col = p.e <= SIDE && p.v <= SIDE ? 0 : SIDE; col >= 0; col -= SIDE) {
        __syncthreads();
        if (col < o.cols && !is_loaded)
            load_tile<HALF>(own, o.own, {o.own_at, own_row, own_rows, col, o.cols}, t);
        if (col < o.cols)
            load_tile<HALF>(walked, o.walked, {o.walked_at, row, rows, col, o.cols}, t);
        wait_for_tiles();
        if (col < o.cols)
            multiply_rows<HALF_ROWS>(own, walked, fours_of(o.cols - col), t, to);
    }
}

/* Of the query rows of a tile: the first half wants the logarithms of sums of exponentials, the second the means. In
 * shared memory, since registers of theirs would live beside the products. */
struct row_numbers {
    float of[2][SIDE];
};

/* A number by each thread, which is there once it has waited for its copies. 0 where there is no row: its scores are
 * -infinity. */
STNI_DEVICE void load_row_numbers(const arguments &p, const place &at, const float *means, int64_t first,
                                  row_numbers *to)
{
    const int half = (int)threadIdx.x / HALF, t = (int)threadIdx.x % HALF;
    const float *from = half ? means : (const float *)p.lse.data + at.lse;
    const bool is_there = first + t < p.l;
    const int64_t i = is_there ? first + t : 0;
    copy_late<4>(address_in_shared(&to->of[half][t]), 0, from + i * (half ? 1 : p.lse.row), is_there);
}

template <bool BY_KEYS> STNI_DEVICE float number_of_row(const float *numbers, int t, int r, int c)
{
    return numbers[BY_KEYS ? own_col(t, c) : own_row<HALF_ROWS>(t, r)];
}

/* The first half's scores become probabilities, in shared memory. */
template <bool BY_KEYS>
STNI_DEVICE void put_weights(const arguments &p, const place &at, const corner &here, four *memory,
                             const float *lse, numbers<HALF_ROWS> &score)
{
    const int t = (int)threadIdx.x % HALF;
    four *const tile = tile_at(memory, WEIGHT);
    make_scores<HALF_ROWS, BY_KEYS>(p, at, here, tile, t, score);
    STNI_UNROLL
    for (int r = 0; r < HALF_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            score[r][c] = power_of_e(score[r][c] - number_of_row<BY_KEYS>(lse, t, r, c));
    put_numbers<HALF_ROWS>(tile, t, score);
}

/* The second half's gradients of probabilities become those of scores, in shared memory. Where there is no row or no
 * key the probability is 0, and so are all others. */
template <bool BY_KEYS>
STNI_DEVICE void put_grad_scores(four *memory, const float *means, numbers<HALF_ROWS> &grad)
{
    const int t = (int)threadIdx.x % HALF;
    const own_fours<HALF_ROWS> weight = own_fours_of<HALF_ROWS>(tile_at(memory, WEIGHT), t, col_group(t));
    STNI_UNROLL
    for (int r = 0; r < HALF_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            grad[r][c] = four_of_row<HALF_ROWS>(weight, r, c).v[c % 4] *
                         (grad[r][c] - number_of_row<BY_KEYS>(means, t, r, c));
    put_numbers<HALF_ROWS>(tile_at(memory, GRAD_SCORE), t, grad);
}

template <bool BY_KEYS>
STNI_DEVICE void drop_numbers(const arguments &p, const place &at, const corner &here, four *tile,
                              numbers<HALF_ROWS> &grad)
{
    const int t = (int)threadIdx.x % HALF;
    put_numbers<HALF_ROWS>(tile, t, grad);
    drop<HALF_ROWS, BY_KEYS>(p, at, here, tile, t);
    get_numbers<HALF_ROWS>(tile, t, grad);
}

/* Probabilities of a tile, and gradients of its scores: others see them behind the next barrier. Of the walked rows,
 * the first half's tile is left as it was, the second's is free. */
template <bool BY_KEYS>
STNI_DEVICE void make_factors(const arguments &p, const place &at, const corner &here, bool is_loaded, four *memory,
                              const row_numbers *rows)
{
    const bool is_second = threadIdx.x >= HALF;
    numbers<HALF_ROWS> product;
    multiply_halves<BY_KEYS>(p, at, here, is_loaded, memory, product);
    if (!is_second)
        put_weights<BY_KEYS>(p, at, here, memory, rows->of[0], product);
    else if (p.threshold != 0)
        drop_numbers<BY_KEYS>(p, at, here, tile_at(memory, GRAD_SCORE), product);
    __syncthreads();
    if (is_second)
        put_grad_scores<BY_KEYS>(memory, rows->of[1], product);
}

/* Gradients of queries, or of keys alone: of rows of at most 64 PARTS elements. */
template <int PARTS, bool BY_KEYS> __global__ void __launch_bounds__(BLOCK, BLOCKS)
gather_tiles(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t tiles)
{
    STNI_SHARED_BY_LAUNCH(tile_memory<TILES>, shared);
    four *const memory = shared->fours;
    STNI_SHARED(row_numbers, numbers_of_rows, 1);
    STNI_SHARED(element, found, 1);
    const place &at = found->at;
    const stni_attention_operand &from = BY_KEYS ? p.query : p.key, &to = BY_KEYS ? p.grad_key.at : p.grad_query.at;
    const int t = (int)threadIdx.x;
    const int64_t first = blockIdx.x % tiles * SIDE, own = blockIdx.x / tiles;
    const int64_t rows = BY_KEYS ? p.l : p.s, end = BY_KEYS ? p.l : keys_end(p, first, SIDE);
    int64_t to_at = -1;
    numbers<WHOLE_ROWS> sum[PARTS];
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        clear_numbers<WHOLE_ROWS>(sum[k]);
    STNI_KEEP_LOOP
    for (int64_t k = 0; k < b.summed; k++) {
        find_element(p, b, BY_KEYS, own, k, found);
        if (!found->is_there)
            continue;
        to_at = BY_KEYS ? at.grad_key : at.grad_query;
        if (!BY_KEYS) {
            put_means(p, at, first, found->means);
            __syncthreads();
        }
        const int64_t begin = BY_KEYS ? rows_begin(p, first, SIDE) : 0;
        STNI_KEEP_LOOP
        for (int64_t walked = begin; walked < end; walked += SIDE) {
            const corner here = {BY_KEYS ? walked : first, BY_KEYS ? first : walked};
            load_row_numbers(p, at, found->means, here.i, numbers_of_rows);
            make_factors<BY_KEYS>(p, at, here, walked > begin && p.e <= SIDE && p.v <= SIDE, memory, numbers_of_rows);
            if (PARTS > 1)
                load_tile<BLOCK>(tile_at(memory, WALKED + 1), from,
                                 {BY_KEYS ? at.query : at.key, walked, rows, SIDE, p.e}, t);
            wait_for_tiles();
            multiply_columns<WHOLE_ROWS>(tile_at(memory, GRAD_SCORE), tile_at(memory, WALKED),
                                         fours_of(rows - walked), t, sum);
        }
    }
    if (to_at < 0)
        return;
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        store_numbers<WHOLE_ROWS>(to, {to_at, first, BY_KEYS ? p.s : p.l, k * SIDE, p.e}, (float)p.scale, t, sum[k]);
}

/* Gradients of keys and of values of at most 64 elements, which share probabilities: the first half of a block adds up
 * those of values, the second those of keys. */
__global__ void __launch_bounds__(BLOCK, BLOCKS)
gather_key_and_value_tiles(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t tiles)
{
    STNI_SHARED_BY_LAUNCH(tile_memory<TILES>, shared);
    four *const memory = shared->fours;
    STNI_SHARED(row_numbers, numbers_of_rows, 1);
    STNI_SHARED(element, found, 1);
    const place &at = found->at;
    const int half = (int)threadIdx.x / HALF, t = (int)threadIdx.x % HALF;
    const int64_t first = blockIdx.x % tiles * SIDE, own = blockIdx.x / tiles, begin = rows_begin(p, first, SIDE);
    int64_t to_at = -1;
    numbers<HALF_ROWS> sum[1];
    clear_numbers<HALF_ROWS>(sum[0]);
    STNI_KEEP_LOOP
    for (int64_t k = 0; k < b.summed; k++) {
        find_element(p, b, true, own, k, found);
        if (!found->is_there)
            continue;
        to_at = half ? at.grad_key : at.grad_value;
        STNI_KEEP_LOOP
        for (int64_t i = begin; i < p.l; i += SIDE) {
            const corner here = {i, first};
            load_row_numbers(p, at, found->means, i, numbers_of_rows);
            make_factors<true>(p, at, here, i > begin, memory, numbers_of_rows);
            if (p.threshold != 0) {
                __syncthreads(); /* gradients of scores are made of probabilities before these are dropped */
                if (!half)
                    drop<HALF_ROWS, true>(p, at, here, tile_at(memory, WEIGHT), t);
            }
            __syncthreads();
            multiply_columns<HALF_ROWS>(tile_at(memory, WEIGHT + half), tile_at(memory, WALKED + 1 - half),
                                        fours_of(p.l - i), t, sum);
        }
    }
    if (to_at >= 0)
        store_numbers<HALF_ROWS>(half ? p.grad_key.at : p.grad_value.at, {to_at, first, p.s, 0, half ? p.e : p.v},
                                 half ? (float)p.scale : 1, t, sum[0]);
}

/* Gradients of values alone: of rows of at most 64 PARTS elements. Here the tiles are those of the block's keys, of 64
 * columns each, one of query rows, then of probabilities, and those of the cotangent. */
template <int PARTS> __global__ void __launch_bounds__(BLOCK, BLOCKS)
gather_value_tiles(const __grid_constant__ arguments p, const __grid_constant__ batches b, int64_t tiles)
{
    enum { KEY = 0, QUERY = 2, GRAD = 3 };
    STNI_SHARED_BY_LAUNCH(tile_memory<TILES>, shared);
    four *const memory = shared->fours;
    STNI_SHARED(element, found, 1);
    const place &at = found->at;
    const int t = (int)threadIdx.x;
    const int64_t first = blockIdx.x % tiles * SIDE, own = blockIdx.x / tiles, begin = rows_begin(p, first, SIDE);
    four *const weight = tile_at(memory, QUERY), *const grad = tile_at(memory, GRAD);
    int64_t to_at = -1;
    numbers<WHOLE_ROWS> sum[PARTS];
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        clear_numbers<WHOLE_ROWS>(sum[k]);
    STNI_KEEP_LOOP
    for (int64_t k = 0; k < b.summed; k++) {
        find_element(p, b, true, own, k, found);
        if (!found->is_there)
            continue;
        to_at = at.grad_value;
        STNI_KEEP_LOOP
        for (int64_t i = begin; i < p.l; i += SIDE) {
            const corner here = {i, first};
            numbers<WHOLE_ROWS> score;
            __syncthreads();
            multiply_operands<WHOLE_ROWS>(tile_at(memory, KEY), p.key, {at.key, first, p.s, 0, p.e}, i > begin, weight,
                                          p.query, {at.query, i, p.l, 0, p.e}, score);
            __syncthreads();
            STNI_UNROLL
            for (int part = 0; part < PARTS; part++)
                load_tile<BLOCK>(grad + part * TILE_FOURS, p.grad, {at.grad, i, p.l, part * SIDE, p.v}, t);
            make_scores<WHOLE_ROWS, true>(p, at, here, weight, t, score);
            STNI_UNROLL
            for (int c = 0; c < TILE_COLS; c++) {
                const int64_t row = i + own_col(t, c);
                const float lse = row < p.l ? ((const float *)p.lse.data)[at.lse + row * p.lse.row] : INFINITY;
                STNI_UNROLL
                for (int r = 0; r < WHOLE_ROWS; r++)
                    score[r][c] = power_of_e(score[r][c] - lse);
            }
            put_numbers<WHOLE_ROWS>(weight, t, score);
            if (p.threshold != 0)
                drop<WHOLE_ROWS, true>(p, at, here, weight, t);
            wait_for_tiles();
            multiply_columns<WHOLE_ROWS>(weight, grad, fours_of(p.l - i), t, sum);
        }
    }
    if (to_at < 0)
        return;
    STNI_UNROLL
    for (int k = 0; k < PARTS; k++)
        store_numbers<WHOLE_ROWS>(p.grad_value.at, {to_at, first, p.s, k * SIDE, p.v}, 1, t, sum[k]);
}

}

#endif
