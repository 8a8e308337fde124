/* The element of a given place in a line, by a block: digit by digit of its key, then of its place (sort_kernel.h
 * tells how). */
#ifndef STNI_OPS_SORT_TARGET_CUDA_CUH
#define STNI_OPS_SORT_TARGET_CUDA_CUH

#include "ops/sort/order_cuda.cuh"

namespace {

enum { TARGET_THREADS = ORDER_DIGITS };

/* Of the line that begins at `base`; the target's index is the element's number in the line. All threads get it. */
STNI_DEVICE stni_sort_target find_target(const stni_order &order, const stni_sort_lines &lines, const void *in,
                                         int64_t base, int64_t place)
{
    STNI_SHARED(int64_t, counts, ORDER_DIGITS);
    STNI_SHARED(stni_sort_target, result, 1);
    stni_sort_target t = {0, 0, place};
    struct stni_sort_digits digits = {stni_sort_key_bits(order.dtype) / 8, 0};
    for (int64_t left = lines.n - 1; left > 0; left >>= 8)
        digits.of_index++;
    for (int round = 0; round < digits.of_key + digits.of_index; round++) {
        counts[threadIdx.x] = 0;
        __syncthreads();
        for (int64_t i = threadIdx.x; i < lines.n; i += TARGET_THREADS) {
            const int digit =
                stni_sort_digit_of(&digits, round, &t, key_at(order, in, base + element_of(lines, i).at), i);
            if (digit >= 0)
                count_more(&counts[digit], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            stni_sort_digit_take(&digits, round, counts, &t);
            result[0] = t;
        }
        __syncthreads();
        t = result[0];
        __syncthreads();
    }
    return t;
}

}

#endif
