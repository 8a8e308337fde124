/* What the reductions of reduce_kernel.h are on CUDA devices: in what elements accumulate, how they join, and what is
 * told to the kernels. */
#ifndef STNI_OPS_REDUCE_REDUCTION_CUH
#define STNI_OPS_REDUCE_REDUCTION_CUH

#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/parts.cuh"
#include "ops/reduce/reduce_dims.cuh"

namespace {

enum { THREADS = 256 };
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

/* The elements of a result as runs that are dense in memory, where they are. */
struct runs {
    operands<1> outer; /* an index each run */
    int64_t length;    /* elements of a run */
    int packs;         /* of a run, of which the last may be of fewer elements; 0: there are no runs */
    int each;          /* packs of a part of a run */
    divider parts;     /* of a run */
    int log_rows;      /* threads of a result are 2^log_rows */
};

struct reduction {
    operands<SIDES> kept;
    operands<1> reduced;
    runs run;
    const void *in;
    void *out;
    stn_dtype in_dtype, out_dtype;
    int rows;    /* threads of a result, a power of two */
    int columns; /* results of which a thread may read a pack; 0: they are not side by side */
    parts part; /* where there are runs only their count */
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

/* What became of part `part` of a result at these offsets. */
template <int OP, class S, class A>
STNI_DEVICE void put(const reduction &g, int64_t part, int64_t result, const int64_t (&at)[SIDES], A p)
{
    if (g.part.count > 1)
        static_cast<A *>(g.found)[part * g.kept.count + result] = p;
    else
        write_element(g.out, g.out_dtype, at[RESULT], finished(g, g.empty ? result_of_none<OP, S, A>(g) : p));
}

}

#endif
