/* tril and triu on a CUDA device: a thread decides for one element whether it is copied or zero, or for a pack where
 * the columns of both sides lie in packs. Of a pack that is all zero nothing is read. */
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
    int64_t first; /* element (i, j) lies on the diagonal where j - i is this, from -rows to columns */
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

/* One pack a thread: how many packs a row has, and rows. */
struct packed_rows {
    uint32_t packs;
    divider in_row, in_matrix;
};

/* Those elements of `from` that are kept; the others are zero. `at` is where the diagonal meets the pack. */
template <class W> STNI_DEVICE pack<W> kept_of(const pack<W> &from, int at, int upper)
{
    pack<W> to;
    STNI_UNROLL
    for (int k = 0; k < pack<W>::SIZE; k++)
        to.v[k] = (upper ? k >= at : k <= at) ? from.v[k] : W{};
    return to;
}

template <class W> __global__ void __launch_bounds__(THREADS)
keep_packs(const __grid_constant__ triangle t, const __grid_constant__ packed_rows p, W *dst, const W *src)
{
    enum { SIZE = pack<W>::SIZE };
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    int64_t at[SIDES];
    if (i >= p.packs)
        return;
    const uint32_t line = divide(i, p.in_row), matrix = divide(line, p.in_matrix);
    const int64_t row = line - matrix * p.in_matrix.divisor;
    const int64_t column = (int64_t)(i - line * p.in_row.divisor) * SIZE, ahead = t.first + row - column;
    const int diagonal = ahead < -1 ? -1 : ahead > SIZE ? (int)SIZE : (int)ahead;
    offsets_of(t.matrices, matrix, at);
    pack<W> from = {};
    if (t.upper ? diagonal < SIZE : diagonal >= 0)
        from = *reinterpret_cast<const pack<W> *>(src + at[SRC] + row * t.row_stride[SRC] + column);
    *reinterpret_cast<pack<W> *>(dst + at[DST] + row * t.row_stride[DST] + column) = kept_of(from, diagonal, t.upper);
}

/* Whether every row of a side is one of packs of `size` elements. */
bool has_packs(const triangle &t, int side, const void *data, int64_t size)
{
    bool has = t.column_stride[side] == 1 && t.row_stride[side] % size == 0 && is_pack_aligned((uintptr_t)data);
    for (int d = 0; d < t.matrices.ndim; d++)
        has = has && t.matrices.stride[side][d] % size == 0;
    return has;
}

template <class W> bool are_packs(const triangle &t, const stni_triangle_args &a)
{
    const int64_t size = pack<W>::SIZE;
    return t.columns % size == 0 && is_small_count(t.matrices.count * t.rows * t.columns) &&
           has_packs(t, DST, a.dst.data, size) && has_packs(t, SRC, a.src.data, size);
}

triangle triangle_of(const stni_triangle_args &a)
{
    const int r = a.dst.ndim - 2, c = a.dst.ndim - 1;
    const int64_t rows = a.dst.shape[r], columns = a.dst.shape[c], first = a.diagonal + a.row - a.column;
    triangle t = {no_dims<SIDES>(), rows, columns, {a.dst.strides[r], a.src.strides[r]},
                  {a.dst.strides[c], a.src.strides[c]}, first < -rows ? -rows : first > columns ? columns : first,
                  a.upper};
    for (int d = 0; d < r; d++)
        add_dim(t.matrices, a.dst.shape[d], {a.dst.strides[d], a.src.strides[d]});
    end_dims(t.matrices);
    return t;
}

template <class W> void launch_of(const stni_triangle_args &a, cudaStream_t stream)
{
    const triangle t = triangle_of(a);
    const int64_t count = t.matrices.count * t.rows * t.columns;
    W *const dst = static_cast<W *>(a.dst.data);
    const W *const src = static_cast<const W *>(a.src.data);
    if (count <= 0)
        return;
    if constexpr (pack<W>::SIZE > 1) {
        if (are_packs<W>(t, a)) {
            enum { SIZE = pack<W>::SIZE };
            const packed_rows p = {(uint32_t)(count / SIZE), divider_of(t.columns / SIZE),
                                   divider_of(t.rows)};
            STNI_LAUNCH(keep_packs<W>, blocks_for(p.packs, THREADS), THREADS, stream, t, p, dst, src);
            return;
        }
    }
    STNI_LAUNCH(keep_triangle<W>, blocks_for(count, THREADS), THREADS, stream, t, dst, src);
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
