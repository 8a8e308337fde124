/* Attention of 16-bit floats on a CUDA device by products of tensor cores: tiles in shared memory and products with
 * them.
 *
 * A warp has 16 rows of its own, whose factors lie in registers. Its block walks over the other rows (keys where its
 * own are query rows, else query rows), a tile at a time: all warps multiply their rows by the tile that lies in
 * shared memory while copies bring the next one. Rows of tiles have 64 or 128 elements, zeros behind an operand's
 * own, and 8 elements more that nobody reads, so that rows that are read together lie in different banks.
 * Source: Dao 2023, "FlashAttention-2: faster attention with better parallelism and work partitioning". */
#ifndef STNI_OPS_ATTENTION_ATTENTION_MMA_CUH
#define STNI_OPS_ATTENTION_ATTENTION_MMA_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/late_copies.cuh"
#include "core/device/cuda/tensor_cores.cuh"
#include "ops/attention/attention_place.cuh"

namespace {

/* How a kernel goes about operands of elements S in rows of up to W, and how many warps and blocks find registers. */
template <class S, int W, int BLOCK_WARPS, int BLOCKS_OF_PROCESSOR> struct mma_shape {
    typedef S element;
    enum {
        WIDTH = W,
        SQUARES = W / SQUARE, /* of a row */
        WARPS = BLOCK_WARPS,
        THREADS = WARP * WARPS,
        BLOCKS = BLOCKS_OF_PROCESSOR,
        OWN = SQUARE * WARPS, /* rows of a block's own */
        ROWS = 4096 / W,      /* of a tile */
        PITCH = W + 8,        /* elements from row to row */
        TILE = ROWS * PITCH   /* elements */
    };
    static_assert(OWN * PITCH <= 4 * TILE, "own rows lie where the tiles do later");
};

/* Shared memory of a block: tiles of two operands, of each one that is read and one that is written meanwhile. A
 * block's own rows take the same space before the walk. */
template <class P> struct alignas(16) tiles {
    typename P::element elements[4 * P::TILE];
};

template <class P> STNI_DEVICE typename P::element *tile_of(tiles<P> *memory, int operand, int turn)
{
    return memory->elements + (2 * turn + operand) * P::TILE;
}

template <class P> using own_factors = left_factor[P::SQUARES];
template <class P> using row_products = product[P::SQUARES];

/* An operand's rows from an element of the batch on: so many rows of so many elements. */
struct section {
    int64_t at, rows, cols;
};

template <class P, int ROWS, class S>
STNI_DEVICE void copy_packs(S *tile, const S *from, int64_t row_stride, int rows, int cols)
{
    enum { ROW_PACKS = P::WIDTH / pack<S>::SIZE, AT_ONCE = P::THREADS / ROW_PACKS };
    const int row = (int)threadIdx.x / ROW_PACKS, col = (int)threadIdx.x % ROW_PACKS * pack<S>::SIZE;
    STNI_UNROLL
    for (int k = 0; k < ROWS; k += AT_ONCE) {
        const bool is_there = row + k < rows && col < cols;
        const S *const piece = is_there ? from + (row + k) * row_stride + col : from;
        copy_late<16>(tile + row * P::PITCH + col, k * P::PITCH * (int)sizeof(S), piece, is_there);
    }
}

template <class P, int ROWS, class S>
STNI_DEVICE void copy_elements(S *tile, const S *from, int64_t row_stride, int64_t col_stride, int rows, int cols)
{
    STNI_KEEP_LOOP
    for (int t = (int)threadIdx.x; t < ROWS * P::WIDTH; t += P::THREADS) {
        const int row = t / P::WIDTH, col = t % P::WIDTH;
        S element = {0};
        if (row < rows && col < cols)
            element = from[row * row_stride + col * col_stride];
        tile[row * P::PITCH + col] = element;
    }
}

/* Begins to copy ROWS rows from row `first` on; zeros where the operand has none. */
template <class P, int ROWS, class S>
STNI_DEVICE void copy_rows(S *tile, const stni_attention_operand &o, const section &of, int64_t first)
{
    const S *from = (const S *)o.data + of.at + first * o.row;
    const int rows = of.rows - first < ROWS ? (int)(of.rows - first) : ROWS;
    const uintptr_t addresses = (uintptr_t)from | (uintptr_t)(o.row * (int64_t)sizeof(S));
    if (o.col == 1 && of.cols % pack<S>::SIZE == 0 && is_pack_aligned(addresses))
        copy_packs<P, ROWS>(tile, from, o.row, rows, (int)of.cols);
    else
        copy_elements<P, ROWS>(tile, from, o.row, o.col, rows, (int)of.cols);
}

/* Which of the block's own rows is the warp's first. */
STNI_DEVICE int warp_row()
{
    return (int)threadIdx.x / WARP * SQUARE;
}

/* The warp's rows of an operand as factors, by way of `space`; all threads of the block call it. */
template <class P, class S>
STNI_DEVICE void read_own_rows(S *space, const stni_attention_operand &o, const section &of, int64_t first,
                               own_factors<P> &to)
{
    __syncthreads();
    copy_rows<P, P::OWN>(space, o, of, first);
    wait_for_copies();
    __syncthreads();
    const S *const lane = lane_of_squares(space + warp_row() * P::PITCH, P::PITCH);
    STNI_UNROLL
    for (int k = 0; k < P::SQUARES; k++)
        to[k] = read_left(lane, k * SQUARE);
}

template <int N> STNI_DEVICE void clear_products(product (&to)[N])
{
    STNI_UNROLL
    for (int n = 0; n < N; n++)
        clear_product(to[n]);
}

/* Own rows times 16 N rows of a tile: products of rows. */
template <class P, int N, class S>
STNI_DEVICE void multiply_rows(const own_factors<P> &own, const S *tile, product (&to)[N])
{
    const S *const lane = lane_of_transposes(tile, P::PITCH);
    clear_products(to);
    STNI_UNROLL
    for (int k = 0; k < P::SQUARES; k++)
        STNI_UNROLL
        for (int n = 0; n < N; n++)
            multiply_add(S{}, to[n], own[k], read_right_transposed(lane, (n * P::PITCH + k) * SQUARE));
}

/* Adds the rows of a tile, times factors, which are rounded to 16 bits. */
template <class P, int K, class S>
STNI_DEVICE void add_rows(const product (&factor)[K], const S *tile, row_products<P> &to)
{
    const S *const lane = lane_of_squares(tile, P::PITCH);
    STNI_UNROLL
    for (int k = 0; k < K; k++) {
        const left_factor left = rounded(S{}, factor[k]);
        STNI_UNROLL
        for (int n = 0; n < P::SQUARES; n++)
            multiply_add(S{}, to[n], left, read_right(lane, (k * P::PITCH + n) * SQUARE));
    }
}

/* Calls visit(row, n, half, i) for each number of a lane's products, row by row of the two that it has parts of. */
template <int N, class F> STNI_DEVICE void for_numbers(F visit)
{
    STNI_UNROLL
    for (int row = 0; row < 2; row++)
        STNI_UNROLL
        for (int n = 0; n < N; n++)
            STNI_UNROLL
            for (int half = 0; half < 2; half++)
                STNI_UNROLL
                for (int i = 2 * row; i < 2 * row + 2; i++)
                    visit(row, n, half, i);
}

/* The four lanes of a row are neighbours. */
STNI_DEVICE float sum_of_lanes(float value)
{
    value += value_across(value, 1);
    return value + value_across(value, 2);
}

STNI_DEVICE float largest_of_lanes(float value)
{
    value = fmaxf(value, value_across(value, 1));
    return fmaxf(value, value_across(value, 2));
}

/* The warp's rows of a result, of which row 0 is `first`, each number times `scale[row]`. */
template <class S, int N>
STNI_DEVICE void store_rows(const stni_attention_operand &o, const section &of, int64_t first, const float (&scale)[2],
                            const product (&from)[N])
{
    S *const to = (S *)o.data + of.at;
    for_numbers<N>([&](int row, int n, int half, int i) {
        const int64_t r = first + product_row(i);
        const int c = n * SQUARE + product_col(half, i);
        if (r < of.rows && c < of.cols)
            store(to[r * o.row + c * o.col], from[n].v[half][i] * scale[row]);
    });
}

}

#endif
