/* Tiles of 64 x 64 numbers of f32 in shared memory, and products of two tiles, of which a thread computes ROWS x 8
 * numbers in registers: with 8 rows it reads 16 packs for 256 multiply-adds. A tile is worked on by 64 threads of 8
 * rows each, or by 128 of 4.
 *
 * A warp has 4 groups of rows and 8 of columns. A thread's rows are side by side; its columns are two packs, 32 apart.
 * Neighbouring lanes share their columns, and lanes 2 apart their rows, so that the lanes of a warp that read one pack
 * do so in one access.
 *
 * A row of a tile has 16 packs of four numbers, and pack f of row r lies at place f ^ (r / 4 % 8) of the row: lanes
 * that read the same pack of different rows then read different banks. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_TILES_CUH
#define STNI_OPS_ATTENTION_ATTENTION_TILES_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/large_shared.cuh"
#include "core/device/cuda/late_copies.cuh"
#include "core/device/cuda/packs.cuh"
#include "ops/attention/attention_place.cuh"

#include <math.h>

namespace {

enum {
    SIDE = 64, /* rows of a tile, and columns */
    TILE_COLS = 8, COL_GROUPS = SIDE / TILE_COLS, ROW_GROUPS = WARP / COL_GROUPS,
    ROW_FOURS = SIDE / 4,
    TILE_FOURS = SIDE * ROW_FOURS
};

typedef pack<float> four;

/* What a launch gives a block. */
template <int TILES> struct tile_memory {
    four fours[TILES * TILE_FOURS];
};

template <int ROWS> using numbers = float[ROWS][TILE_COLS];
template <int ROWS> constexpr int threads_of_tile = SIDE / ROWS * COL_GROUPS;

/* `t` is the thread's number among those that work on a tile. */
STNI_DEVICE int col_group(int t)
{
    return t / 2 % COL_GROUPS;
}

template <int ROWS> STNI_DEVICE int own_row(int t, int r)
{
    const int group = t % 2 + t / (2 * COL_GROUPS) % 2 * 2;
    return ROWS * (t / WARP * ROW_GROUPS + group) + r;
}

STNI_DEVICE int own_col(int t, int c)
{
    return 4 * col_group(t) + c / 4 * (SIDE / 2) + c % 4;
}

/* Where pack f of a row lies. */
STNI_DEVICE int place_of_four(int row, int f)
{
    return row * ROW_FOURS + (f ^ (row / 4 % 8));
}

STNI_DEVICE four &four_of(four *tile, int row, int f)
{
    return tile[place_of_four(row, f)];
}

STNI_DEVICE float &number_of(four *tile, int row, int col)
{
    return four_of(tile, row, col / 4).v[col % 4];
}

STNI_DEVICE int least_of_side(int64_t n)
{
    return n < SIDE ? (int)n : SIDE;
}

/* Packs of so many numbers. */
STNI_DEVICE int fours_of(int64_t n)
{
    return (least_of_side(n) + 3) / 4;
}

