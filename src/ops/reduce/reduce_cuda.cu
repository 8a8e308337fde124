/* Reductions on CUDA devices, by the rows of reduce_kernel.h, over any dims and strides.
 *
 * A block has so many rows of lanes: a lane belongs to one result, and the rows share its elements, which they join in
 * turn; then the upper half of the rows joins the lower until one is left. Of few results each gets several blocks,
 * which share its elements, and one that joins what they found. So the order depends on the shape alone.
 * Where results lie closer in memory than what each is reduced from, lanes are many, so that neighbouring threads
 * always read neighbouring elements. */
#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/parts.cuh"
#include "ops/reduce/reduce_dims.cuh"

namespace {

enum { THREADS = 256, FEW_ROWS = 8, FEW_ELEMENTS = 4 /* of a thread */ };
enum { OWN, WIDE };

constexpr int width_of(int op)
{
#define CASE(name, accumulator, ...) \
    case STNI_REDUCTION_##name: return accumulator;
    switch (op) {
        STNI_REDUCTION_LIST(CASE)
    }
#undef CASE
    return OWN;
}

template <bool FIRST, class A, class B> struct choice {
    typedef A type;
};
template <class A, class B> struct choice<false, A, B> {
    typedef B type;
};

/* i8 and i16, which one kernel serves: what of the two an element is is a branch that all threads take alike. */
struct narrow {};
template <> struct computed<narrow> {
    typedef int64_t type;
};

/* What elements of S accumulate in: as on the CPU, but that bytes do in 32 bits. */
template <int OP, class S> struct accumulator {
    typedef typename computed<S>::type C;
    typedef typename choice<is_floating<C>, double, int64_t>::type wide;
    typedef typename choice<is_same<C, uint8_t>, int32_t, C>::type own;
    typedef typename choice<width_of(OP) == WIDE, wide, own>::type real;
    typedef typename choice<is_complex<C>, stni_complex<double>, real>::type type;
};

template <class S> constexpr int64_t lowest = 0;
template <> constexpr int64_t lowest<narrow> = INT64_MIN;
template <> constexpr int64_t lowest<int64_t> = INT64_MIN;
template <> constexpr int64_t lowest<int32_t> = INT32_MIN;
template <class S> constexpr int64_t highest = UINT8_MAX;
template <> constexpr int64_t highest<narrow> = INT64_MAX;
template <> constexpr int64_t highest<int64_t> = INT64_MAX;
template <> constexpr int64_t highest<int32_t> = INT32_MAX;

/* What nothing gives. */
template <int OP, class S, class A> STNI_DEVICE A identity_of()
{
    constexpr int64_t LOWEST = lowest<S>, HIGHEST = highest<S>;
    (void)LOWEST, (void)HIGHEST;
#define ROW(name, accumulator, floating, integer, ...)                 \
    if constexpr (OP == STNI_REDUCTION_##name) {                       \
        if constexpr (is_floating<A> || is_complex<A>)                 \
            return A((part_of<A>)(floating));                          \
        else                                                           \
            return (A)(integer);                                       \
    }
    STNI_REDUCTION_LIST(ROW)
#undef ROW
}

/* What a thread begins with: joined with anything it gives that, a zero's sign included. */
template <int OP, class S, class A> STNI_DEVICE A start_of()
{
    if constexpr (OP == STNI_REDUCTION_sum && is_floating<A>)
        return (A)-0.0;
    else if constexpr (OP == STNI_REDUCTION_sum && is_complex<A>)
        return A(-0.0, -0.0);
    else
        return identity_of<OP, S, A>();
}

/* What of an element joins. */
template <int OP, class A, class C> STNI_DEVICE A element_of(C value)
{
    const A v = converted<A>(value);
    if constexpr (OP == STNI_REDUCTION_nonzero)
        return A((part_of<A>)(v != 0));
    else if constexpr (OP == STNI_REDUCTION_squares && !is_complex<A>)
        return v * v;
    else
        return v;
}

template <int OP, class A> STNI_DEVICE A joined(A p, A v)
{
#define ROW(name, accumulator, floating, integer, element, real, complex_) \
    if constexpr (OP == STNI_REDUCTION_##name) {                           \
        if constexpr (is_complex<A>)                                       \
            return A(complex_);                                            \
        else                                                               \
            return (A)(real);                                              \
    }
    STNI_REDUCTION_LIST(ROW)
#undef ROW
}

struct reduction {
    operands<SIDES> kept;
    operands<1> reduced;
    const void *in;
    void *out;
    stn_dtype in_dtype, out_dtype;
    int rows; /* of a block, a power of two */
    parts part;
    void *found; /* of parts, where there are several: accumulators of one part after those of another */
    int empty, divides, roots;
    double divisor;
};

template <class S> STNI_DEVICE typename computed<S>::type read_in(const reduction &g, int64_t at)
{
    if constexpr (is_same<S, narrow>)
        return g.in_dtype == STN_DTYPE_I8 ? (int64_t) static_cast<const int8_t *>(g.in)[at]
                                          : (int64_t) static_cast<const int16_t *>(g.in)[at];
    else
        return load(static_cast<const S *>(g.in)[at]);
}

/* The result where there are no elements: the ends of a narrow dtype are other than those of its accumulator. */
template <int OP, class S, class A> STNI_DEVICE A result_of_none(const reduction &g)
{
    if constexpr (is_same<S, narrow> && (OP == STNI_REDUCTION_amax || OP == STNI_REDUCTION_amin)) {
        const int64_t above = g.in_dtype == STN_DTYPE_I8 ? 128 : 32768;
        return OP == STNI_REDUCTION_amax ? -above : above - 1;
    } else {
        return identity_of<OP, S, A>();
    }
}

/* The last step before a result is rounded. */
template <class A> STNI_DEVICE A finished(const reduction &g, A value)
{
    if constexpr (is_floating<part_of<A>>) {
        if (g.divides)
            value = value / (part_of<A>)g.divisor;
    }
    if constexpr (is_floating<A>) {
        if (g.roots)
            value = sqrt(value);
    }
    return value;
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
        for (int64_t i = first + row; i < end; i += g.rows) {
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
    if (row > 0 || result >= g.kept.count)
        return;
    if (g.part.count > 1)
        static_cast<A *>(g.found)[blockIdx.y * g.kept.count + result] = p;
    else
        write_element(g.out, g.out_dtype, at[RESULT], finished(g, g.empty ? result_of_none<OP, S, A>(g) : p));
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
    while (rows < THREADS && rows * FEW_ELEMENTS < elements && !(across && rows >= FEW_ROWS && results >= THREADS / rows))
        rows *= 2;
    return rows;
}

template <int OP, class S> void launch_of(const reduction &g, cudaStream_t stream)
{
    const dim3 grid(blocks_for(g.kept.count, THREADS / g.rows), (unsigned)g.part.count);
    STNI_LAUNCH((reduce<OP, S>), grid, THREADS, stream, g);
    if (g.part.count > 1)
        STNI_LAUNCH((join_parts<OP, typename accumulator<OP, S>::type>), (unsigned)g.kept.count, THREADS, stream, g);
}

template <int OP> void launch_op(const struct stni_reduce_args &a, const reduction &g, cudaStream_t stream)
{
    if (dtype_bit(a.in_dtype) & NARROW_DTYPES)
        return launch_of<OP, narrow>(g, stream);
    dispatch_floating_and_complex(a.in_dtype, [&](auto element) { launch_of<OP, decltype(element)>(g, stream); });
    dispatch_integer(a.in_dtype, [&](auto element) { launch_of<OP, decltype(element)>(g, stream); });
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
    g.rows = rows_of(a, g.reduced.count, g.kept.count);
    g.part = parts_of(g.reduced.count, g.rows, blocks_for(g.kept.count, THREADS / g.rows));
    g.found = a.workspace;
    return g;
}

/* Room for the largest accumulators. */
size_t reduce_workspace(stn_queue *, const void *args)
{
    const reduction g = reduction_of(*static_cast<const stni_reduce_args *>(args));
    return g.part.count > 1 ? (size_t)(g.part.count * g.kept.count) * sizeof(stni_complex<double>) : 0;
}

void launch_reduce(const struct stni_reduce_args &a, cudaStream_t stream)
{
    const reduction g = reduction_of(a);
    switch (a.op) {
#define CASE(name, ...) \
    case STNI_REDUCTION_##name: return launch_op<STNI_REDUCTION_##name>(a, g, stream);
        STNI_REDUCTION_LIST(CASE)
#undef CASE
    case STNI_REDUCTION_COUNT: break;
    }
}

}

#define KERNEL(slot) STNI_CUDA_KERNEL_WITH(slot, ALL_DTYPES, struct stni_reduce_args, launch_reduce, reduce_workspace),
STNI_CUDA_KERNELS(reduce) = {
    KERNEL("all.forward") KERNEL("amax.forward") KERNEL("amin.forward") KERNEL("any.forward")
    KERNEL("count_nonzero.forward") KERNEL("euclidean_norm.roots") KERNEL("euclidean_norm.squares")
    KERNEL("max_all.forward") KERNEL("mean.forward") KERNEL("min_all.forward") KERNEL("prod.forward")
    KERNEL("sum.forward")
    STNI_CUDA_KERNELS_END
};
