/* Distances from a surface on a CUDA device: a thread has a query, and a block reads the triangles leaf by leaf. */
#include "core/device/cuda/kernel.cuh"
#include "ops/points/block_parts.cuh"
#include "ops/points/surface_kernel.h"

namespace {

enum { THREADS = 128, NUMBERS = 9 * STNI_LEAF /* of a leaf */ };

__global__ void __launch_bounds__(THREADS) search_surface(const __grid_constant__ stni_surface_search_args a)
{
    STNI_SHARED(double, leaf, NUMBERS);
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = a.shape.n;
    const bool there = i < a.queries.rows;
    const block_parts<double> from = parts_of<double>(const_cast<void *>(a.block), a.shape);
    const double *row = static_cast<const double *>(a.queries.data) + (there ? i : 0) * a.queries.row;
    const double query[] = {row[0], row[a.queries.col], row[2 * a.queries.col]};
    stni_hit hit = !there || a.fresh ? stni_no_hit() : a.hits[i];
    for (int64_t first = 0; first < n; first += STNI_LEAF) {
        const int count = n - first < STNI_LEAF ? (int)(n - first) : (int)STNI_LEAF;
        __syncthreads();
        for (int j = (int)threadIdx.x; j < NUMBERS; j += THREADS)
            leaf[j] = from.x[first * 9 + j];
        __syncthreads();
        STNI_KEEP_LOOP
        for (int j = 0; j < count; j++)
            if (stni_triangle_square(leaf + j, STNI_LEAF, query) <= hit.square)
                stni_hit_add(&hit, leaf + j, STNI_LEAF, query, from.index[first + j]);
    }
    if (there)
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
    STNI_LAUNCH(search_surface, blocks_for(a.queries.rows, THREADS), THREADS, stream, a);
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
