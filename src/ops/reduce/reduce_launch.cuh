/* Reductions on CUDA devices, by the rows of reduce_kernel.h, over any dims and strides.
 *
 * A block has so many rows of lanes: a lane belongs to one result, and the rows share its elements, which they join in
 * turn; then the upper half of the rows joins the lower until one is left. Of few results each gets several blocks,
 * which share its elements, and one that joins what they found. So the order depends on the shape alone.
 * Where results lie closer in memory than what each is reduced from, lanes are many, so that neighbouring threads
 * always read neighbouring elements. Where the elements of a result lie in runs, reduce_runs.cuh reads them. */
#ifndef STNI_OPS_REDUCE_REDUCE_LAUNCH_CUH
#define STNI_OPS_REDUCE_REDUCE_LAUNCH_CUH

#include "core/device/cuda/dispatch.cuh"
#include "ops/reduce/reduce_columns.cuh"
#include "ops/reduce/reduce_runs.cuh"
#include "ops/reduce/reduction.cuh"

namespace {

enum { FEW_ROWS = 8, FEW_ELEMENTS = 4 /* of a thread */, ELEMENTS_AT_ONCE = 4 };

/* p joined with a thread's elements of one dim, of which several are read at once. */
template <int OP, class S, class A>
STNI_DEVICE A joined_line(const reduction &g, int64_t at, int64_t i, int64_t end, A p)
{
    typedef typename computed<S>::type C;
    const int64_t stride = g.reduced.stride[0][0];
    for (; i < end; i += (int64_t)ELEMENTS_AT_ONCE * g.rows) {
        C in[ELEMENTS_AT_ONCE];
        STNI_UNROLL
        for (int u = 0; u < ELEMENTS_AT_ONCE; u++) {
            const int64_t element = i + (int64_t)u * g.rows;
            in[u] = read_in<S>(g, at + (element < end ? element : i) * stride);
        }
        STNI_UNROLL
        for (int u = 0; u < ELEMENTS_AT_ONCE; u++)
            if (i + (int64_t)u * g.rows < end)
                p = joined<OP>(p, element_of<OP, A>(in[u]));
    }
    return p;
}

/* A part of the elements of so many results as there are lanes. */
template <int OP, class S> __global__ void __launch_bounds__(THREADS) reduce(const __grid_constant__ reduction g)
{
    typedef typename accumulator<OP, S>::type A;
    STNI_SHARED(A, part, THREADS);
    const int thread = (int)threadIdx.x, lanes = THREADS / g.rows, row = thread / lanes;
    const int64_t result = (int64_t)blockIdx.x * lanes + thread % lanes, first = blockIdx.y * g.part.each;
    int64_t at[SIDES] = {0, 0}, step[1];
    A p = start_of<OP, S, A>();
    if (result < g.kept.count) {
        any_offsets_of(g.kept, result, at);
        const int64_t end = part_end(g.part, g.reduced.count, blockIdx.y);
        if (g.reduced.ndim == 1)
            p = joined_line<OP, S>(g, at[IN], first + row, end, p);
        for (int64_t i = first + row; i < end && g.reduced.ndim != 1; i += g.rows) {
            any_offsets_of(g.reduced, i, step);
            p = joined<OP>(p, element_of<OP, A>(read_in<S>(g, at[IN] + step[0])));
        }
    }
    part[thread] = p;
    for (int half = g.rows / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row < half)
            part[thread] = p = joined<OP>(p, part[thread + half * lanes]);
    }
    if (row == 0 && result < g.kept.count)
        put<OP, S>(g, blockIdx.y, result, at, p);
}

/* A block each result. */
template <int OP, class A> __global__ void __launch_bounds__(THREADS) join_parts(const __grid_constant__ reduction g)
{
    STNI_SHARED(A, joined_by, THREADS);
    const A *found = static_cast<const A *>(g.found) + blockIdx.x;
    const int me = (int)threadIdx.x, n = g.part.count < THREADS ? (int)g.part.count : (int)THREADS;
    int64_t at[SIDES];
    if (me < n)
        joined_by[me] = found[me * g.kept.count];
    for (int64_t i = me + n; i < g.part.count; i += n)
        joined_by[me] = joined<OP>(joined_by[me], found[i * g.kept.count]);
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (me < half && me + half < n)
            joined_by[me] = joined<OP>(joined_by[me], joined_by[me + half]);
    }
    if (me > 0)
        return;
    any_offsets_of(g.kept, (int64_t)blockIdx.x, at);
    write_element(g.out, g.out_dtype, at[RESULT], finished(g, joined_by[0]));
}

