/* The first elements of lines that fit a block, where few are wanted, on a CUDA device: a line is read once and not
 * sorted. Its block finds the last of them digit by digit, the highest digit first, lists those that come no later, and
 * puts the list in order by comparing each with each.
 *
 * Neither counts nor an order that compares places too depend on which thread came first: the result is the same in
 * every run. */
#ifndef STNI_OPS_SORT_TOP_ROWS_CUDA_CUH
#define STNI_OPS_SORT_TOP_ROWS_CUDA_CUH

#include "ops/sort/rows_cuda.cuh"

namespace {

enum {
    TOP_MOST = 256, /* elements of a line's result */
    DIGIT_BITS = 8,
    PLACE_BITS = 16 /* of a line that fits a block */
};

/* The leading digits of the last element that is wanted: of its key those above `key_shift`, and where elements of that
 * key are left out, of its place those above `place_shift`. */
template <class K> struct top_limit {
    K key;
    uint32_t place;
    int key_shift, place_shift;
};

template <class K> STNI_DEVICE bool is_wanted(const top_limit<K> &limit, K key, uint32_t place)
{
    const K leading = key >> limit.key_shift;
    return leading < limit.key || (leading == limit.key && place >> limit.place_shift <= limit.place);
}

/* Among elements that agree in what is known: the next digit of the one that `wanted` of them do not come after, and
 * how many of those with this digit are wanted and are there. */
struct top_digit {
    unsigned digit, wanted, count;
};

/* counts[d]: of digit d. All threads of the block call it and get the same. */
STNI_DEVICE top_digit digit_of_wanted(const unsigned *counts, unsigned wanted)
{
    STNI_SHARED(top_digit, found, 1);
    const unsigned me = threadIdx.x;
    unsigned all;
    __syncthreads();
    const unsigned count = me < SORT_DIGITS ? counts[me] : 0, before = sum_before<SORT_DIGITS>(count, &all);
    if (me < SORT_DIGITS && before < wanted && wanted <= before + count)
        found[0] = top_digit{me, wanted - before, count};
    __syncthreads();
    return found[0];
}

/* Counts entries by digit(j), which is negative where entry j does not count. */
template <int THREADS, int KEPT, class F>
STNI_DEVICE void count_by_digit(unsigned *counts, const warp_share<KEPT> &share, F digit)
{
    static_assert(THREADS >= SORT_DIGITS, "a thread each digit");
    if (threadIdx.x < SORT_DIGITS)
        counts[threadIdx.x] = 0;
    __syncthreads();
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++) {
        const int d = has_entry(share, j) ? digit(j) : -1;
        if (d >= 0)
            atomicAdd(&counts[d], 1u);
    }
}

/* Of the k-th entry in order; keys have `bits` bits. All threads of the block call it and get the same. */
template <int THREADS, class K, int KEPT>
STNI_DEVICE top_limit<K> find_limit(const warp_share<KEPT> &share, int bits, int k, const K (&key)[KEPT])
{
    STNI_SHARED(unsigned, counts, SORT_DIGITS);
    top_limit<K> limit = {0, 0, bits, PLACE_BITS};
    top_digit next = {0, (unsigned)k, 0};
    while (limit.key_shift > 0 && next.wanted != next.count) {
        const int known = limit.key_shift, shift = known - DIGIT_BITS;
        count_by_digit<THREADS>(counts, share, [&](int j) {
            const bool agrees = known == bits || key[j] >> known == limit.key;
            return agrees ? (int)(key[j] >> shift & (SORT_DIGITS - 1)) : -1;
        });
        next = digit_of_wanted(counts, next.wanted);
        limit.key = (K)(limit.key << DIGIT_BITS) | (K)next.digit;
        limit.key_shift = shift;
    }
    while (limit.place_shift > 0 && next.wanted != next.count) {
        const int known = limit.place_shift, shift = known - DIGIT_BITS;
        count_by_digit<THREADS>(counts, share, [&](int j) {
            const uint32_t place = (uint32_t)(share.first + j * WARP);
            const bool agrees = key[j] == limit.key && place >> known == limit.place;
            return agrees ? (int)(place >> shift & (SORT_DIGITS - 1)) : -1;
        });
        next = digit_of_wanted(counts, next.wanted);
        limit.place = limit.place << DIGIT_BITS | next.digit;
        limit.place_shift = shift;
    }
    return limit;
}

/* Blocks of a multiprocessor: while some wait for each other's counts, others read. */
template <class K, int THREADS> constexpr int TOP_ROW_BLOCKS = (sizeof(K) == 8 ? 1024 : 1536) / THREADS;

/* A block each line. Elements are read once more, as their keys do not tell which zero or which NaN they are of. */
template <class K, int THREADS>
__global__ void __launch_bounds__(THREADS, TOP_ROW_BLOCKS<K, THREADS>)
    top_row(const __grid_constant__ sort_rows s, const __grid_constant__ bits_rule<K> rule)
{
    typedef sort_entry<K, uint32_t> entry;
    enum { KEPT = ROWS_KEPT };
    STNI_SHARED(entry, list, TOP_MOST);
    STNI_SHARED(unsigned, listed, 1);
    const row_place row = row_place_of(s, blockIdx.x);
    const warp_share<KEPT> share = warp_share_of<KEPT>(s.n);
    const int me = (int)threadIdx.x;
    K key[KEPT];
    read_row_bits(s, row.at[ORDER_IN], share, key);
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        key[j] = key_of_bits(rule, key[j]);
    if (me == 0)
        listed[0] = 0;
    const top_limit<K> limit = find_limit<THREADS>(share, 8 * s.size, s.k, key);
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++) {
        const uint32_t place = (uint32_t)(share.first + j * WARP);
        if (has_entry(share, j) && is_wanted(limit, key[j], place))
            list[atomicAdd(&listed[0], 1u)] = entry{key[j], place};
    }
    __syncthreads();
    if (me >= s.k)
        return;
    const entry own = list[me];
    int before = 0;
    for (int i = 0; i < s.k; i++)
        before += comes_before(list[i], own);
    const int64_t at = row.at[ORDER_IN] + (int64_t)own.place * s.step[ORDER_IN];
    const uint64_t bits = bits_at(s.in, at, s.size);
    put_row_element<K>(s, row, before, own.place, (K)bits);
}

/* Whether it is worth not sorting them; lines of no more than ROWS_SHORT share blocks. */
inline bool are_top_rows(const sort_rows &s)
{
    return s.k <= TOP_MOST && s.n > ROWS_SHORT;
}

template <class K> void launch_top_rows(const sort_rows &s, const stni_order &order, cudaStream_t stream)
{
    const bits_rule<K> rule = bits_rule_of<K>(order);
    const unsigned lines = (unsigned)s.n_lines;
    if (s.n <= 256 * ROWS_KEPT)
        STNI_LAUNCH((top_row<K, 256>), lines, 256, stream, s, rule);
    else if (s.n <= 512 * ROWS_KEPT || sizeof(K) == 8)
        STNI_LAUNCH((top_row<K, 512>), lines, 512, stream, s, rule);
    else if constexpr (sizeof(K) == 4)
        STNI_LAUNCH((top_row<K, 1024>), lines, 1024, stream, s, rule);
}

}

#endif
