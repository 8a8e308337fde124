/* Distances from a surface on a CUDA device: a block reads the triangles leaf by leaf, and a query has as many threads
 * as it takes to keep the device busy, which share the triangles of a leaf and join what they found: the same in any
 * order. */
#include "core/device/cuda/kernel.cuh"
#include "ops/points/block_parts.cuh"
#include "ops/points/surface_kernel.h"

/* Threads that keep a device busy. */
#ifndef STNI_SURFACE_ENOUGH
#define STNI_SURFACE_ENOUGH (1 << 16)
#endif

namespace {

enum { THREADS = 128, NUMBERS = 9 * STNI_LEAF /* of a leaf */, MOST = STNI_LEAF /* threads of a query */ };

/* What the `team` threads of each query know, for the first of them. All threads of the block call it. */
STNI_DEVICE void join_team(stni_hit *found, int team, stni_hit &hit)
{
    const int me = (int)threadIdx.x;
    for (int half = team / 2; half > 0; half /= 2) {
        __syncthreads();
        found[me] = hit;
        __syncthreads();
        if (me % team < half)
            stni_hit_join(&hit, found + me + half);
    }
}

/* `team`: threads of a query, a power of two up to MOST. */
__global__ void __launch_bounds__(THREADS)
search_surface(const __grid_constant__ stni_surface_search_args a, int team)
{
    STNI_SHARED(double, leaf, NUMBERS);
    STNI_SHARED(stni_hit, found, THREADS);
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / team, n = a.shape.n;
    const int member = (int)threadIdx.x % team;
    const bool there = i < a.queries.rows;
    const block_parts<double> from = parts_of<double>(const_cast<void *>(a.block), a.shape);
    const double *row = static_cast<const double *>(a.queries.data) + (there ? i : 0) * a.queries.row;
    const double query[] = {row[0], row[a.queries.col], row[2 * a.queries.col]};
    stni_hit hit = !there || a.fresh || member > 0 ? stni_no_hit() : a.hits[i];
    for (int64_t first = 0; first < n; first += STNI_LEAF) {
        const int count = n - first < STNI_LEAF ? (int)(n - first) : (int)STNI_LEAF;
        __syncthreads();
        for (int j = (int)threadIdx.x; j < NUMBERS; j += THREADS)
            leaf[j] = from.x[first * 9 + j];
        __syncthreads();
        STNI_KEEP_LOOP
        for (int j = member; j < count; j += team)
            if (stni_triangle_square(leaf + j, STNI_LEAF, query) <= hit.square)
                stni_hit_add(&hit, leaf + j, STNI_LEAF, query, from.index[first + j]);
    }
    join_team(found, team, hit);
    if (there && member == 0)
        a.hits[i] = hit;
}

/* A thread each query. */
__global__ void __launch_bounds__(THREADS) finish_surface(const __grid_constant__ stni_surface_finish_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < a.n)
        stni_surface_finish_one(&a, i);
}

void launch_search(const stni_surface_search_args &a, cudaStream_t stream)
{
    int team = 1;
    while (team < MOST && team < a.shape.n && a.queries.rows * team < STNI_SURFACE_ENOUGH)
        team *= 2;
    STNI_LAUNCH(search_surface, blocks_for(a.queries.rows * team, THREADS), THREADS, stream, a, team);
}

void launch_finish(const stni_surface_finish_args &a, cudaStream_t stream)
{
    STNI_LAUNCH(finish_surface, blocks_for(a.n, THREADS), THREADS, stream, a);
}

}

STNI_CUDA_KERNELS(surface) = {
    STNI_CUDA_KERNEL("surface_distance.search", dtype_bit(STN_DTYPE_F64), stni_surface_search_args, launch_search),
    STNI_CUDA_KERNEL("surface_distance.finish", dtype_bit(STN_DTYPE_F64), stni_surface_finish_args, launch_finish),
    STNI_CUDA_KERNELS_END
};
