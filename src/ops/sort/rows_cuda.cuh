/* Lines that fit a block, in order on a CUDA device: one kernel reads a line, sorts it and writes what is wanted of it.
 * Short lines are sorted by comparisons (Batcher's bitonic sorter), several by a block; longer ones by digits of their
 * keys (block_sort.cuh), a block each line.
 *
 * Keys have no more bits than elements, so that 16-bit floats are in order after two digits. */
#ifndef STNI_OPS_SORT_ROWS_CUDA_CUH
#define STNI_OPS_SORT_ROWS_CUDA_CUH

#include "core/device/cuda/block_sort.cuh"
#include "core/device/cuda/rows.cuh"
#include "ops/sort/order_cuda.cuh"

namespace {

/* The keys of a dtype's elements from their bits, those of sort_key.h cut to the element's size, without branches. */
template <class K> struct bits_rule {
    K magnitude;     /* of a float all but the sign, else all */
    K infinity;      /* a greater magnitude is NaN's */
    K sign;          /* what is flipped of all elements */
    K negative;      /* and of those with the sign bit set */
    K nan, flip;     /* as in stni_sort_key_rule */
};

inline uint64_t infinity_of(stn_dtype dtype)
{
    switch (dtype) {
    case STN_DTYPE_F32: return 0x7f800000u;
    case STN_DTYPE_F64: return (uint64_t)0x7ff << 52;
    case STN_DTYPE_BF16: return 0x7f80u;
    case STN_DTYPE_F16: return 0x7c00u;
    default: return UINT64_MAX;
    }
}

template <class K> bits_rule<K> bits_rule_of(const stni_order &order)
{
    const stni_sort_key_rule rule = stni_sort_rule_of(&order);
    const int bits = 8 * size_of(order.dtype);
    const uint64_t all = UINT64_MAX >> (64 - bits), top = (uint64_t)1 << (bits - 1);
    const bool floating = dtype_bit(order.dtype) & FLOATING_DTYPES;
    const bool has_sign = order.dtype != STN_DTYPE_U8 && order.dtype != STN_DTYPE_BOOL;
    const uint64_t below = floating ? all ^ top : 0;
    return {(K)(floating ? below : all),    (K)infinity_of(order.dtype), (K)(has_sign ? top : 0), (K)below,
            (K)(rule.nan & all), (K)(rule.flip & all)};
}

template <class K> STNI_DEVICE K key_of_bits(const bits_rule<K> &rule, K bits)
{
    const K magnitude = bits & rule.magnitude, number = magnitude == 0 ? 0 : bits;
    const K key = number ^ rule.sign ^ (number & rule.sign ? rule.negative : 0);
    return (magnitude > rule.infinity ? rule.nan : key) ^ rule.flip;
}

/* Some of the lines: n elements of each, of which k become the result. */
struct sort_rows {
    row_offsets<ORDER_TENSORS> lines; /* where they begin */
    int64_t first_line, n_lines;
    int n, k, size; /* of an element in bytes */
    int64_t step[ORDER_TENSORS];
    int64_t first_index;
    int32_t index_step;
    const void *in;
    void *values;
    int64_t *indices;
    stni_sort_pair *pairs; /* not NULL: instead of values and indices */
};

enum {
    ROWS_THREADS = 256,
    ROWS_SHORT = 256,   /* elements of the longest line that is sorted by comparisons */
    ROWS_SHARED = 1024, /* entries of a block that does so */
    ROWS_KEPT = 8       /* elements of a thread */
};

/* Elements of the longest line that fits a block: 8-byte keys leave room for fewer. */
inline int most_of_row(int size)
{
    return size == 8 ? 4096 : 8192;
}

/* Where one line begins. */
struct row_place {
    int64_t line; /* from the first of these */
    int64_t at[ORDER_TENSORS];
};

STNI_DEVICE row_place row_place_of(const sort_rows &s, int64_t line)
{
    row_place row;
    row.line = line;
    for (int t = 0; t < ORDER_TENSORS; t++)
        row.at[t] = row_offset(s.lines, t, (uint32_t)(s.first_line + line));
    return row;
}

/* Of the element at `place` of a line. */
STNI_DEVICE int64_t row_index(const sort_rows &s, uint32_t place)
{
    return s.first_index + (int64_t)(int32_t)place * s.index_step;
}

/* Writes the element that came from `place` where it comes in its line. */
template <class K>
STNI_DEVICE void put_row_element(const sort_rows &s, const row_place &row, int to, uint32_t place, K bits)
{
    const int64_t index = row_index(s, place);
    if (s.pairs) {
        s.pairs[row.line * s.k + to] = stni_sort_pair{bits, index};
        return;
    }
    put_bits(s.values, row.at[ORDER_VALUES] + to * s.step[ORDER_VALUES], s.size, bits);
    s.indices[row.at[ORDER_INDICES] + to * s.step[ORDER_INDICES]] = index;
}

/* `size`: a power of two, at least n. What is missing from it comes last. */
template <class K>
__global__ void __launch_bounds__(ROWS_THREADS)
    sort_short_rows(const __grid_constant__ sort_rows s, const __grid_constant__ bits_rule<K> rule, int shift)
{
    typedef sort_entry<K, uint32_t> entry;
    STNI_SHARED(entry, e, ROWS_SHARED);
    const int size = 1 << shift, me = (int)threadIdx.x;
    const int64_t first = (int64_t)blockIdx.x * (ROWS_SHARED >> shift);
    for (int i = me; i < ROWS_SHARED; i += ROWS_THREADS) {
        const int64_t line = first + (i >> shift);
        const int place = i & (size - 1);
        e[i] = entry{(K)~(K)0, UINT32_MAX};
        if (line < s.n_lines && place < s.n) {
            const int64_t at = row_place_of(s, line).at[ORDER_IN] + place * s.step[ORDER_IN];
            e[i] = entry{key_of_bits(rule, (K)bits_at(s.in, at, s.size)), (uint32_t)place};
        }
    }
    for (int run = 2; run <= size; run *= 2)
        for (int apart = run / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (int i = me; i < ROWS_SHARED / 2; i += ROWS_THREADS) {
                const int low = 2 * i - (i & (apart - 1)), high = low + apart;
                const entry a = e[low], b = e[high];
                if (comes_before(b, a) == ((low & run & (size - 1)) == 0)) {
                    e[low] = b;
                    e[high] = a;
                }
            }
        }
    __syncthreads();
    for (int i = me; i < ROWS_SHARED; i += ROWS_THREADS) {
        const int64_t line = first + (i >> shift);
        const int to = i & (size - 1);
        if (line >= s.n_lines || to >= s.k)
            continue;
        const row_place row = row_place_of(s, line);
        const uint32_t place = e[i].place;
        const uint64_t bits = bits_at(s.in, row.at[ORDER_IN] + place * s.step[ORDER_IN], s.size);
        put_row_element<K>(s, row, to, place, (K)bits);
    }
}

/* This thread's elements of a line, all under way before the first is waited for. */
template <class U, class K, int KEPT>
STNI_DEVICE void read_bits(const U *line, int64_t step, const warp_share<KEPT> &share, K (&bits)[KEPT])
{
    const U *from = line + share.first * step;
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++, from += WARP * step)
        bits[j] = has_entry(share, j) ? (K)*from : 0;
}

