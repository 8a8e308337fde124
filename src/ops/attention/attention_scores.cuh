/* Scores of attention on a CUDA device, a tile at a time: query rows against keys, or keys against query rows. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_SCORES_CUH
#define STNI_OPS_ATTENTION_ATTENTION_SCORES_CUH

#include "ops/attention/attention_tiles.cuh"

namespace {

/* e to the power of x: 0 where that is less than the smallest normal number. The exponent is multiplied by log2(e)
 * here and not where scores are scaled, since a mask may add numbers that would be infinite by then. */
#ifdef __CUDA_ARCH__
STNI_DEVICE float power_of_e(float x)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x * 1.44269504f));
    return value;
}
#else
STNI_DEVICE float power_of_e(float x)
{
    return exp2f(x * 1.44269504f);
}
#endif

/* Products of rows of two operands over all columns, by all threads of a block. `own` has a tile for 64 columns each,
 * which are loaded unless they hold these rows already; `tile` takes 64 columns of b's at a time. They are free when it
 * begins, and so may `tile` be behind the next barrier. */
template <int ROWS>
STNI_DEVICE void multiply_operands(four *own, const stni_attention_operand &a, section of_a, bool is_loaded, four *tile,
                                   const stni_attention_operand &b, section of_b, numbers<ROWS> &to)
{
    const int t = (int)threadIdx.x;
    clear_numbers<ROWS>(to);
    STNI_KEEP_LOOP
    for (int64_t col = 0; col < of_a.cols; col += SIDE, own += TILE_FOURS) {
        if (col > 0)
            __syncthreads();
        of_a.col = of_b.col = col;
        if (!is_loaded)
            load_tile<threads_of_tile<ROWS>>(own, a, of_a, t);
        load_tile<threads_of_tile<ROWS>>(tile, b, of_b, t);
        wait_for_tiles();
        multiply_rows<ROWS>(own, tile, fours_of(of_a.cols - col), t, to);
    }
}

/* Masks a thread's own numbers of a tile: in memory, since 64 addresses at once take more registers than there are. */
template <int ROWS, bool BY_KEYS>
STNI_DEVICE void add_mask(const arguments &p, const place &at, const corner &first, four *tile, int t)
{
    STNI_KEEP_LOOP
    for (int k = 0; k < ROWS * TILE_COLS; k++) {
        const int row = own_row<ROWS>(t, k / TILE_COLS), col = own_col(t, k % TILE_COLS);
        const int64_t i = first.i + (BY_KEYS ? col : row), j = first.j + (BY_KEYS ? row : col);
        const int64_t mask = at.mask + i * p.mask.row + j * p.mask.col;
        if (i >= p.l || j >= p.s)
            continue;
        if (p.mask_kind == STNI_ATTENTION_ADDS)
            number_of(tile, row, col) += ((const float *)p.mask.data)[mask];
        else if (!((const uint8_t *)p.mask.data)[mask])
            number_of(tile, row, col) = -INFINITY;
    }
}

/* Products become scores; -infinity where a row may not attend to a key, or where there is none. `tile` is free. */
template <int ROWS, bool BY_KEYS>
STNI_DEVICE void make_scores(const arguments &p, const place &at, const corner &first, four *tile, int t,
                             numbers<ROWS> &score)
{
    const int rows = least_of_side(p.l - first.i), keys = least_of_side(p.s - first.j);
    const int64_t below = p.row_offset + first.i - first.j;
    const int diagonal = !p.is_causal || below > SIDE ? SIDE : below < -SIDE ? -SIDE : (int)below;
    const bool is_whole = rows == SIDE && keys == SIDE && diagonal == SIDE;
    const float scale = (float)p.scale;
    STNI_UNROLL
    for (int r = 0; r < ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            score[r][c] *= scale;
    if (!is_whole)
        STNI_UNROLL
        for (int r = 0; r < ROWS; r++)
            STNI_UNROLL
            for (int c = 0; c < TILE_COLS; c++) {
                const int row = own_row<ROWS>(t, r), col = own_col(t, c);
                const int i = BY_KEYS ? col : row, j = BY_KEYS ? row : col;
                score[r][c] = i < rows && j < keys && j <= i + diagonal ? score[r][c] : -INFINITY;
            }
    if (p.mask_kind == STNI_ATTENTION_NO_MASK)
        return;
    put_numbers<ROWS>(tile, t, score);
    add_mask<ROWS, BY_KEYS>(p, at, first, tile, t);
    get_numbers<ROWS>(tile, t, score);
}

/* Multiplies a thread's own numbers of a tile by dropout's factors: in memory, since a cipher for each of 64 registers
 * would be long code. */
template <int ROWS, bool BY_KEYS>
STNI_DEVICE void drop(const arguments &p, const place &at, const corner &first, four *tile, int t)
{
    STNI_KEEP_LOOP
    for (int k = 0; k < ROWS * TILE_COLS; k++) {
        const int row = own_row<ROWS>(t, k / TILE_COLS), col = own_col(t, k % TILE_COLS);
        const int64_t i = first.i + (BY_KEYS ? col : row), j = first.j + (BY_KEYS ? row : col);
        number_of(tile, row, col) *= (float)kept(p, at, i, j);
    }
}

}

#endif