template <int ROWS> STNI_DEVICE void clear_numbers(numbers<ROWS> &to)
{
    STNI_UNROLL
    for (int r = 0; r < ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            to[r][c] = 0;
}

/* A section of an operand: rows from `row` of `rows`, columns from `col` of `cols`. What lies outside of it is 0. */
struct section {
    int64_t at, row, rows, col, cols;
};

/* Four packs at a time: addresses of all of a thread's would take the registers of the products. */
template <int THREADS>
STNI_DEVICE void load_packs(four *tile, const float *from, int64_t row_stride, int rows, int cols, int t)
{
    enum { AT_ONCE = THREADS / ROW_FOURS };
    const int f = t % ROW_FOURS;
    const int64_t step = AT_ONCE * row_stride;
    const bool is_col = 4 * f < cols;
    const shared_address to = address_in_shared(tile);
    int row = t / ROW_FOURS;
    const float *piece = from + row * row_stride + 4 * f;
    STNI_KEEP_LOOP
    for (int k = 0; k < SIDE / AT_ONCE / 4; k++)
        STNI_UNROLL
        for (int n = 0; n < 4; n++, row += AT_ONCE, piece += step) {
            const bool is_there = is_col && row < rows;
            copy_late<16>(to, place_of_four(row, f) * (int)sizeof(four), is_there ? piece : from, is_there);
        }
}

template <int THREADS>
STNI_DEVICE void load_elements(four *tile, const float *from, int64_t row_stride, int64_t col_stride, int rows,
                               int cols, int t)
{
    STNI_KEEP_LOOP
    for (int k = t; k < SIDE * SIDE; k += THREADS) {
        const int row = k / SIDE, col = k % SIDE;
        number_of(tile, row, col) = row < rows && col < cols ? from[row * row_stride + col * col_stride] : 0;
    }
}

/* By THREADS threads. What it brings is there once they have waited for their copies. */
template <int THREADS>
STNI_DEVICE void load_tile(four *tile, const stni_attention_operand &o, const section &of, int t)
{
    const int64_t col = of.col < of.cols ? of.col : 0; /* what is not copied has an address of the operand's, too */
    const float *from = (const float *)o.data + of.at + of.row * o.row + col * o.col;
    const int rows = least_of_side(of.rows - of.row), cols = least_of_side(of.cols - of.col);
    const uintptr_t addresses = (uintptr_t)from | (uintptr_t)(o.row * (int64_t)sizeof(float));
    if (o.col == 1 && cols % 4 == 0 && is_pack_aligned(addresses))
        load_packs<THREADS>(tile, from, o.row, rows, cols, t);
    else
        load_elements<THREADS>(tile, from, o.row, o.col, rows, cols, t);
}

STNI_DEVICE void wait_for_tiles()
{
    wait_for_copies();
    __syncthreads();
}

/* Packs f of a thread's rows. Four rows share the bits of their places, so that one address serves all four. */
template <int ROWS> struct own_fours {
    four *of_rows[ROWS / 4];
};

template <int ROWS> STNI_DEVICE own_fours<ROWS> own_fours_of(four *tile, int t, int f)
{
    own_fours<ROWS> own;
    STNI_UNROLL
    for (int r = 0; r < ROWS; r += 4)
        own.of_rows[r / 4] = tile + place_of_four(own_row<ROWS>(t, r), f);
    return own;
}

/* Or the packs with column c of the thread's, where f is its group of columns. */
template <int ROWS> STNI_DEVICE four &four_of_row(const own_fours<ROWS> &own, int r, int c = 0)
{
    return own.of_rows[r / 4][r % 4 * ROW_FOURS + c / 4 * COL_GROUPS];
}

/* Adds a b^T: products of rows, of their first 4 `fours` numbers. */
template <int ROWS> STNI_DEVICE void multiply_rows(four *a, four *b, int fours, int t, numbers<ROWS> &to)
{
    STNI_KEEP_LOOP
    for (int f = 0; f < fours; f++) {
        const own_fours<ROWS> lefts = own_fours_of<ROWS>(a, t, f);
        const four *const rights = b + place_of_four(own_col(t, 0), f); /* rows 32 apart share their bits, too */
        four right[TILE_COLS];
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            right[c] = rights[own_col(0, c) * ROW_FOURS];
        STNI_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const four left = four_of_row<ROWS>(lefts, r);
            STNI_UNROLL
            for (int k = 0; k < 4; k++)
                STNI_UNROLL
                for (int c = 0; c < TILE_COLS; c++)
                    to[r][c] = fmaf(left.v[k], right[c].v[k], to[r][c]);
        }
    }
}

/* Adds a b, where a has 4 `fours` columns that are not 0, and b is PARTS tiles side by side. */
template <int ROWS, int PARTS>
STNI_DEVICE void multiply_columns(four *a, four *b, int fours, int t, numbers<ROWS> (&to)[PARTS])
{
    STNI_KEEP_LOOP
    for (int f = 0; f < fours; f++) {
        const own_fours<ROWS> lefts = own_fours_of<ROWS>(a, t, f);
        const four *const rights = b + place_of_four(4 * f, col_group(t));
        four left[ROWS];
        STNI_UNROLL
        for (int r = 0; r < ROWS; r++)
            left[r] = four_of_row<ROWS>(lefts, r);
        STNI_UNROLL
        for (int k = 0; k < 4; k++)
            STNI_UNROLL
            for (int h = 0; h < 2 * PARTS; h++) {
                const four right = rights[h / 2 * TILE_FOURS + k * ROW_FOURS + h % 2 * COL_GROUPS];
                STNI_UNROLL
                for (int r = 0; r < ROWS; r++)
                    STNI_UNROLL
                    for (int c = 0; c < 4; c++)
                        to[h / 2][r][h % 2 * 4 + c] = fmaf(left[r].v[k], right.v[c], to[h / 2][r][h % 2 * 4 + c]);
            }
    }
}

/* A thread's numbers of a tile. Its two packs of a row are 8 apart there, too. */
template <int ROWS> STNI_DEVICE void put_numbers(four *tile, int t, const numbers<ROWS> &from)
{
    const own_fours<ROWS> own = own_fours_of<ROWS>(tile, t, col_group(t));
    STNI_UNROLL
    for (int r = 0; r < ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c += 4)
            four_of_row<ROWS>(own, r, c) = {from[r][c], from[r][c + 1], from[r][c + 2], from[r][c + 3]};
}

template <int ROWS> STNI_DEVICE void get_numbers(four *tile, int t, numbers<ROWS> &to)
{
    const own_fours<ROWS> own = own_fours_of<ROWS>(tile, t, col_group(t));
    STNI_UNROLL
    for (int r = 0; r < ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            to[r][c] = four_of_row<ROWS>(own, r, c).v[c % 4];
}

/* A thread's numbers times `scale`, at rows from `of.row` and columns from `of.col` on. */
template <int ROWS>
STNI_DEVICE void store_numbers(const stni_attention_operand &o, const section &of, float scale, int t,
                               const numbers<ROWS> &from)
{
    float *to = (float *)o.data + of.at;
    STNI_UNROLL
    for (int r = 0; r < ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            const int64_t row = of.row + own_row<ROWS>(t, r), col = of.col + own_col(t, c);
            if (row < of.rows && col < of.cols)
                to[row * o.row + col * o.col] = scale * from[r][c];
        }
}

}

#endif