template <class K, int KEPT>
STNI_DEVICE void read_row_bits(const sort_rows &s, int64_t at, const warp_share<KEPT> &share, K (&bits)[KEPT])
{
    const int64_t step = s.step[ORDER_IN];
    if constexpr (sizeof(K) == 8)
        read_bits(static_cast<const uint64_t *>(s.in) + at, step, share, bits);
    else if (s.size == 4)
        read_bits(static_cast<const uint32_t *>(s.in) + at, step, share, bits);
    else if (s.size == 2)
        read_bits(static_cast<const uint16_t *>(s.in) + at, step, share, bits);
    else
        read_bits(static_cast<const uint8_t *>(s.in) + at, step, share, bits);
}

template <class U, class K, int KEPT>
STNI_DEVICE void write_bits(U *line, int64_t step, const warp_share<KEPT> &share, const uint32_t (&place)[KEPT],
                            const K *bits)
{
    U *to = line + share.first * step;
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++, to += WARP * step)
        if (has_entry(share, j))
            *to = (U)bits[place[j]];
}

template <class K, int KEPT>
STNI_DEVICE void write_pairs(const sort_rows &s, const row_place &row, const warp_share<KEPT> &share,
                             const uint32_t (&place)[KEPT], const K *bits)
{
    stni_sort_pair *const to = s.pairs + row.line * s.k + share.first;
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        if (has_entry(share, j))
            to[j * WARP] = stni_sort_pair{bits[place[j]], row_index(s, place[j])};
}

