/* Reads of single elements by index. A thread reads several indices, then the elements that they name, so that several
 * reads of each kind are under way at once.
 *
 * Where an index names rows, and neighbouring positions neighbouring columns, each line of positions reads elements of
 * the whole table, of each of which the device moves a sector of 32 bytes. So blocks go down a strip of columns first:
 * that part of the table stays in the device's cache, and its sectors are used as often as they have elements. */
#ifndef STNI_OPS_INDEX_READ_BY_INDEX_CUH
#define STNI_OPS_INDEX_READ_BY_INDEX_CUH

#include "ops/index/positions.cuh"

namespace {

enum { READ_THREADS = 128, READ_EACH = 4 /* positions of a thread */, READ_BLOCK = READ_THREADS * READ_EACH };
enum { STRIP_BYTES = 8 << 20 /* of a table: a part of the cache, through which indices and values pass too */ };

/* Of each `row` blocks, a line of positions, `strip` are taken, then as many of the next line, and so on to the last
 * one. Any order of blocks is right; of lines that are no whole number of blocks it follows the columns roughly. */
struct strips {
    int64_t row, strip, lines;
};

inline strips strips_of(const access &a, size_t element_size)
{
    const operands<SIDES> &o = a.positions;
    const int last = o.ndim - 1;
    const int64_t blocks = (o.count + READ_BLOCK - 1) / READ_BLOCK;
    int64_t rows = 1;
    for (int k = 0; k < a.at.n_keys; k++)
        rows *= a.at.key_shape[k] > 0 ? a.at.key_shape[k] : 1;
    const int64_t row = last > 0 && o.stride[TABLE][last] == 1 ? o.shape[last] / READ_BLOCK : 0;
    const int64_t strip = STRIP_BYTES / rows / ((int64_t)element_size * READ_BLOCK);
    if (row < 2 || strip >= row)
        return {1, 1, blocks};
    return {row, strip > 0 ? strip : 1, (blocks + row - 1) / row};
}

/* Of the grid; the last strip may have fewer columns, for which some blocks have nothing to do. */
inline int64_t blocks_of(const strips &s)
{
    return (s.row + s.strip - 1) / s.strip * s.strip * s.lines;
}

/* Which block of positions is the grid's block; -1: none. */
STNI_DEVICE int64_t block_of(const strips &s)
{
    const int64_t of_strip = s.strip * s.lines, strip = blockIdx.x / of_strip, rest = blockIdx.x - strip * of_strip;
    const int64_t line = rest / s.strip, in_row = strip * s.strip + rest - line * s.strip;
    return in_row < s.row ? line * s.row + in_row : -1;
}

template <class W> __global__ void __launch_bounds__(READ_THREADS)
read_by_index(const __grid_constant__ access a, const __grid_constant__ strips s)
{
    const int64_t block = block_of(s), first = block * READ_BLOCK + threadIdx.x, count = a.positions.count;
    int64_t at[READ_EACH][SIDES], from[READ_EACH];
    W held[READ_EACH];
    if (block < 0)
        return;
    STNI_UNROLL
    for (int e = 0; e < READ_EACH; e++)
        if (first + e * READ_THREADS < count) {
            find(a.positions, first + e * READ_THREADS, at[e]);
            from[e] = stni_access_index(a.at.index, a.at.index_dtype, at[e][INDEX]);
        }
    STNI_UNROLL
    for (int e = 0; e < READ_EACH; e++)
        if (first + e * READ_THREADS < count)
            from[e] = locate_index(a, first + e * READ_THREADS, from[e], at[e][TABLE]);
    STNI_UNROLL
    for (int e = 0; e < READ_EACH; e++)
        if (first + e * READ_THREADS < count)
            held[e] = from[e] < 0 ? W() : static_cast<const W *>(a.at.table)[from[e]];
    STNI_UNROLL
    for (int e = 0; e < READ_EACH; e++)
        if (first + e * READ_THREADS < count)
            static_cast<W *>(a.at.values)[at[e][VALUE]] = held[e];
}

template <class W> void launch_read_of(const access &a, cudaStream_t stream)
{
    const strips s = strips_of(a, sizeof(W));
    if (a.positions.count > 0)
        STNI_LAUNCH(read_by_index<W>, blocks_for(blocks_of(s), 1), READ_THREADS, stream, a, s);
}

}

#endif
