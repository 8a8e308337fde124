/* Transposes of planes through tiles of shared memory, so that both sides are touched in whole lines:
 *
 *     dst[r, c] = src[r, c], the columns of a row dense in dst, the rows of a column dense in src.
 *
 * Where all rows and columns begin at multiples of 16 bytes and are whole packs of them, threads read packs of
 * elements of a column and write packs of elements of a row. Elements of fewer than 4 bytes are joined to words of
 * 4 on the way: neighbours of a row, as the destination wants them. Else an element is moved at a time. */
#ifndef STNI_CORE_BOX_BOX_TRANSPOSE_CUH
#define STNI_CORE_BOX_BOX_TRANSPOSE_CUH

#include "core/box/box_sides.cuh"
#include "core/device/cuda/dispatch.cuh"

namespace {

enum { TILE_THREADS = 256, TILE_PACKS = 4 /* of a thread */, SHORT_DIM = 16 };

/* Of each plane; strides in elements. */
struct plane_lines {
    int64_t rows, cols, dst_row, src_col;
};

struct planes {
    sides outer; /* the planes */
    plane_lines lines;
    divider down, across; /* the tiles of a plane */
};

/* The first row and column of a block's tile, and where its plane begins. */
struct tile_place {
    int64_t row, col, at[SIDES];
};

/* Its plane, of those whose tiles come one after the other, row by row. */
STNI_DEVICE uint32_t find_tile(uint32_t block, const divider &down, const divider &across, int rows, int cols,
                               tile_place &t)
{
    const uint32_t line = divide(block, across), plane = divide(line, down);
    t.row = (int64_t)(line - plane * down.divisor) * rows;
    t.col = (int64_t)(block - line * across.divisor) * cols;
    return plane;
}

STNI_DEVICE tile_place tile_of(const planes &p, uint32_t block, int rows, int cols)
{
    tile_place t;
    offsets_of(p.outer, find_tile(block, p.down, p.across, rows, cols, t), t.at);
    return t;
}

/* What lies in shared memory of elements of W: W itself, or a word of 4 bytes. */
template <class W> struct tile_word {
    typedef W type;
};
template <> struct tile_word<uint8_t> {
    typedef uint32_t type;
};
template <> struct tile_word<uint16_t> {
    typedef uint32_t type;
};

/* The tile of packs. A group is PACK rows of JOINED columns, which becomes PACK words, one for each row; a line is
 * a row's words. Behind the lines of a group 16 bytes are left free, so that neighbouring groups of rows begin in
 * other banks. */
template <class W> struct pack_tile {
    typedef typename tile_word<W>::type word;
    typedef pack<word> words;
    enum {
        PACK = pack<W>::SIZE,
        JOINED = sizeof(word) / sizeof(W),
        ROWS = sizeof(W) == 1 ? 128 : sizeof(W) <= 4 ? 64 : 32,
        COLS = TILE_THREADS * TILE_PACKS * PACK / ROWS,
        ROW_GROUPS = ROWS / PACK,
        COL_GROUPS = TILE_THREADS / ROW_GROUPS, /* that all threads read at once */
        GROUPS = TILE_PACKS / JOINED,           /* of a thread */
        LINE = COLS / PACK,                     /* packs */
        LINES = TILE_THREADS / LINE,            /* that all threads write at once */
        SIZE = ROWS * LINE + ROW_GROUPS         /* packs */
    };
};

/* Where row r's line begins, in packs. */
template <class W> STNI_DEVICE int line_of(int r)
{
    return r * pack_tile<W>::LINE + r / pack_tile<W>::PACK;
}

/* Row j of a group. */
template <class W> STNI_DEVICE typename tile_word<W>::type joined(const pack<W> (&group)[pack_tile<W>::JOINED], int j)
{
    if constexpr (pack_tile<W>::JOINED == 1) {
        return group[0].v[j];
    } else {
        uint32_t word = 0;
        STNI_UNROLL
        for (int k = 0; k < pack_tile<W>::JOINED; k++)
            word |= (uint32_t)group[k].v[j] << (k * 8 * (int)sizeof(W));
        return word;
    }
}

/* One tile, by a block's threads; `tile` is SIZE packs that they share. */
template <class W>
STNI_DEVICE void transpose_tile(const plane_lines &p, const tile_place &t, W *__restrict__ dst,
                                const W *__restrict__ src, typename pack_tile<W>::words *tile)
{
    typedef pack_tile<W> T;
    typedef typename T::words words;
    const int thread = (int)threadIdx.x;
    const int row_group = thread % T::ROW_GROUPS, col_group = thread / T::ROW_GROUPS;
    pack<W> in[T::GROUPS][T::JOINED];
    STNI_UNROLL
    for (int g = 0; g < T::GROUPS; g++) {
        const int64_t row = t.row + row_group * T::PACK, col = t.col + (col_group + g * T::COL_GROUPS) * T::JOINED;
        STNI_UNROLL
        for (int k = 0; k < T::JOINED; k++)
            if (row < p.rows && col < p.cols)
                in[g][k] = *reinterpret_cast<const pack<W> *>(src + t.at[SRC] + (col + k) * p.src_col + row);
    }
    STNI_UNROLL
    for (int g = 0; g < T::GROUPS; g++) {
        const int word = col_group + g * T::COL_GROUPS;
        STNI_UNROLL
        for (int j = 0; j < T::PACK; j++)
            tile[line_of<W>(row_group * T::PACK + j) + word / words::SIZE].v[word % words::SIZE] = joined<W>(in[g], j);
    }
    __syncthreads();
    const int line = thread / T::LINE, across = thread % T::LINE;
    STNI_UNROLL
    for (int k = 0; k < TILE_PACKS; k++) {
        const int r = line + k * T::LINES;
        const int64_t row = t.row + r, col = t.col + across * T::PACK;
        if (row < p.rows && col < p.cols)
            *reinterpret_cast<words *>(dst + t.at[DST] + row * p.dst_row + col) = tile[line_of<W>(r) + across];
    }
}

template <class W> __global__ void __launch_bounds__(TILE_THREADS)
transpose_packs(const __grid_constant__ planes p, W *__restrict__ dst, const W *__restrict__ src)
{
    typedef pack_tile<W> T;
    STNI_SHARED(typename T::words, tile, T::SIZE);
    transpose_tile(p.lines, tile_of(p, blockIdx.x, T::ROWS, T::COLS), dst, src, tile);
}

/* The tile of elements; an element is left free behind each of its lines, which here are columns. */
template <class W> struct element_tile {
    enum { SIDE = sizeof(W) <= 4 ? 64 : 32, PITCH = SIDE + 1, LINES = TILE_THREADS / SIDE, EACH = SIDE / LINES };
};

template <class W> __global__ void __launch_bounds__(TILE_THREADS)
transpose_elements(const __grid_constant__ planes p, W *__restrict__ dst, const W *__restrict__ src)
{
    typedef element_tile<W> T;
    STNI_SHARED(W, tile, T::SIDE *T::PITCH);
    const plane_lines &lines = p.lines;
    const tile_place t = tile_of(p, blockIdx.x, T::SIDE, T::SIDE);
    const int across = (int)threadIdx.x % T::SIDE, line = (int)threadIdx.x / T::SIDE;
    W in[T::EACH];
    STNI_UNROLL
    for (int k = 0; k < T::EACH; k++) {
        const int64_t row = t.row + across, col = t.col + line + k * T::LINES;
        if (row < lines.rows && col < lines.cols)
            in[k] = src[t.at[SRC] + col * lines.src_col + row];
    }
    STNI_UNROLL
    for (int k = 0; k < T::EACH; k++)
        tile[(line + k * T::LINES) * T::PITCH + across] = in[k];
    __syncthreads();
    STNI_UNROLL
    for (int k = 0; k < T::EACH; k++) {
        const int r = line + k * T::LINES;
        const int64_t row = t.row + r, col = t.col + across;
        if (row < lines.rows && col < lines.cols)
            dst[t.at[DST] + row * lines.dst_row + col] = tile[across * T::PITCH + r];
    }
}

/* Which dim of the source is dense, where that is not the innermost one of the destination, which is dense there, and
 * both are long; else -1. */
int transposed_dim(const sides &s)
{
    const int last = s.ndim - 1;
    if (last < 1 || s.stride[DST][last] != 1 || s.shape[last] < SHORT_DIM)
        return -1;
    for (int d = 0; d < last; d++)
        if (s.stride[SRC][d] == 1 && s.shape[d] >= SHORT_DIM)
            return d;
    return -1;
}

/* Whether packs serve: all addresses, and both dense dims, are multiples of 16 bytes. */
bool has_pack_lines(const planes &p, int64_t element, uintptr_t addresses)
{
    const plane_lines &lines = p.lines;
    uint64_t elements = (uint64_t)lines.rows | (uint64_t)lines.cols | (uint64_t)lines.dst_row | (uint64_t)lines.src_col;
    elements |= stride_bits(p.outer, DST, 0) | stride_bits(p.outer, SRC, 0);
    return is_pack_aligned(addresses | (uintptr_t)elements * (uintptr_t)element);
}

/* The blocks that its tiles of rows x cols elements take. */
unsigned cut_to_tiles(planes &p, int rows, int cols)
{
    const int64_t down = (p.lines.rows + rows - 1) / rows, across = (p.lines.cols + cols - 1) / cols;
    p.down = divider_of(down);
    p.across = divider_of(across);
    return blocks_for(p.outer.count * down * across, 1);
}

planes planes_of(const sides &s, int row_dim)
{
    const int col_dim = s.ndim - 1;
    planes p;
    p.outer = outer_sides(s, row_dim, col_dim);
    p.lines = {s.shape[row_dim], s.shape[col_dim], s.stride[DST][row_dim], s.stride[SRC][col_dim]};
    return p;
}

template <class W> void launch_transpose(const sides &s, int row_dim, W *dst, const W *src, cudaStream_t stream)
{
    planes p = planes_of(s, row_dim);
    if (sizeof(W) == sizeof(unit16) || has_pack_lines(p, sizeof(W), (uintptr_t)dst | (uintptr_t)src)) {
        const unsigned blocks = cut_to_tiles(p, pack_tile<W>::ROWS, pack_tile<W>::COLS);
        STNI_LAUNCH(transpose_packs<W>, blocks, TILE_THREADS, stream, p, dst, src);
    } else if constexpr (sizeof(W) < sizeof(unit16)) {
        const unsigned blocks = cut_to_tiles(p, element_tile<W>::SIDE, element_tile<W>::SIDE);
        STNI_LAUNCH(transpose_elements<W>, blocks, TILE_THREADS, stream, p, dst, src);
    }
}

}

#endif
