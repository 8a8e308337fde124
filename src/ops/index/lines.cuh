/* Lines of elements beside each other, of each of which one index is looked up: how a grid's threads share them, and
 * how a read's lines come to be moved in units of up to 16 bytes. */
#ifndef STNI_OPS_INDEX_LINES_CUH
#define STNI_OPS_INDEX_LINES_CUH

#include "core/device/cuda/index.cuh"
#include "ops/index/access_kernel.h"

namespace {

enum { LINE_THREADS = 256 };

/* Elements of a thread, so many reads at once. */
template <class T> constexpr int line_each = sizeof(T) > 4 ? 2 : 4;

/* `count` lines of `length` elements. */
struct lines {
    int64_t count, length;
    int team, each;  /* threads of a line, a power of two, and elements of a thread */
    uint32_t pieces; /* of a line, each of its own team */
};

inline lines lines_of(int64_t count, int64_t length, int each)
{
    lines l = {count, length, 1, each, 1};
    while (l.team < LINE_THREADS && l.team < length)
        l.team *= 2;
    const int64_t pieces = (length + l.team * each - 1) / (l.team * each);
    l.pieces = (uint32_t)(pieces < 1 ? 1 : pieces);
    return l;
}

inline int64_t line_blocks(const lines &l)
{
    const int64_t together = LINE_THREADS / l.team;
    return (l.count + together - 1) / together * l.pieces;
}

/* A thread's line, and the first of its elements, which are `team` apart; the line may be beyond the last one. */
STNI_DEVICE void find_line(const lines &l, int64_t &line, int64_t &first)
{
    const uint32_t together = blockIdx.x / l.pieces, piece = blockIdx.x - together * l.pieces;
    const int me = (int)threadIdx.x;
    line = (int64_t)together * (LINE_THREADS / l.team) + me / l.team;
    first = (int64_t)piece * l.team * l.each + me % l.team;
}

/* Makes the last dim and the one before it one, if the index has neither and both operands allow it. */
inline bool join_last_dims(stni_access &a)
{
    const int last = a.ndim - 1, before = last - 1;
    if (before < 0 || a.index_strides[last] != 0 || a.index_strides[before] != 0)
        return false;
    if (a.shape[last] != 1) {
        if (a.shape[before] != 1 && (a.value_strides[before] != a.value_strides[last] * a.shape[last] ||
                                     a.table_strides[before] != a.table_strides[last] * a.shape[last]))
            return false;
        a.value_strides[before] = a.value_strides[last];
        a.table_strides[before] = a.table_strides[last];
    }
    a.shape[before] *= a.shape[last];
    a.ndim--;
    return true;
}

/* Whether the last dim is of lines that lie densely in both operands. */
inline bool has_lines(const stni_access &a)
{
    const int last = a.ndim - 1;
    return last >= 0 && a.shape[last] > 1 && a.index_strides[last] == 0 && a.value_strides[last] == 1 &&
           a.table_strides[last] == 1;
}

/* How many elements of `size` bytes, a power of two, can be moved at once wherever a line lies. */
inline int elements_of_unit(const stni_access &a, size_t size)
{
    const int last = a.ndim - 1;
    const uintptr_t addresses = (uintptr_t)a.values | (uintptr_t)a.table;
    uint64_t steps = (uint64_t)a.shape[last] | (uint64_t)a.base;
    for (int d = 0; d < last; d++)
        steps |= a.shape[d] == 1 ? 0 : (uint64_t)a.value_strides[d] | (uint64_t)a.table_strides[d];
    for (int k = 0; k < a.n_keys; k++)
        steps |= (uint64_t)a.key_strides[k];
    unsigned n = 16 / (unsigned)size;
    while (n > 1 && (steps % n != 0 || addresses % (n * size) != 0))
        n /= 2;
    return (int)n;
}

/* Counts the elements of lines in units of n. */
inline void count_in_units(stni_access &a, int n)
{
    const int last = a.ndim - 1;
    a.shape[last] /= n;
    a.base /= n;
    for (int d = 0; d < last; d++) {
        a.value_strides[d] /= n;
        a.table_strides[d] /= n;
    }
    for (int k = 0; k < a.n_keys; k++)
        a.key_strides[k] /= n;
}

}

#endif
