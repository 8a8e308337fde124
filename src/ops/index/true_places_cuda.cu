/* Where a mask is true, on a CUDA device: tiles are counted, and each then knows where its places begin. */
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/radix.cuh"
#include "ops/index/true_places.h"

namespace {

enum { THREADS = SORT_THREADS, TILE = SORT_TILE };

STNI_DEVICE bool is_true(const stni_true_places_args &a, int64_t i)
{
    return i < a.n && a.mask[i * a.stride] != 0;
}

__global__ void __launch_bounds__(THREADS)
    count_true(const __grid_constant__ stni_true_places_args a, int64_t *counts)
{
    int64_t sum = 0, all;
    for (int k = (int)threadIdx.x; k < TILE; k += THREADS)
        sum += is_true(a, (int64_t)blockIdx.x * TILE + k);
    sum_before(sum, &all);
    if (threadIdx.x == 0)
        counts[blockIdx.x] = all;
}

__global__ void __launch_bounds__(THREADS)
    list_true(const __grid_constant__ stni_true_places_args a, const int64_t *before_tile)
{
    int64_t before = before_tile[blockIdx.x];
    for (int k = (int)threadIdx.x; k < TILE; k += THREADS) {
        const int64_t i = (int64_t)blockIdx.x * TILE + k;
        const bool is = is_true(a, i);
        int64_t all;
        const int64_t at = before + sum_before((int64_t)is, &all);
        if (is && at < a.count)
            a.places[at] = i;
        before += all;
    }
}

/* The counts of tiles, and of all. */
size_t workspace_of(stn_queue *, const void *given)
{
    return (size_t)(sort_tiles(static_cast<const stni_true_places_args *>(given)->n) + 1) * sizeof(int64_t);
}

void launch_true_places(const stni_true_places_args &a, cudaStream_t stream)
{
    const int64_t tiles = sort_tiles(a.n);
    int64_t *counts = static_cast<int64_t *>(a.work);
    if (a.count == 0)
        return;
    STNI_LAUNCH(count_true, (unsigned)tiles, THREADS, stream, a, counts);
    STNI_LAUNCH(sum_digits<int64_t>, 1, THREADS, stream, counts, counts + tiles, tiles);
    STNI_LAUNCH(list_true, (unsigned)tiles, THREADS, stream, a, counts);
}

}

STNI_CUDA_KERNELS(true_places) = {
    STNI_CUDA_KERNEL_WITH("true_places.forward", dtype_bit(STN_DTYPE_BOOL), stni_true_places_args, launch_true_places,
                          workspace_of),
    STNI_CUDA_KERNELS_END
};
