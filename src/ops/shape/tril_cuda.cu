/* tril and triu on a CUDA device: a thread decides for one element whether it is copied or zero. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/shape/tril_kernel.h"

namespace {

enum { THREADS = 256 };
enum { DST, SRC, SIDES };

struct triangle {
    operands<SIDES> matrices;
    int64_t rows, columns, row_stride[SIDES], column_stride[SIDES];
    int64_t first; /* element (i, j) lies on the diagonal where j - i is this */
    int upper;
};

template <class W> __global__ void __launch_bounds__(THREADS)
keep_triangle(const __grid_constant__ triangle t, W *__restrict__ dst, const W *__restrict__ src)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, in_matrix = t.rows * t.columns;
    int64_t at[SIDES];
    if (i >= t.matrices.count * in_matrix)
        return;
    const int64_t row = i % in_matrix / t.columns, column = i % t.columns;
    const bool kept = t.upper ? column - row >= t.first : column - row <= t.first;
    offsets_of(t.matrices, i / in_matrix, at);
    const W value = kept ? src[at[SRC] + row * t.row_stride[SRC] + column * t.column_stride[SRC]] : W{};
    dst[at[DST] + row * t.row_stride[DST] + column * t.column_stride[DST]] = value;
}

triangle triangle_of(const stni_triangle_args &a)
{
    const int r = a.dst.ndim - 2, c = a.dst.ndim - 1;
    triangle t = {no_dims<SIDES>(), a.dst.shape[r], a.dst.shape[c], {a.dst.strides[r], a.src.strides[r]}, {a.dst.strides[c], a.src.strides[c]},
                  a.diagonal + a.row - a.column, a.upper};
    for (int d = 0; d < r; d++)
        add_dim(t.matrices, a.dst.shape[d], {a.dst.strides[d], a.src.strides[d]});
    end_dims(t.matrices);
    return t;
}

template <class W> void launch_of(const stni_triangle_args &a, cudaStream_t stream)
{
    const triangle t = triangle_of(a);
    const int64_t count = t.matrices.count * t.rows * t.columns;
    if (count > 0)
        STNI_LAUNCH(keep_triangle<W>, blocks_for(count, THREADS), THREADS, stream, t, static_cast<W *>(a.dst.data),
                    static_cast<const W *>(a.src.data));
}

void launch(const stni_triangle_args &a, cudaStream_t stream)
{
    dispatch_unit(a.element_size, [&](auto unit) { launch_of<decltype(unit)>(a, stream); });
}

}

STNI_CUDA_KERNELS(tril) = {
    STNI_CUDA_KERNEL("tril.forward", ALL_DTYPES, stni_triangle_args, launch),
    STNI_CUDA_KERNEL("triu.forward", ALL_DTYPES, stni_triangle_args, launch),
    STNI_CUDA_KERNELS_END
};
