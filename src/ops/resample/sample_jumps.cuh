/* Whether neighbouring points read far from each other. A warp whose points read neighbouring elements fetches few
 * sectors for each channel, and a copy by rows (sample_rows.cuh) would cost more than it saves; where points jump each
 * read is a sector of its own. Only the grid's values tell, and the host does not wait for them: a small kernel counts
 * jumps, and of the kernels of both ways the ones that do not serve return at once. Both ways give the same bits. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_JUMPS_CUH
#define STNI_OPS_RESAMPLE_SAMPLE_JUMPS_CUH

#include "core/device/cuda/block.cuh"
#include "ops/resample/sample_point.cuh"

namespace {

enum {
    JUMPS_THREADS = 128,
    JUMPS_RUNS = 1024, /* of neighbouring points, a warp each, that are looked at at most */
    JUMPS_FAR = 16     /* elements along a row */
};

/* Neighbours that are looked at, and those of them that jump. */
enum { NEIGHBOURS, JUMPS, JUMP_COUNTS };

STNI_DEVICE bool jumps_are_many(const unsigned *counts)
{
    return counts[JUMPS] * 4 > counts[NEIGHBOURS];
}

/* The first tap along dim d, as near as an element there is. */
STNI_DEVICE int64_t nearest_tap(const stni_sample_args &a, const sampled_point &p, int d)
{
    const int64_t i = p.taps[d].index[0];
    return i < 0 ? 0 : i >= a.n_in[d] ? a.n_in[d] - 1 : i;
}

template <class S>
__global__ void __launch_bounds__(JUMPS_THREADS)
    count_jumps(const __grid_constant__ stni_sample_args a, int64_t points, int64_t apart, unsigned *counts)
{
    const int64_t run = ((int64_t)blockIdx.x * JUMPS_THREADS + threadIdx.x) / WARP;
    const int64_t i = run * apart + threadIdx.x % WARP;
    const bool is_there = i < a.n_batch * points;
    sampled_point p;
    int64_t row = 0, column = 0;
    if (is_there) {
        find_point<S>(a, i / points, i % points, p);
        row = nearest_tap(a, p, 0) * a.n_in[1] + nearest_tap(a, p, 1);
        column = nearest_tap(a, p, 2);
    }
    const int64_t next_row = value_below(row, 1), next_column = value_below(column, 1);
    const bool has_next = is_there && threadIdx.x % WARP + 1 < WARP && i + 1 < a.n_batch * points;
    const int64_t by = column < next_column ? next_column - column : column - next_column;
    const unsigned neighbours = __ballot_sync(WHOLE_WARP, has_next);
    const unsigned jumps = __ballot_sync(WHOLE_WARP, has_next && (row != next_row || by >= JUMPS_FAR));
    if (threadIdx.x % WARP == 0) {
        atomicAdd(&counts[NEIGHBOURS], (unsigned)__popc(neighbours));
        atomicAdd(&counts[JUMPS], (unsigned)__popc(jumps));
    }
}

template <class S> void launch_jumps(const stni_sample_args &a, unsigned *counts, cudaStream_t stream)
{
    const int64_t points = points_of(a), all = stni_ceil_div(a.n_batch * points, WARP);
    const int64_t runs = all < JUMPS_RUNS ? all : (int64_t)JUMPS_RUNS, apart = all / runs * WARP;
    cudaMemsetAsync(counts, 0, JUMP_COUNTS * sizeof *counts, stream);
    STNI_LAUNCH(count_jumps<S>, blocks_for(runs, JUMPS_THREADS / WARP), JUMPS_THREADS, stream, a, points, apart,
                counts);
}

}

#endif
