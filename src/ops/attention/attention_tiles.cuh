/* Tiles of 64 x 64 numbers of f32 in shared memory, and products of two tiles, of which a thread computes 8 x 4 numbers
 * in registers: it reads 12 packs for 128 multiply-adds.
 *
 * A row of a tile has 16 packs of four numbers, and pack f of row r lies at place f ^ (r % 8) of the row: neighbouring
 * threads that read one column of packs, or one row, then read different banks. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_TILES_CUH
#define STNI_OPS_ATTENTION_ATTENTION_TILES_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/packs.cuh"
#include "ops/attention/attention_place.cuh"

#include <math.h>

namespace {

enum {
    SIDE = 64,                    /* rows of a tile, and columns */
    TILE_THREADS = 128,           /* of a block: 8 x 16 */
    TILE_ROWS = 8, TILE_COLS = 4, /* numbers of a thread: rows 8 apart, columns 16 apart or side by side */
    ROW_FOURS = SIDE / 4,
    TILE_FOURS = SIDE * ROW_FOURS
};

typedef pack<float> four;
typedef float numbers[TILE_ROWS][TILE_COLS];

STNI_DEVICE int own_row(int r)
{
    return (int)threadIdx.x / ROW_FOURS + r * (SIDE / TILE_ROWS);
}

STNI_DEVICE int own_col(int c)
{
    return (int)threadIdx.x % ROW_FOURS + c * (SIDE / TILE_COLS);
}

STNI_DEVICE four &four_of(four *tile, int row, int f)
{
    return tile[row * ROW_FOURS + (f ^ (row & 7))];
}

STNI_DEVICE float &number_of(four *tile, int row, int col)
{
    return four_of(tile, row, col / 4).v[col % 4];
}

STNI_DEVICE int least_of_side(int64_t n)
{
    return n < SIDE ? (int)n : SIDE;
}

STNI_DEVICE void clear_numbers(numbers &to)
{
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            to[r][c] = 0;
}

/* A section of an operand: rows from `row` of `rows`, columns from `col` of `cols`. What lies outside of it is 0. */
struct section {
    int64_t at, row, rows, col, cols;
};

template <class S> STNI_DEVICE void load_packs(four *tile, const S *from, int64_t row_stride, int rows, int cols)
{
    enum { SIZE = pack<S>::SIZE, ROW_PACKS = SIDE / SIZE };
    STNI_UNROLL
    for (int k = 0; k < SIDE * ROW_PACKS / TILE_THREADS; k++) {
        const int t = k * TILE_THREADS + (int)threadIdx.x, row = t / ROW_PACKS, col = t % ROW_PACKS * SIZE;
        float v[SIZE] = {};
        if (row < rows && col < cols)
            load_pack(*(const pack<S> *)(from + row * row_stride + col), v);
        STNI_UNROLL
        for (int f = 0; f < SIZE / 4; f++)
            four_of(tile, row, col / 4 + f) = {v[4 * f], v[4 * f + 1], v[4 * f + 2], v[4 * f + 3]};
    }
}

template <class S>
STNI_DEVICE void load_elements(four *tile, const S *from, int64_t row_stride, int64_t col_stride, int rows, int cols)
{
    STNI_KEEP_LOOP
    for (int t = (int)threadIdx.x; t < SIDE * SIDE; t += TILE_THREADS) {
        const int row = t / SIDE, col = t % SIDE;
        number_of(tile, row, col) = row < rows && col < cols ? load(from[row * row_stride + col * col_stride]) : 0;
    }
}

template <class S> STNI_DEVICE void load_tile(four *tile, const stni_attention_operand &o, const section &of)
{
    const S *from = (const S *)o.data + of.at + of.row * o.row + of.col * o.col;
    const int rows = least_of_side(of.rows - of.row), cols = least_of_side(of.cols - of.col);
    const uintptr_t addresses = (uintptr_t)from | (uintptr_t)(o.row * (int64_t)sizeof(S));
    if (o.col == 1 && cols % pack<S>::SIZE == 0 && is_pack_aligned(addresses))
        load_packs(tile, from, o.row, rows, cols);
    else
        load_elements(tile, from, o.row, o.col, rows, cols);
}

STNI_DEVICE float add_product(const four &a, const four &b, float sum)
{
    STNI_UNROLL
    for (int k = 0; k < 4; k++)
        sum = fmaf(a.v[k], b.v[k], sum);
    return sum;
}

/* Adds a b^T: products of rows, of their first 4 `fours` numbers. A thread's columns are 16 apart. */
STNI_DEVICE void multiply_rows(four *a, four *b, int fours, numbers &to)
{
    STNI_KEEP_LOOP
    for (int f = 0; f < fours; f++) {
        four right[TILE_COLS];
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            right[c] = four_of(b, own_col(c), f);
        STNI_UNROLL
        for (int r = 0; r < TILE_ROWS; r++) {
            const four left = four_of(a, own_row(r), f);
            STNI_UNROLL
            for (int c = 0; c < TILE_COLS; c++)
                to[r][c] = add_product(left, right[c], to[r][c]);
        }
    }
}

/* Adds a b, where a has 4 `fours` columns that are not 0. A thread's columns are side by side. */
STNI_DEVICE void multiply_columns(four *a, four *b, int fours, numbers &to)
{
    STNI_KEEP_LOOP
    for (int f = 0; f < fours; f++) {
        four right[4];
        STNI_UNROLL
        for (int k = 0; k < 4; k++)
            right[k] = four_of(b, 4 * f + k, own_col(0));
        STNI_UNROLL
        for (int r = 0; r < TILE_ROWS; r++) {
            const four left = four_of(a, own_row(r), f);
            STNI_UNROLL
            for (int k = 0; k < 4; k++)
                STNI_UNROLL
                for (int c = 0; c < TILE_COLS; c++)
                    to[r][c] = fmaf(left.v[k], right[k].v[c], to[r][c]);
        }
    }
}

/* A thread's numbers of a tile, which are what multiply_rows gave it. */
STNI_DEVICE void put_numbers(four *tile, const numbers &from)
{
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            number_of(tile, own_row(r), own_col(c)) = from[r][c];
}

STNI_DEVICE void get_numbers(four *tile, numbers &to)
{
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++)
            to[r][c] = number_of(tile, own_row(r), own_col(c));
}

/* Rows from `of.row` times what multiply_columns gave a thread, from column `of.col` on. */
template <class S>
STNI_DEVICE void store_numbers(const stni_attention_operand &o, const section &of, const numbers &from)
{
    S *to = (S *)o.data + of.at;
    STNI_UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        STNI_UNROLL
        for (int c = 0; c < TILE_COLS; c++) {
            const int64_t row = of.row + own_row(r), col = of.col + 4 * own_col(0) + c;
            if (row < of.rows && col < of.cols)
                store(to[row * o.row + col * o.col], from[r][c]);
        }
}

}

#endif