/* As many rows as leave each thread a few elements; few where neighbouring threads had better have neighbouring
 * results, if there are enough. */
int rows_of(const struct stni_reduce_args &a, int64_t elements, int64_t results)
{
    const int kept = a.n_kept - 1, reduced = a.n_reduced - 1;
    const bool across = kept >= 0 && (reduced < 0 || a.kept_in[kept] < a.reduced_in[reduced]);
    int rows = 1;
    while (rows < THREADS && rows * FEW_ELEMENTS < elements &&
           !(across && rows >= FEW_ROWS && results >= THREADS / rows))
        rows *= 2;
    return rows;
}

/* Blocks for so many pieces of work as a thread does alone, each with `rows` threads. */
dim3 grid_of(const reduction &g, int64_t pieces)
{
    return dim3(blocks_for(pieces, THREADS / g.rows), (unsigned)g.part.count);
}

template <int OP, class S> void launch_parts(const reduction &g, cudaStream_t stream)
{
    if constexpr (has_runs(OP, dtype_of<S>)) {
        if (g.run.packs > 0) {
            STNI_LAUNCH((reduce_runs<OP, S>), grid_of(g, g.kept.count), THREADS, stream, g);
            return;
        }
    }
    if constexpr (has_columns(OP, dtype_of<S>)) {
        if (g.columns > 0 && columns_are_aligned(g)) {
            STNI_LAUNCH((reduce_columns<OP, S>), grid_of(g, g.kept.count / g.columns), THREADS, stream, g);
            return;
        }
    }
    STNI_LAUNCH((reduce<OP, S>), grid_of(g, g.kept.count), THREADS, stream, g);
}

template <int OP, class S> void launch_of(const reduction &g, cudaStream_t stream)
{
    launch_parts<OP, S>(g, stream);
    if (g.part.count > 1)
        STNI_LAUNCH((join_parts<OP, typename accumulator<OP, S>::type>), grid_of(g.kept.count), THREADS, stream, g);
}

/* Squares are of floating numbers alone: norms take no others. */
template <int OP> void launch_op(const struct stni_reduce_args &a, const reduction &g, cudaStream_t stream)
{
    dispatch_floating(a.in_dtype, [&](auto element) { launch_of<OP, decltype(element)>(g, stream); });
    if constexpr (OP != STNI_REDUCTION_squares && OP != STNI_REDUCTION_amax && OP != STNI_REDUCTION_amin)
        dispatch_complex(a.in_dtype, [&](auto element) { launch_of<OP, decltype(element)>(g, stream); });
    if constexpr (OP != STNI_REDUCTION_squares) {
        dispatch_integer(a.in_dtype, [&](auto element) { launch_of<OP, decltype(element)>(g, stream); });
        if (dtype_bit(a.in_dtype) & NARROW_DTYPES)
            launch_of<OP, narrow>(g, stream);
    }
}

/* Whether elements are read in packs, as the shape and the strides allow. */
void choose_packs(const struct stni_reduce_args &a, reduction &g)
{
    dispatch_all(a.in_dtype, [&](auto element) {
        const int size = pack<decltype(element)>::SIZE;
        if (has_runs(a.op, a.in_dtype))
            g.run = runs_of(g.reduced, size);
        if (g.run.packs == 0 && has_columns(a.op, a.in_dtype) && are_columns(g, size))
            g.columns = size;
    });
}

void end_elements(const struct stni_reduce_args &a, reduction &g)
{
    const int64_t pieces = g.columns > 0 ? g.kept.count / g.columns : g.kept.count;
    g.rows = rows_of(a, g.reduced.count, pieces);
    g.part = parts_of(g.reduced.count, g.rows, blocks_for(pieces, THREADS / g.rows));
}

reduction reduction_of(const struct stni_reduce_args &a)
{
    reduction g = {};
    reduce_dims(a, g.kept, g.reduced);
    g.in = a.in;
    g.out = a.out;
    g.in_dtype = a.in_dtype;
    g.out_dtype = a.out_dtype;
    g.empty = a.empty;
    g.divides = a.divides;
    g.roots = a.roots;
    g.divisor = (double)a.divisor;
    choose_packs(a, g);
    if (g.run.packs > 0)
        end_runs(g);
    else
        end_elements(a, g);
    g.found = a.workspace;
    return g;
}

}

#endif
