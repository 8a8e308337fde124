/* Copies of rows that are dense on both sides, but not whole packs of 16 bytes, or not at addresses that allow
 * packs on both sides.
 *
 * The destination's rows are cut at multiples of 16 bytes. A thread writes whole packs at once, and what is cut off
 * at a row's ends unit by unit. It reads a pack at once where the source's address allows that too, else unit by
 * unit: neighbouring threads read the same lines, which come from the cache then. */
#ifndef STNI_CORE_BOX_BOX_ROWS_CUH
#define STNI_CORE_BOX_BOX_ROWS_CUH

#include "core/box/box_sides.cuh"

namespace {

enum {
    ROWS_THREADS = 256,
    LEAST_ROW = 64 /* bytes: of shorter rows too few packs are whole */
};

/* Of a thread, all of which are read before one is written; of bytes fewer, whose packs take more registers. */
template <class W> constexpr int ROW_PACKS = sizeof(W) > 1 ? 4 : 2;

/* Strides and lengths in units. */
struct rows {
    sides outer;     /* the rows */
    uint32_t length; /* of a row */
    uint32_t count;  /* packs of all rows */
    divider packs;   /* of a row: as many as one has that is cut badly */
};

/* Units `low` to `high` of a pack of the destination, none where they are equal; `at`: where unit 0 would be, which
 * in a row's first pack may be before the row. */
struct row_pack {
    int64_t at[SIDES];
    int low, high;
};

template <class W> STNI_DEVICE row_pack row_pack_of(const rows &r, uint32_t i, const W *dst)
{
    enum { SIZE = pack<W>::SIZE };
    row_pack p = {{0, 0}, 0, 0};
    if (i >= r.count)
        return p;
    const uint32_t row = divide(i, r.packs);
    offsets_of(r.outer, row, p.at);
    const int head = (int)((uintptr_t)(dst + p.at[DST]) / sizeof(W) % SIZE);
    const int64_t begin = (int64_t)(i - row * r.packs.divisor) * SIZE - head, left = (int64_t)r.length - begin;
    p.low = begin < 0 ? head : 0;
    p.high = left >= SIZE ? SIZE : left > 0 ? (int)left : 0;
    p.at[DST] += begin;
    p.at[SRC] += begin;
    return p;
}

template <class W> STNI_DEVICE bool is_whole(const row_pack &p)
{
    return p.high - p.low == pack<W>::SIZE;
}

template <class W> STNI_DEVICE void read_row_pack(const row_pack &p, const W *src, pack<W> &value)
{
    const W *from = src + p.at[SRC];
    if (is_whole<W>(p) && is_pack_aligned((uintptr_t)from)) {
        value = *reinterpret_cast<const pack<W> *>(from);
        return;
    }
    STNI_UNROLL
    for (int j = 0; j < pack<W>::SIZE; j++)
        if (j >= p.low && j < p.high)
            value.v[j] = from[j];
}

template <class W> STNI_DEVICE void write_row_pack(const row_pack &p, W *dst, const pack<W> &value)
{
    W *to = dst + p.at[DST];
    if (is_whole<W>(p)) {
        *reinterpret_cast<pack<W> *>(to) = value;
        return;
    }
    STNI_UNROLL
    for (int j = 0; j < pack<W>::SIZE; j++)
        if (j >= p.low && j < p.high)
            to[j] = value.v[j];
}

template <class W> __global__ void __launch_bounds__(ROWS_THREADS)
copy_rows(const __grid_constant__ rows r, W *__restrict__ dst, const W *__restrict__ src)
{
    const uint32_t first = blockIdx.x * (ROWS_THREADS * ROW_PACKS<W>) + threadIdx.x;
    row_pack place[ROW_PACKS<W>];
    pack<W> value[ROW_PACKS<W>];
    STNI_UNROLL
    for (int k = 0; k < ROW_PACKS<W>; k++) {
        place[k] = row_pack_of(r, first + k * ROWS_THREADS, dst);
        read_row_pack(place[k], src, value[k]);
    }
    STNI_UNROLL
    for (int k = 0; k < ROW_PACKS<W>; k++)
        write_row_pack(place[k], dst, value[k]);
}

/* Packs that a row of the copy has at most, in units of `unit` bytes; fewer where every row begins with a pack. */
int64_t packs_of_a_row(const sides &s, int64_t unit, const void *dst)
{
    const int64_t size = (int64_t)sizeof(pack<uint8_t>) / unit, length = s.shape[s.ndim - 1];
    const bool begins = is_pack_aligned((uintptr_t)dst | (uintptr_t)stride_bits(s, DST, 1) * (uintptr_t)unit);
    return (length + (begins ? 0 : size - 1) + size - 1) / size;
}

/* Whether the copy is one of rows that this serves. */
bool is_of_rows(const sides &s, int64_t unit, const void *dst)
{
    const int last = s.ndim - 1;
    if (last < 0 || !is_small(s) || unit >= (int64_t)sizeof(pack<uint8_t>))
        return false;
    if (s.stride[DST][last] != 1 || s.stride[SRC][last] != 1)
        return false;
    const int64_t packs = s.count / s.shape[last] * packs_of_a_row(s, unit, dst);
    return s.shape[last] * unit >= LEAST_ROW && is_small_count(packs);
}

template <class W> void launch_rows(const sides &s, W *dst, const W *src, cudaStream_t stream)
{
    const int last = s.ndim - 1;
    const int64_t packs = packs_of_a_row(s, sizeof(W), dst);
    rows r;
    r.outer = outer_sides(s, last, last);
    r.length = (uint32_t)s.shape[last];
    r.count = (uint32_t)(r.outer.count * packs);
    r.packs = divider_of(packs);
    STNI_LAUNCH(copy_rows<W>, blocks_for(r.count, ROWS_THREADS * ROW_PACKS<W>), ROWS_THREADS, stream, r, dst, src);
}

}

#endif
