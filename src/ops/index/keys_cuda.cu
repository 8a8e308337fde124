/* Keys of several indices, and which element each of the repeated ones is, on a CUDA device. */
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/radix.cuh"
#include "core/device/cuda/value.cuh"
#include "ops/common/bad_value.h"
#include "ops/index/put_keys_kernel.h"
#include "ops/index/repeat_index.h"

namespace {

enum { THREADS = SORT_THREADS };

__global__ void __launch_bounds__(THREADS)
    join_indices(const __grid_constant__ stni_put_keys_args a, int64_t n, stn_value_record *record)
{
    int64_t rest = (int64_t)blockIdx.x * THREADS + threadIdx.x, at[STN_MAX_NDIM], got, numbers[STNI_PUT_KEYS_NUMBERS];
    int bad = -1;
    if (rest >= n)
        return;
    for (int d = a.ndim - 1; d >= 0; d--) {
        at[d] = rest % a.shape[d];
        rest /= a.shape[d];
    }
    const int64_t key = stni_put_keys_at(&a, at, &bad, &got);
    a.keys[stni_put_keys_offset(&a, a.strides, at)] = key;
    if (bad >= 0)
        report_value(record, a.op, STNI_BAD_INDEX_OF, stni_put_keys_bad_numbers(&a, at, bad, got, numbers), numbers);
}

void launch_put_keys(const stni_put_keys_args &a, stn_value_record *record, cudaStream_t stream)
{
    int64_t n = 1;
    for (int d = 0; d < a.ndim; d++)
        n *= a.shape[d];
    if (n > 0)
        STNI_LAUNCH(join_indices, blocks_for(n, THREADS), THREADS, stream, a, n, record);
}

/* How often element i is repeated, at most `most` times: what goes beyond is an error anyway, and sums stay small. */
STNI_DEVICE int64_t repeats_of(const stni_repeat_index_args &a, int64_t i, int64_t most, stn_value_record *record)
{
    const int64_t n = stni_access_index(a.repeats, a.dtype, i * a.stride), numbers[] = {n, i};
    if (n < 0)
        report_value(record, a.op, STNI_BAD_REPEAT_BELOW, 2, numbers);
    return n < 0 ? 0 : n > most ? most : n;
}

/* The last of `ends` numbers in order that is not above j; the first one is not. */
STNI_DEVICE int last_not_above(const int64_t *ends, int n, int64_t j)
{
    int low = 0;
    while (n > 1) {
        const int half = n / 2;
        low += ends[low + half] <= j ? half : 0;
        n -= half;
    }
    return low;
}

/* One block: THREADS elements at a time tell where their repetitions begin, and all threads fill in what lies there. */
__global__ void __launch_bounds__(THREADS)
    repeat_elements(const __grid_constant__ stni_repeat_index_args a, stn_value_record *record)
{
    STNI_SHARED(int64_t, begin, THREADS);
    const int me = (int)threadIdx.x;
    const int64_t end = a.first + a.length, most = a.wanted + 1;
    int64_t before = 0, sum;
    for (int64_t first = 0; first < a.n; first += THREADS) {
        begin[me] = before + sum_before(first + me < a.n ? repeats_of(a, first + me, most, record) : (int64_t)0, &sum);
        __syncthreads();
        const int64_t from = before > a.first ? before : a.first, to = before + sum < end ? before + sum : end;
        for (int64_t j = from + me; j < to; j += THREADS)
            a.out[j - a.first] = first + last_not_above(begin, THREADS, j);
        before = before + sum < most ? before + sum : most;
        __syncthreads();
    }
    for (int64_t j = (before > a.first ? before : a.first) + me; j < end; j += THREADS)
        a.out[j - a.first] = -1;
    if (me == 0 && before != a.wanted)
        report_value(record, a.op, before < a.wanted ? STNI_BAD_REPEAT_LESS : STNI_BAD_REPEAT_MORE, 1, &a.wanted);
}

void launch_repeat_index(const stni_repeat_index_args &a, stn_value_record *record, cudaStream_t stream)
{
    STNI_LAUNCH(repeat_elements, 1, THREADS, stream, a, record);
}

}

STNI_CUDA_KERNELS(keys) = {
    STNI_CUDA_REPORTING_KERNEL("put_keys.forward", dtype_bit(STN_DTYPE_I64), stni_put_keys_args, launch_put_keys),
    STNI_CUDA_REPORTING_KERNEL("repeat_index.forward", dtype_bit(STN_DTYPE_I64) | dtype_bit(STN_DTYPE_I32),
                               stni_repeat_index_args, launch_repeat_index),
    STNI_CUDA_KERNELS_END
};
