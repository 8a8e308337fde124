/* Scores of attention on a CUDA device, a tile at a time: query rows against keys, or keys against query rows. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_SCORES_CUH
#define STNI_OPS_ATTENTION_ATTENTION_SCORES_CUH

#include "ops/attention/attention_tiles.cuh"

namespace {

/* Products of rows of two operands over all columns, of which two tiles take 64 at a time. Tiles are free when it
 * begins; that of `a` is kept where it holds these rows already. */
template <class S>
STNI_DEVICE void multiply_operands(four *a_tile, const stni_attention_operand &a, section of_a, bool is_loaded,
                                   four *b_tile, const stni_attention_operand &b, section of_b, numbers &to)
{
    clear_numbers(to);
    STNI_KEEP_LOOP
    for (int64_t col = 0; col < of_a.cols; col += SIDE) {
        if (col > 0)
            __syncthreads();
        of_a.col = of_b.col = col;
        if (!is_loaded)
            load_tile<S>(a_tile, a, of_a);
        load_tile<S>(b_tile, b, of_b);
        __syncthreads();
        multiply_rows(a_tile, b_tile, (least_of_side(of_a.cols - col) + 3) / 4, to);
    }
}

/* Masks a thread's own numbers of a tile: in memory, since 32 addresses at once take more registers than there are. */
template <class S, bool BY_KEYS>
STNI_DEVICE void add_mask(const arguments &p, const place &at, const corner &first, four *tile)
{
    STNI_KEEP_LOOP
    for (int k = 0; k < TILE_ROWS * TILE_COLS; k++) {
        const int row = own_row(k / TILE_COLS), col = own_col(k % TILE_COLS);
        const int64_t i = first.i + (BY_KEYS ? col : row), j = first.j + (BY_KEYS ? row : col);
        const int64_t mask = at.mask + i * p.mask.row + j * p.mask.col;
        if (i >= p.l || j >= p.s)
            continue;
        if (p.mask_kind == STNI_ATTENTION_ADDS)
            number_of(tile, row, col) += load(((const S *)p.mask.data)[mask]);
        else if (!((const uint8_t *)p.mask.data)[mask])
            number_of(tile, row, col) = -INFINITY;
    }
}

/* Products become scores; -infinity where a row may not attend to a key, or where there is none. `tile` has
 * been read by then, and is free afterwards. */
template <class S, bool BY_KEYS>
STNI_DEVICE void make_scores(const arguments &p, const place &at, const corner &first, four *tile, numbers &score)
{
    const int rows = least_of_side(p.l - first.i), keys = least_of_side(p.s - first.j);
    const int64_t below = p.row_offset + first.i - first.j;
    const int diagonal = !p.is_causal || below > SIDE ? SIDE : below < -SIDE ? -SIDE : (int)below;
    const float scale = (float)p.scale;
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            const int i = BY_KEYS ? own_col(c) : own_row(r), j = BY_KEYS ? own_row(r) : own_col(c);
            score[r][c] = i < rows && j < keys && j <= i + diagonal ? scale * score[r][c] : -INFINITY;
        }
    __syncthreads();
    if (p.mask_kind == STNI_ATTENTION_NO_MASK)
        return;
    put_numbers(tile, score);
    add_mask<S, BY_KEYS>(p, at, first, tile);
    get_numbers(tile, score);
    __syncthreads();
}

/* Multiplies a thread's own numbers of a tile by dropout's factors: in memory, since a cipher for each of 32 registers
 * would be long code. */
template <bool BY_KEYS> STNI_DEVICE void drop(const arguments &p, const place &at, const corner &first, four *tile)
{
    STNI_KEEP_LOOP
    for (int k = 0; k < TILE_ROWS * TILE_COLS; k++) {
        const int row = own_row(k / TILE_COLS), col = own_col(k % TILE_COLS);
        const int64_t i = first.i + (BY_KEYS ? col : row), j = first.j + (BY_KEYS ? row : col);
        number_of(tile, row, col) *= (float)kept(p, at, i, j);
    }
}

}

#endif
