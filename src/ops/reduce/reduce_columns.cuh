/* Reductions of results that lie side by side in memory, as the columns of a matrix: a thread reads a pack of the
 * elements of as many results, several rows at once.
 *
 * Blocks have rows of lanes as those of reduce_launch.cuh do, with a pack a lane, and join in the same order: which of
 * the two kernels runs may depend on addresses. */
#ifndef STNI_OPS_REDUCE_REDUCE_COLUMNS_CUH
#define STNI_OPS_REDUCE_REDUCE_COLUMNS_CUH

#include "core/device/cuda/dispatch.cuh"
#include "ops/reduce/reduction.cuh"

namespace {

enum { ROWS_AT_ONCE = 4 };

/* Each of these is a kernel: sums, of which gradients of what was added to rows are made. */
constexpr bool has_columns(int op, stn_dtype dtype)
{
    return op == STNI_REDUCTION_sum && (dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16);
}

/* Whether results are columns in packs of `size`. */
inline bool are_columns(const reduction &g, int64_t size)
{
    const int last = g.kept.ndim - 1;
    return g.reduced.ndim == 1 && g.reduced.count > 0 && last >= 0 && g.kept.stride[IN][last] == 1 &&
           g.kept.shape[last] % size == 0;
}

/* Whether all packs of columns begin at addresses that allow them. */
inline bool columns_are_aligned(const reduction &g)
{
    int64_t strides = g.reduced.stride[0][0];
    for (int d = 0; d < g.kept.ndim - 1; d++)
        strides |= g.kept.stride[IN][d];
    return is_pack_aligned((uintptr_t)g.in) && strides % g.columns == 0;
}

/* p[k] joined with element k of packs i, i + rows and so on. */
template <int OP, class S, class A>
STNI_DEVICE void join_rows(const reduction &g, const S *column, int64_t i, int64_t end, A (&p)[pack<S>::SIZE])
{
    const int64_t stride = g.reduced.stride[0][0], rows = g.rows;
    for (; i < end; i += ROWS_AT_ONCE * rows) {
        pack<S> in[ROWS_AT_ONCE];
        STNI_UNROLL
        for (int u = 0; u < ROWS_AT_ONCE; u++)
            if (i + u * rows < end)
                in[u] = *reinterpret_cast<const pack<S> *>(column + (i + u * rows) * stride);
        STNI_UNROLL
        for (int u = 0; u < ROWS_AT_ONCE; u++) {
            STNI_UNROLL
            for (int k = 0; k < pack<S>::SIZE && i + u * rows < end; k++)
                p[k] = joined<OP>(p[k], element_of<OP, A>(load(in[u].v[k])));
        }
    }
}

/* A part of the elements of so many packs of results as there are lanes. */
template <int OP, class S>
__global__ void __launch_bounds__(THREADS) reduce_columns(const __grid_constant__ reduction g)
{
    typedef typename accumulator<OP, S>::type A;
    enum { SIZE = pack<S>::SIZE };
    STNI_SHARED(A, part, THREADS * SIZE);
    const int thread = (int)threadIdx.x, lanes = THREADS / g.rows, row = thread / lanes;
    const int64_t result = ((int64_t)blockIdx.x * lanes + thread % lanes) * SIZE, first = blockIdx.y * g.part.each;
    int64_t at[SIDES] = {0, 0};
    A p[SIZE];
    STNI_UNROLL
    for (int k = 0; k < SIZE; k++)
        p[k] = start_of<OP, S, A>();
    if (result < g.kept.count) {
        any_offsets_of(g.kept, result, at);
        const int64_t end = part_end(g.part, g.reduced.count, blockIdx.y);
        join_rows<OP>(g, static_cast<const S *>(g.in) + at[IN], first + row, end, p);
    }
    STNI_UNROLL
    for (int k = 0; k < SIZE; k++)
        part[k * THREADS + thread] = p[k];
    for (int half = g.rows / 2; half > 0; half /= 2) {
        __syncthreads();
        STNI_UNROLL
        for (int k = 0; k < SIZE && row < half; k++)
            part[k * THREADS + thread] = p[k] = joined<OP>(p[k], part[k * THREADS + thread + half * lanes]);
    }
    if (row > 0 || result >= g.kept.count)
        return;
    for (int k = 0; k < SIZE; k++, at[RESULT] += g.kept.stride[RESULT][g.kept.ndim - 1])
        put<OP, S>(g, blockIdx.y, result + k, at, part[k * THREADS + thread]);
}

}

#endif
