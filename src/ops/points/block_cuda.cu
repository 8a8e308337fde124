/* Rows become a block on a CUDA device, in the order in which they come. */
#include "core/device/cuda/kernel.cuh"
#include "ops/points/block_parts.cuh"

#include <math.h>

namespace {

enum { THREADS = 128 };

/* A thread each place in a leaf: those behind the last row are NaN. */
template <class S> __global__ void __launch_bounds__(THREADS) pack_rows(const __grid_constant__ stni_block_pack_args a)
{
    typedef typename computed<S>::type A;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = a.shape.n, d = a.shape.d;
    const block_parts<A> to = parts_of<A>(a.block, a.shape);
    if (i >= stni_leaves(n) * STNI_LEAF)
        return;
    if (i < n)
        to.index[i] = a.first + i;
    const S *row = static_cast<const S *>(a.rows.data) + (i < n ? i * a.rows.row : 0);
    A *x = to.x + i / STNI_LEAF * STNI_LEAF * d + i % STNI_LEAF;
    for (int64_t c = 0; c < d; c++)
        x[c * STNI_LEAF] = i < n ? (A)load(row[c * a.rows.col]) : (A)NAN;
}

void launch_pack(const stni_block_pack_args &a, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(stni_leaves(a.shape.n) * STNI_LEAF, THREADS);
    dispatch_floating(a.shape.dtype, [&](auto element) {
        STNI_LAUNCH((pack_rows<decltype(element)>), blocks, THREADS, stream, a);
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
