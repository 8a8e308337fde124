/* Rows become a block on a CUDA device, scattered. Rows often come in an order of space, a track or a grid or a sorted
 * list: then a query that they approach would find each of them nearer than all before, and take it as a candidate. Of
 * rows in no such order it takes about k ln(n / k). */
#include "core/device/cuda/kernel.cuh"
#include "ops/points/block_parts.cuh"

#include <math.h>
#include <numeric>

namespace {

enum { THREADS = 128 };

/* Row i goes to place i * step % n, with a step that has no factor in common with n: near the golden section of n, so
 * that rows which follow one another lie far apart, and all over the block. */
int64_t step_of(int64_t n)
{
    const int64_t most = (int64_t)1 << 31; /* of n, whose square an index holds */
    int64_t step = n > 3 && n <= most ? (int64_t)(0.6180339887 * (double)n) : 1;
    while (std::gcd(step, n) > 1)
        step++;
    return step;
}

/* A thread each row, and each place behind the last one, which is NaN. */
template <class S> __global__ void __launch_bounds__(THREADS)
pack_rows(const __grid_constant__ stni_block_pack_args a, int64_t step)
{
    typedef typename computed<S>::type A;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = a.shape.n, d = a.shape.d;
    const block_parts<A> to = parts_of<A>(a.block, a.shape);
    if (i >= stni_leaves(n) * STNI_LEAF)
        return;
    const int64_t at = i < n ? i * step % n : i;
    if (i < n)
        to.index[at] = a.first + i;
    const S *row = static_cast<const S *>(a.rows.data) + (i < n ? i * a.rows.row : 0);
    A *x = to.x + at / STNI_LEAF * STNI_LEAF * d + at % STNI_LEAF;
    for (int64_t c = 0; c < d; c++)
        x[c * STNI_LEAF] = i < n ? (A)load(row[c * a.rows.col]) : (A)NAN;
}

void launch_pack(const stni_block_pack_args &a, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(stni_leaves(a.shape.n) * STNI_LEAF, THREADS);
    const int64_t step = step_of(a.shape.n);
    dispatch_floating(a.shape.dtype, [&](auto element) {
        STNI_LAUNCH((pack_rows<decltype(element)>), blocks, THREADS, stream, a, step);
    });
}

size_t pack_workspace(stn_queue *, const void *args)
{
    return stni_block_layout(&static_cast<const stni_block_pack_args *>(args)->shape, 0).end;
}

}

STNI_CUDA_KERNELS(block) = {
    STNI_CUDA_KERNEL_WITH("knn.pack", FLOATING_DTYPES, stni_block_pack_args, launch_pack, pack_workspace),
    STNI_CUDA_KERNEL_WITH("radius_search.pack", FLOATING_DTYPES, stni_block_pack_args, launch_pack, pack_workspace),
    STNI_CUDA_KERNEL_WITH("surface_distance.pack", dtype_bit(STN_DTYPE_F64), stni_block_pack_args, launch_pack,
                          pack_workspace),
    STNI_CUDA_KERNELS_END
};
