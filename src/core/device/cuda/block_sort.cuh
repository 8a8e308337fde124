/* Entries of one line in order of their keys, by one block, which keeps them in registers: by the digits of keys, the
 * last one first (Knuth, TAOCP 3, section 5.2.5). An entry is a key and the place where it stood.
 *
 * Where an entry goes is the number of those with a smaller digit, of those with its digit in warps before its own and
 * of those before it in its warp. Lanes with one digit find each other by votes, a bit at a time, and each warp counts
 * its digits in shared memory: so no order of threads shows, and entries with one key keep the order of their
 * places. */
#ifndef STNI_CORE_DEVICE_CUDA_BLOCK_SORT_CUH
#define STNI_CORE_DEVICE_CUDA_BLOCK_SORT_CUH

#include "core/device/cuda/radix.cuh"

namespace {

/* Entries of this thread's warp: neighbouring lanes hold neighbouring ones. A thread keeps KEPT of them. */
template <int KEPT> struct warp_share {
    int first; /* this lane's; its others follow every WARP places */
    int end;   /* of the line */
};

template <int KEPT> STNI_DEVICE warp_share<KEPT> warp_share_of(int n)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    return {warp * WARP * KEPT + lane, n};
}

template <int KEPT> STNI_DEVICE bool has_entry(const warp_share<KEPT> &share, int j)
{
    return share.first + j * WARP < share.end;
}

/* The same for all lanes: whether one of them has entry j. */
template <int KEPT> STNI_DEVICE bool warp_has_entry(const warp_share<KEPT> &share, int j)
{
    return share.first - (int)threadIdx.x % WARP + j * WARP < share.end;
}

/* Numbers of entries by warp and digit; rank_by_digit makes of them where the first of each goes. */
template <int THREADS> struct digit_counts {
    enum {
        WARPS = THREADS / WARP,
        ADDERS = THREADS < SORT_DIGITS ? THREADS : SORT_DIGITS,
        EACH = SORT_DIGITS / ADDERS
    };
    uint16_t of[WARPS][SORT_DIGITS];
};

/* Each of the first ADDERS threads adds up EACH digits that follow each other, of all warps. All threads call it. */
template <int THREADS> STNI_DEVICE void begin_digits(digit_counts<THREADS> &counts)
{
    typedef digit_counts<THREADS> digits;
    const int first = (int)threadIdx.x * digits::EACH;
    unsigned sum = 0, all;
    if (first < SORT_DIGITS)
        STNI_UNROLL
        for (int d = 0; d < digits::EACH; d++)
            STNI_UNROLL
            for (int w = 0; w < digits::WARPS; w++)
                sum += counts.of[w][first + d];
    sum = sum_before<digits::ADDERS>(sum, &all);
    if (first < SORT_DIGITS)
        STNI_UNROLL
        for (int d = 0; d < digits::EACH; d++)
            STNI_UNROLL
            for (int w = 0; w < digits::WARPS; w++) {
                const unsigned count = counts.of[w][first + d];
                counts.of[w][first + d] = (uint16_t)sum;
                sum += count;
            }
}

/* rank[j]: where entry j goes by its digit behind `shift`. It ends with a barrier. */
template <int THREADS, class K, int KEPT>
STNI_DEVICE void rank_by_digit(digit_counts<THREADS> &counts, const warp_share<KEPT> &share, int shift,
                               const K (&key)[KEPT], unsigned (&rank)[KEPT])
{
    const int lane = (int)threadIdx.x % WARP;
    uint16_t *const own = counts.of[threadIdx.x / WARP];
    for (int d = lane; d < SORT_DIGITS; d += WARP)
        own[d] = 0;
    __syncwarp();
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        if (warp_has_entry(share, j)) {
            const int digit = (int)(key[j] >> shift) & (SORT_DIGITS - 1);
            const unsigned lanes = lanes_with(digit, has_entry(share, j)), before = lanes & ((1u << lane) - 1);
            const unsigned count = own[digit];
            __syncwarp();
            if (lanes != 0 && before == 0)
                own[digit] = (uint16_t)(count + (unsigned)__popc(lanes));
            __syncwarp();
            rank[j] = count + (unsigned)__popc(before);
        }
    __syncthreads();
    begin_digits<THREADS>(counts);
    __syncthreads();
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        if (warp_has_entry(share, j))
            rank[j] += own[(int)(key[j] >> shift) & (SORT_DIGITS - 1)];
    __syncthreads();
}

/* Each value goes to the thread that has the place of its rank. It ends with a barrier. */
template <class T, int KEPT>
STNI_DEVICE void exchange_ranked(T *shared, const warp_share<KEPT> &share, const unsigned (&rank)[KEPT],
                                 T (&v)[KEPT])
{
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        if (has_entry(share, j))
            shared[rank[j]] = v[j];
    __syncthreads();
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        if (has_entry(share, j))
            v[j] = shared[share.first + j * WARP];
    __syncthreads();
}

/* place[j]: of the entry that comes to this thread's j-th place when all are in order by the lower `bits` bits of
 * their keys; keys are lost. `shared` has THREADS KEPT elements. All threads of the block call it; it ends
 * with a barrier. */
template <int THREADS, class K, int KEPT>
STNI_DEVICE void sort_block(K *shared, const warp_share<KEPT> &share, int bits, K (&key)[KEPT],
                            uint32_t (&place)[KEPT])
{
    digit_counts<THREADS> &counts = *reinterpret_cast<digit_counts<THREADS> *>(shared);
    static_assert(sizeof counts <= THREADS * KEPT * sizeof(K), "digits are counted where entries are exchanged");
    STNI_UNROLL
    for (int j = 0; j < KEPT; j++)
        place[j] = (uint32_t)(share.first + j * WARP);
    STNI_KEEP_LOOP
    for (int shift = 0; shift < bits; shift += 8) {
        unsigned rank[KEPT];
        rank_by_digit<THREADS>(counts, share, shift, key, rank);
        if (shift + 8 < bits)
            exchange_ranked(shared, share, rank, key);
        exchange_ranked(reinterpret_cast<uint32_t *>(shared), share, rank, place);
    }
}

}

#endif
