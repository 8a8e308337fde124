/* Attention of 16-bit floats on a CUDA device by products of tensor cores: tiles in shared memory and products with
 * them.
 *
 * A warp has 16 or 32 rows of its own, whose factors lie in registers. Its block walks over the other rows (keys where
 * its own are query rows, else query rows), a tile at a time: all warps multiply their rows by the tile that lies in
 * shared memory while copies bring the next one. Shared memory is as busy with a factor from the tile as the tensor
 * cores with its product with 16 rows: with 32, where registers suffice, they wait less. Rows of tiles have 64 or 128
 * elements, zeros behind an operand's own, and 8 elements more that nobody reads, so that rows that are read together
 * lie in different banks.
 * Source: Dao 2023, "FlashAttention-2: faster attention with better parallelism and work partitioning". */
#ifndef STNI_OPS_ATTENTION_ATTENTION_MMA_CUH
#define STNI_OPS_ATTENTION_ATTENTION_MMA_CUH

#include "core/device/cuda/block.cuh"
#include "core/device/cuda/large_shared.cuh"
#include "core/device/cuda/late_copies.cuh"
#include "core/device/cuda/tensor_cores.cuh"
#include "ops/attention/attention_place.cuh"

namespace {

/* How a kernel goes about operands of elements S in rows of up to W: squares of a warp's own rows, one below another;
 * how many warps, blocks, and products with how many other rows at once find registers; of how many operands the
 * factors of own rows do not, and are read from shared memory each time. */
template <class S, int W, int WARP_SQUARES, int BLOCK_WARPS, int BLOCKS_OF_PROCESSOR, int OTHERS, int KEPT_OPERANDS = 0>
struct mma_shape {
    typedef S element;
    enum {
        WIDTH = W,
        SQUARES = W / SQUARE, /* of a row */
        HIGH = WARP_SQUARES,
        WARPS = BLOCK_WARPS,
        THREADS = WARP * WARPS,
        BLOCKS = BLOCKS_OF_PROCESSOR,
        WARP_ROWS = SQUARE * HIGH,
        OWN = WARP_ROWS * WARPS, /* rows of a block's own */
        ROWS = 4096 / W,      /* of a tile */
        PITCH = W + 8,        /* elements from row to row */
        TILE = ROWS * PITCH,  /* elements */
        AT_ONCE = OTHERS,
        KEPT = KEPT_OPERANDS
    };
    static_assert(KEPT > 0 || OWN * PITCH <= 4 * TILE, "own rows lie where the tiles do later");
};

/* Shared memory of a block: tiles of two operands, of each one that is read and one that is written meanwhile; then
 * its own rows. Those that become factors in registers take the space of the tiles before the walk. */
template <class P> struct alignas(16) tiles {
    typename P::element elements[4 * P::TILE + P::KEPT * P::OWN * P::PITCH];
};

/* Where the rows of a block's own lie. */
template <class P> STNI_DEVICE typename P::element *own_space(tiles<P> *memory, int operand)
{
    return memory->elements + (P::KEPT > 0 ? 4 * P::TILE + operand * P::OWN * P::PITCH : 0);
}

/* Elements from the first tile to an operand's. */
template <class P> STNI_DEVICE int tile_of(int operand, int turn)
{
    return (2 * turn + operand) * P::TILE;
}

/* Where in the first tile a lane reads squares and transposes of squares, and where a thread's first pack of rows goes;
 * and how many bytes behind that those of another tile and row are. */
template <class P> struct places_in_tiles {
    shared_address squares, transposes, packs;
};

template <class P> STNI_DEVICE int bytes_to(int operand, int turn, int row)
{
    return (tile_of<P>(operand, turn) + row * P::PITCH) * (int)sizeof(typename P::element);
}

template <class P> using row_products = product[P::HIGH][P::SQUARES];

/* The factors of a warp's own rows: in registers, or where its lanes read them. */
template <class P, bool IS_KEPT = (P::KEPT > 0)> struct own_factors {
    left_factor of[P::HIGH][P::SQUARES];
};

template <class P> struct own_factors<P, true> {
    shared_address lane;
};

template <class P> STNI_DEVICE left_factor factor_of(const own_factors<P, false> &own, int m, int k)
{
    return own.of[m][k];
}

template <class P> STNI_DEVICE left_factor factor_of(const own_factors<P, true> &own, int m, int k)
{
    return read_left(own.lane, (m * P::PITCH + k) * SQUARE);
}

template <class P> STNI_DEVICE void take_factors(shared_address lane, own_factors<P, false> &to)
{
    STNI_UNROLL
    for (int m = 0; m < P::HIGH; m++)
        STNI_UNROLL
        for (int k = 0; k < P::SQUARES; k++)
            to.of[m][k] = read_left(lane, (m * P::PITCH + k) * SQUARE);
}

template <class P> STNI_DEVICE void take_factors(shared_address lane, own_factors<P, true> &to)
{
    to.lane = lane;
}

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
        copy_late<16>(address_in_shared(tile + row * P::PITCH + col), k * P::PITCH * (int)sizeof(S), piece, is_there);
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

/* A thread copies packs of the same place in rows, a row in so many. */
template <class P> STNI_DEVICE int pack_row()
{
    return (int)threadIdx.x / (P::WIDTH / pack<typename P::element>::SIZE);
}

template <class P> STNI_DEVICE int pack_col()
{
    enum { SIZE = pack<typename P::element>::SIZE };
    return (int)threadIdx.x % (P::WIDTH / SIZE) * SIZE;
}

template <class P> STNI_DEVICE places_in_tiles<P> places_in(const tiles<P> *memory)
{
    const typename P::element *const first = memory->elements;
    return {lane_of_squares(first, P::PITCH), lane_of_transposes(first, P::PITCH),
            address_in_shared(first + pack_row<P>() * P::PITCH + pack_col<P>())};
}

/* A thread's first pack of the next tile of an operand; NULL where rows are not whole packs of the tile's width. */
template <class P> struct source {
    const typename P::element *from;
};

template <class P>
STNI_DEVICE source<P> source_of(const stni_attention_operand &o, const section &of, int64_t first)
{
    typedef typename P::element S;
    const S *const from = (const S *)o.data + of.at + first * o.row;
    const uintptr_t addresses = (uintptr_t)from | (uintptr_t)(o.row * (int64_t)sizeof(S));
    const bool is_plain = o.col == 1 && of.cols == P::WIDTH && is_pack_aligned(addresses);
    return {is_plain ? from + pack_row<P>() * o.row + pack_col<P>() : NULL};
}

/* Begins to copy the next tile, from row `first` on. */
template <class P>
STNI_DEVICE void copy_tile(tiles<P> *memory, const places_in_tiles<P> &places, int operand, int turn,
                           const stni_attention_operand &o, const section &of, int64_t first, source<P> &next)
{
    enum { AT_ONCE = P::THREADS / (P::WIDTH / pack<typename P::element>::SIZE) };
    if (!next.from || first + P::ROWS > of.rows) {
        copy_rows<P, P::ROWS>(memory->elements + tile_of<P>(operand, turn), o, of, first);
        return;
    }
    STNI_UNROLL
    for (int k = 0; k < P::ROWS; k += AT_ONCE) {
        copy_late<16>(places.packs + bytes_to<P>(operand, turn, 0), bytes_to<P>(0, 0, k), next.from, true);
        next.from += AT_ONCE * o.row;
    }
}

/* Which of the block's own rows is the warp's first. */
template <class P> STNI_DEVICE int warp_row()
{
    return (int)threadIdx.x / WARP * P::WARP_ROWS;
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
    take_factors<P>(lane_of_squares(space + warp_row<P>() * P::PITCH, P::PITCH), to);
}

template <int M, int N> STNI_DEVICE void clear_products(product (&to)[M][N])
{
    STNI_UNROLL
    for (int m = 0; m < M; m++)
        STNI_UNROLL
        for (int n = 0; n < N; n++)
            clear_product(to[m][n]);
}

/* Adds to products one below another those of left factors one below another with one right factor. */
template <class S, int M, int N>
STNI_DEVICE void multiply_add_all(S, product (&to)[M][N], int n, const left_factor (&left)[M],
                                  const right_factor &right)
{
    STNI_UNROLL
    for (int m = 0; m < M; m++)
        multiply_add(S{}, to[m][n], left[m], right);
}

/* Own rows times 16 N rows of a tile, from its transposes: products of rows. */
template <class P, int N>
STNI_DEVICE void multiply_rows(const own_factors<P> &own, shared_address lane, product (&to)[P::HIGH][N])
{
    typedef typename P::element S;
    clear_products(to);
    STNI_UNROLL
    for (int k = 0; k < P::SQUARES; k++) {
        left_factor left[P::HIGH];
        STNI_UNROLL
        for (int m = 0; m < P::HIGH; m++)
            left[m] = factor_of<P>(own, m, k);
        STNI_UNROLL
        for (int n = 0; n < N; n++)
            multiply_add_all(S{}, to, n, left, read_right_transposed(lane, (n * P::PITCH + k) * SQUARE));
    }
}

/* Adds the rows of a tile, from its squares, times factors, which are rounded to 16 bits. */
template <class P, int K>
STNI_DEVICE void add_rows(const product (&factor)[P::HIGH][K], shared_address lane, row_products<P> &to)
{
    typedef typename P::element S;
    STNI_UNROLL
    for (int k = 0; k < K; k++) {
        left_factor left[P::HIGH];
        STNI_UNROLL
        for (int m = 0; m < P::HIGH; m++)
            left[m] = rounded(S{}, factor[m][k]);
        STNI_UNROLL
        for (int n = 0; n < P::SQUARES; n++)
            multiply_add_all(S{}, to, n, left, read_right(lane, (k * P::PITCH + n) * SQUARE));
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

/* The numbers of a lane in one of its two rows of a result, times `scale`. */
template <class S, int N>
STNI_DEVICE void store_row(S *to, int64_t col_stride, int64_t cols, float scale, int row, const product (&from)[N])
{
    S *const pairs = to + product_col(0, 0);
    const bool is_plain = sizeof(S) < sizeof(float) && col_stride == 1 && cols == N * SQUARE &&
                          (uintptr_t)pairs % sizeof(uint32_t) == 0;
    STNI_UNROLL
    for (int n = 0; n < N; n++)
        STNI_UNROLL
        for (int half = 0; half < 2; half++) {
            const float a = from[n].v[half][2 * row] * scale, b = from[n].v[half][2 * row + 1] * scale;
            const int col = n * SQUARE + product_col(half, 0);
            if constexpr (sizeof(S) < sizeof(float))
                if (is_plain)
                    *(uint32_t *)(pairs + n * SQUARE + half * SQUARE / 2) = store_two(S{}, a, b);
            if (!is_plain && col < cols)
                store(to[col * col_stride], a);
            if (!is_plain && col + 1 < cols)
                store(to[(col + 1) * col_stride], b);
        }
}

/* 16 rows of a result, of which row 0 is `first`, each number times `scale[row]`. */
template <class S, int N>
STNI_DEVICE void store_rows(const stni_attention_operand &o, const section &of, int64_t first, const float (&scale)[2],
                            const product (&from)[N])
{
    STNI_UNROLL
    for (int row = 0; row < 2; row++) {
        const int64_t r = first + product_row(2 * row);
        if (r < of.rows)
            store_row((S *)o.data + of.at + r * o.row, o.col, of.cols, scale[row], row, from);
    }
}

}

#endif