template <int KEPT>
STNI_DEVICE void write_indices(const sort_rows &s, int64_t *line, const warp_share<KEPT> &share,
                               const uint32_t (&place)[KEPT])
{
    int64_t *to = line + share.first * s.step[ORDER_INDICES];
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++, to += WARP * s.step[ORDER_INDICES])
        if (has_entry(share, j))
            *to = row_index(s, place[j]);
}

/* The first k in order: `bits` are those of the line's elements, in its own order. */
template <class K, int KEPT>
STNI_DEVICE void write_row(const sort_rows &s, const row_place &row, const warp_share<KEPT> &share,
                           const uint32_t (&place)[KEPT], const K *bits)
{
    const warp_share<KEPT> first = {share.first, s.k};
    const int64_t step = s.step[ORDER_VALUES], at = row.at[ORDER_VALUES];
    if (s.pairs) {
        write_pairs(s, row, first, place, bits);
        return;
    }
    if constexpr (sizeof(K) == 8)
        write_bits(static_cast<uint64_t *>(s.values) + at, step, first, place, bits);
    else if (s.size == 4)
        write_bits(static_cast<uint32_t *>(s.values) + at, step, first, place, bits);
    else if (s.size == 2)
        write_bits(static_cast<uint16_t *>(s.values) + at, step, first, place, bits);
    else
        write_bits(static_cast<uint8_t *>(s.values) + at, step, first, place, bits);
    write_indices(s, s.indices + row.at[ORDER_INDICES], first, place);
}

/* Blocks of a multiprocessor: threads enough that some move elements while others count. */
template <class K, int THREADS> constexpr int SORT_ROW_BLOCKS = (sizeof(K) == 8 ? 512 : 1024) / THREADS;

/* A block each line. Its elements are read once more when they are in order, from a cache and beside each other: the
 * key does not tell which zero or which NaN it is of. */
template <class K, int THREADS>
__global__ void __launch_bounds__(THREADS, SORT_ROW_BLOCKS<K, THREADS>)
    sort_row(const __grid_constant__ sort_rows s, const __grid_constant__ bits_rule<K> rule)
{
    enum { KEPT = ROWS_KEPT };
    STNI_SHARED(K, shared, THREADS * KEPT);
    const row_place row = row_place_of(s, blockIdx.x);
    const warp_share<KEPT> share = warp_share_of<KEPT>(s.n);
    K bits[KEPT];
    uint32_t place[KEPT];
    read_row_bits(s, row.at[ORDER_IN], share, bits);
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        bits[j] = key_of_bits(rule, bits[j]);
    sort_block<THREADS>(shared, share, 8 * s.size, bits, place);
    read_row_bits(s, row.at[ORDER_IN], share, bits);
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        if (has_entry(share, j))
            shared[share.first + j * WARP] = bits[j];
    __syncthreads();
    write_row(s, row, share, place, shared);
}

template <class K> void launch_short_rows(const sort_rows &s, const bits_rule<K> &rule, cudaStream_t stream)
{
    int shift = 0;
    while (1 << shift < s.n)
        shift++;
    STNI_LAUNCH(sort_short_rows<K>, blocks_for(s.n_lines, ROWS_SHARED >> shift), ROWS_THREADS, stream, s, rule, shift);
}

template <class K, int THREADS> void launch_row_sort(const sort_rows &s, const bits_rule<K> &rule, cudaStream_t stream)
{
    STNI_LAUNCH((sort_row<K, THREADS>), grid_of(s.n_lines), THREADS, stream, s, rule);
}

template <class K> void launch_rows(const sort_rows &s, const stni_order &order, cudaStream_t stream)
{
    const bits_rule<K> rule = bits_rule_of<K>(order);
    if (s.n <= ROWS_SHORT)
        launch_short_rows(s, rule, stream);
    else if (s.n <= 128 * ROWS_KEPT)
        launch_row_sort<K, 128>(s, rule, stream);
    else if (s.n <= 256 * ROWS_KEPT)
        launch_row_sort<K, 256>(s, rule, stream);
    else if (s.n <= 512 * ROWS_KEPT || sizeof(K) == 8)
        launch_row_sort<K, 512>(s, rule, stream);
    else if constexpr (sizeof(K) == 4)
        launch_row_sort<K, 1024>(s, rule, stream);
}

}

#endif
