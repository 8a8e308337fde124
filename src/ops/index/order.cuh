/* Writes of elements along lines: an index of a line names elements of one line of the table alone. So a block puts
 * some of a line's positions, or of a few short lines', in order by what they name, in the memory that it shares, and
 * then joins the values of each element in the order of their positions. A longer line takes several rounds.
 *
 * An entry is a number of 32 bits: above, line and element; below, the position. Entries come in order by digits, the
 * last one first (Knuth, TAOCP 3, section 5.2.5). */
#ifndef STNI_OPS_INDEX_ORDER_CUH
#define STNI_OPS_INDEX_ORDER_CUH

#include "core/device/cuda/radix.cuh"

namespace {

enum {
    ORDER_THREADS = 512,
    ORDER_EACH = 8, /* entries of a thread */
    ORDER_PLACE_BITS = 12,
    ORDER_ENTRIES = ORDER_THREADS * ORDER_EACH, /* of a round */
    ORDER_KEY_BITS = 32 - ORDER_PLACE_BITS,
    ORDER_WARPS = ORDER_THREADS / WARP,
    ORDER_OF_WARP = ORDER_EACH * WARP
};
static_assert(ORDER_ENTRIES == 1 << ORDER_PLACE_BITS, "every place has a number");

/* Counts of digits of each warp's entries become where its entries of the digit begin. */
STNI_DEVICE void sum_warps(uint16_t *counts, unsigned *of_digit)
{
    const int me = (int)threadIdx.x;
    unsigned sum = 0;
    for (int w = 0; me < SORT_DIGITS && w < ORDER_WARPS; w++) {
        const unsigned count = counts[w * SORT_DIGITS + me];
        counts[w * SORT_DIGITS + me] = (uint16_t)sum;
        sum += count;
    }
    if (me < SORT_DIGITS)
        of_digit[me] = sum;
    for (int by = 1; by < SORT_DIGITS; by *= 2) {
        __syncthreads();
        const unsigned left = me < SORT_DIGITS && me >= by ? of_digit[me - by] : 0;
        __syncthreads();
        if (me < SORT_DIGITS)
            of_digit[me] += left;
    }
    __syncthreads();
}

/* Puts n entries in order by one digit; those of equal digits keep theirs. */
STNI_DEVICE void order_by_digit(uint32_t *entries, uint16_t *counts, unsigned *of_digit, int n, int shift)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, first = warp * ORDER_OF_WARP + lane;
    uint16_t *mine = counts + warp * SORT_DIGITS;
    uint32_t e[ORDER_EACH];
    uint16_t before[ORDER_EACH];
    for (int d = lane; d < SORT_DIGITS; d += WARP)
        mine[d] = 0;
    __syncwarp(WHOLE_WARP);
    STNI_UNROLL
    for (int r = 0; r < ORDER_EACH; r++) {
        const bool is_there = first + r * WARP < n;
        e[r] = is_there ? entries[first + r * WARP] : 0;
        const int digit = (int)(e[r] >> shift & (SORT_DIGITS - 1));
        const unsigned lanes = lanes_with(digit, is_there), lower = lanes & ((1u << lane) - 1), count = mine[digit];
        before[r] = (uint16_t)(count + (unsigned)__popc(lower));
        __syncwarp(WHOLE_WARP);
        if (is_there && lower == 0)
            mine[digit] = (uint16_t)(count + (unsigned)__popc(lanes));
        __syncwarp(WHOLE_WARP);
    }
    __syncthreads();
    sum_warps(counts, of_digit);
    STNI_UNROLL
    for (int r = 0; r < ORDER_EACH; r++) {
        const int digit = (int)(e[r] >> shift & (SORT_DIGITS - 1));
        if (first + r * WARP < n)
            entries[(digit > 0 ? of_digit[digit - 1] : 0) + mine[digit] + before[r]] = e[r];
    }
    __syncthreads();
}

/* All threads of a block of ORDER_THREADS call it; n entries, whose keys have so many bits. Ends with a barrier. */
STNI_DEVICE void order_entries(uint32_t *entries, int n, int bits)
{
    STNI_SHARED(uint16_t, counts, ORDER_WARPS * SORT_DIGITS);
    STNI_SHARED(unsigned, of_digit, SORT_DIGITS);
    __syncthreads();
    STNI_KEEP_LOOP
    for (int shift = 0; shift < bits; shift += 8)
        order_by_digit(entries, counts, of_digit, n, shift + ORDER_PLACE_BITS);
}

}

#endif
