/* From the index of an element to its offsets: division by multiplication, and dims merged over several operands. */
#ifndef STNI_CORE_DEVICE_CUDA_INDEX_CUH
#define STNI_CORE_DEVICE_CUDA_INDEX_CUH

#include "core/device/cuda/grid.h"

#include <shardtensor/comm.h>

namespace {

/* Division of n < 2^31 by a number that all threads share: n / d = (n + (n m >> 32)) >> s with 2^s >= d > 2^(s-1)
 * and m = 2^32 (2^s - d) / d + 1. Source: Granlund and Montgomery 1994, "Division by invariant integers using
 * multiplication". */
struct divider {
    uint32_t divisor, multiplier, shift;
};

inline divider divider_of(int64_t divisor)
{
    divider by = {(uint32_t)divisor, 0, 0};
    while (((int64_t)1 << by.shift) < divisor)
        by.shift++;
    by.multiplier =
        (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << by.shift) - (uint64_t)divisor)) / (uint64_t)divisor + 1);
    return by;
}

STNI_HOST_DEVICE uint32_t divide(uint32_t n, const divider &by)
{
    const uint32_t high = (uint32_t)((uint64_t)n * by.multiplier >> 32);
    return (n + high) >> by.shift;
}

/* N operands over one index space: dims of size 1 are gone, neighbours that are one dim in every operand are merged.
 * The last dim is the innermost; strides in elements, or in whatever the caller counts. */
template <int N> struct operands {
    int ndim;
    int64_t count; /* of elements */
    int64_t shape[STN_MAX_BOX_NDIM];
    int64_t stride[N][STN_MAX_BOX_NDIM];
    divider by[STN_MAX_BOX_NDIM]; /* where is_small */
};

/* Whether 32-bit indices serve for so many elements. */
STNI_HOST_DEVICE bool is_small_count(int64_t n)
{
    return n < STNI_SMALL_COUNT;
}

template <int N> STNI_HOST_DEVICE bool is_small(const operands<N> &o)
{
    return is_small_count(o.count);
}

/* Adds a dim inside of those that are there. */
template <int N> inline void add_dim(operands<N> &o, int64_t size, const int64_t (&stride)[N])
{
    o.count *= size;
    if (size == 1)
        return;
    const int last = o.ndim - 1;
    bool merges = last >= 0;
    for (int k = 0; merges && k < N; k++)
        merges = o.stride[k][last] == stride[k] * size;
    const int d = merges ? last : o.ndim++;
    o.shape[d] = merges ? o.shape[d] * size : size;
    for (int k = 0; k < N; k++)
        o.stride[k][d] = stride[k];
}

template <int N> inline operands<N> no_dims()
{
    operands<N> o;
    memset(&o, 0, sizeof o);
    o.count = 1;
    return o;
}

/* The dims of a box by falling strides: neighbours in memory come last. */
inline void order_by_strides(const stn_box &box, int (&order)[STN_MAX_BOX_NDIM])
{
    for (int d = 0; d < box.ndim; d++) {
        int at = d;
        for (; at > 0 && box.strides[order[at - 1]] < box.strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
}

/* After the last dim. */
template <int N> inline void end_dims(operands<N> &o)
{
    for (int d = 0; is_small(o) && o.count > 0 && d < o.ndim; d++)
        o.by[d] = divider_of(o.shape[d]);
}

/* Offsets of element `index`; I is uint32_t where is_small, else int64_t. The outermost dim needs no division. */
STNI_HOST_DEVICE uint32_t quotient_in_dim(uint32_t index, int64_t, const divider &by)
{
    return divide(index, by);
}

STNI_HOST_DEVICE int64_t quotient_in_dim(int64_t index, int64_t size, const divider &)
{
    return index / size;
}

template <int N, class I> STNI_HOST_DEVICE void offsets_of(const operands<N> &o, I index, int64_t (&at)[N])
{
    for (int k = 0; k < N; k++)
        at[k] = 0;
    for (int d = o.ndim - 1; d >= 0; d--) {
        const I rest = d > 0 ? quotient_in_dim(index, o.shape[d], o.by[d]) : 0;
        const int64_t here = (int64_t)(index - rest * (I)o.shape[d]);
        for (int k = 0; k < N; k++)
            at[k] += here * o.stride[k][d];
        index = rest;
    }
}

/* The same with whichever I serves. */
template <int N> STNI_DEVICE void any_offsets_of(const operands<N> &o, int64_t index, int64_t (&at)[N])
{
    if (is_small(o))
        offsets_of(o, (uint32_t)index, at);
    else
        offsets_of(o, index, at);
}

/* Which of n pieces of work block `block` is of; piece i has the blocks from begin[i] to begin[i + 1]. */
STNI_DEVICE int piece_of_block(const unsigned *begin, int n, unsigned block)
{
    int first = 0, end = n;
    while (end - first > 1) {
        const int middle = (first + end) / 2;
        if (begin[middle] <= block)
            first = middle;
        else
            end = middle;
    }
    return first;
}

/* A grid of so many blocks. One of more than a GPU takes (2^31 - 1) is not launched, which is an error; it is not cut
 * off. */
inline unsigned grid_of(int64_t blocks)
{
    const int64_t none = 0xffffffff;
    return (unsigned)(blocks > none ? none : blocks);
}

/* Blocks of `threads` threads for `n` pieces of work, a piece a thread; at least one. */
inline unsigned blocks_for(int64_t n, int64_t threads)
{
    const int64_t blocks = (n + threads - 1) / threads;
    return grid_of(blocks < 1 ? 1 : blocks);
}

}

#endif
