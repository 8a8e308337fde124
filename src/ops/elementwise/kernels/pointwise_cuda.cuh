/* The kernels of one list of rows. A source includes this with
 *   CASES    the list of CASE, or of UNARY_CASES
 *   TYPES    the compute types that it has: EVERY_TYPE, ANALYTIC_TYPES or REAL_TYPES
 *   LAUNCH   the function that puts an op of the list on a stream (pointwise_cuda.h)
 *
 * Dense operands of f32, bf16 or f16 have a kernel for each row, which moves 16 bytes at a time. Everything else, any
 * strides and dtypes, is one kernel for each compute type, in which the row is a branch that all threads take alike. */
#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/packs.cuh"
#include "core/device/cuda/value.cuh"
#include "ops/common/bad_value.h"
#include "ops/elementwise/kernels/narrow_rows.cuh"
#include "ops/elementwise/kernels/pointwise_cuda.h"

#define UNARY_CASES(op, ...) CASE(op) CASE(op##_backward) CASE(op##_double_backward)

#define REAL_TYPES(X) X(STN_DTYPE_F32, float) X(STN_DTYPE_F64, double)
#define ANALYTIC_TYPES(X) REAL_TYPES(X) X(STN_DTYPE_C64, stni_complex<float>) X(STN_DTYPE_C128, stni_complex<double>)
#define EVERY_TYPE(X) ANALYTIC_TYPES(X) X(STN_DTYPE_I64, int64_t) X(STN_DTYPE_BOOL, truth)

namespace {

enum { THREADS = 256, PER_THREAD = 8 /* dense elements */, MAX_IN = STNI_POINTWISE_MAX_IN, OUT = MAX_IN };
constexpr int64_t DENSE_AT_ONCE = 1 << 30; /* elements of a launch, so that 32-bit indices serve */

template <class T> part_of<T> number_of(const struct stni_pointwise_number &number)
{
    if constexpr (is_same<T, int64_t>)
        return number.i;
    else if constexpr (is_same<T, truth>)
        return number.f != 0;
    else
        return (part_of<T>)number.f;
}

/* A dense operand; `step` 0: one element that repeats; data NULL: `number` does. */
template <class S> struct dense_operand {
    const S *data;
    typename computed<S>::type number;
    int step;
};

template <class S> struct dense_args {
    uint32_t n;
    S *out;
    dense_operand<S> in[MAX_IN];
    typename computed<S>::type a, b, c;
};

/* What an operand is where it is no run. */
template <class S> STNI_DEVICE typename computed<S>::type same_of(const dense_operand<S> &operand)
{
    return operand.data && !operand.step ? load(operand.data[0]) : operand.number;
}

template <class S> STNI_DEVICE typename computed<S>::type element_at(const dense_operand<S> &operand, uint32_t i,
                                                                     typename computed<S>::type same)
{
    return operand.step ? load(operand.data[i]) : same;
}

/* The elements of a pack that was read of an operand, which may be no run. All threads take the same branch. */
template <class S> STNI_DEVICE void elements_of(const dense_operand<S> &operand, const pack<S> &read,
                                                typename computed<S>::type same,
                                                typename computed<S>::type (&values)[pack<S>::SIZE])
{
    if (operand.step)
        return load_pack(read, values);
    STNI_UNROLL
    for (int k = 0; k < pack<S>::SIZE; k++)
        values[k] = same;
}

/* A thread reads its packs before it writes one; what is left over is an element each for the first threads. */
template <int OP, class S> __global__ void __launch_bounds__(THREADS) dense(const __grid_constant__ dense_args<S> g)
{
    typedef typename computed<S>::type T;
    enum { SIZE = pack<S>::SIZE, PACKS = PER_THREAD / SIZE };
    const uint32_t packs = g.n / SIZE, first = blockIdx.x * (THREADS * PACKS) + threadIdx.x;
    const T same[MAX_IN] = {same_of(g.in[0]), same_of(g.in[1]), same_of(g.in[2])};
    pack<S> in[PACKS][MAX_IN];
    STNI_UNROLL
    for (int u = 0; u < PACKS; u++) {
        const uint32_t i = first + u * THREADS;
        STNI_UNROLL
        for (int k = 0; k < MAX_IN; k++)
            if (i < packs && g.in[k].step)
                in[u][k] = reinterpret_cast<const pack<S> *>(g.in[k].data)[i];
    }
    STNI_UNROLL
    for (int u = 0; u < PACKS; u++) {
        const uint32_t i = first + u * THREADS;
        if (i < packs) {
            T x[SIZE], y[SIZE], z[SIZE], value[SIZE];
            elements_of(g.in[0], in[u][0], same[0], x);
            elements_of(g.in[1], in[u][1], same[1], y);
            elements_of(g.in[2], in[u][2], same[2], z);
            STNI_UNROLL
            for (int k = 0; k < SIZE; k++)
                value[k] = row_value_in<OP, S, T>({x[k], y[k], z[k], g.a, g.b, g.c});
            pack<S> out;
            store_pack(out, value);
            reinterpret_cast<pack<S> *>(g.out)[i] = out;
        }
    }
    const uint32_t left = packs * SIZE + first;
    if (left < g.n && first < SIZE) {
        const T x = element_at(g.in[0], left, same[0]), y = element_at(g.in[1], left, same[1]);
        store(g.out[left], row_value_in<OP, S, T>({x, y, element_at(g.in[2], left, same[2]), g.a, g.b, g.c}));
    }
}

template <int OP, class S> void launch_row(const dense_args<S> &g, cudaStream_t stream)
{
    STNI_LAUNCH((dense<OP, S>), blocks_for(g.n, THREADS * PER_THREAD), THREADS, stream, g);
}

template <class S> void launch_dense_piece(int op, const dense_args<S> &g, cudaStream_t stream)
{
    switch (op) {
#define CASE(op, ...) \
    case STNI_POINTWISE_##op: launch_row<STNI_POINTWISE_##op>(g, stream); break;
        CASES
#undef CASE
    }
}

template <class S> void launch_dense(const struct stni_pointwise_args &args, cudaStream_t stream)
{
    typedef typename computed<S>::type T;
    const int64_t n = args.ndim ? args.shape[0] : 1;
    dense_args<S> g = {};
    g.a = number_of<T>(args.a);
    g.b = number_of<T>(args.b);
    g.c = number_of<T>(args.c);
    for (int i = 0; i < args.n_in; i++)
        g.in[i] = {static_cast<const S *>(args.in[i].data), number_of<T>(args.number[i]),
                   args.in[i].data && args.ndim && args.in[i].strides[0] != 0};
    g.out = static_cast<S *>(args.out.data);
    for (int64_t done = 0; done < n; done += DENSE_AT_ONCE) {
        g.n = (uint32_t)(n - done < DENSE_AT_ONCE ? n - done : DENSE_AT_ONCE);
        launch_dense_piece(args.op, g, stream);
        g.out += DENSE_AT_ONCE;
        for (int i = 0; i < args.n_in; i++)
            if (g.in[i].step)
                g.in[i].data += DENSE_AT_ONCE;
    }
}

/* Whether an operand is a dense run, or one element, of `dtype`. */
bool is_dense(const struct stni_pointwise_args &args, const struct stni_pointwise_operand &operand, stn_dtype dtype)
{
    if (operand.dtype != dtype)
        return false;
    const int64_t step = args.ndim ? operand.strides[0] : 1;
    return step == 0 || (step == 1 && is_pack_aligned((uintptr_t)operand.data));
}

bool are_dense(const struct stni_pointwise_args &args)
{
    if (args.ndim > 1 || !is_dense(args, args.out, args.out.dtype))
        return false;
    for (int i = 0; i < args.n_in; i++)
        if (args.in[i].data && !is_dense(args, args.in[i], args.out.dtype))
            return false;
    return true;
}

/* Operands of any form. */
template <class T> struct any_args {
    operands<MAX_IN + 1> space;
    void *data[MAX_IN + 1];
    stn_dtype dtype[MAX_IN + 1];
    T number[MAX_IN];
    part_of<T> a, b, c;
    int op, n_in, number_of_op;
    int narrow; /* the row is that of 16-bit floats (narrow_rows.cuh) */
    stn_value_record *values; /* NULL: no divisor must be looked at */
};

template <class T> STNI_DEVICE T value_of_row(int op, const row_operands<T> &in)
{
    switch (op) {
#define CASE(op, ...) \
    case STNI_POINTWISE_##op: return row_value<STNI_POINTWISE_##op, T>(in);
        CASES
#undef CASE
    }
    return in.x;
}

STNI_DEVICE float value_of_narrow_row(int op, const row_operands<float> &in)
{
    switch (op) {
#define CASE(op, ...) \
    case STNI_POINTWISE_##op: return narrow_row_value<STNI_POINTWISE_##op>(in);
        CASES
#undef CASE
    }
    return in.x;
}

template <class S> bool is_narrow_row(int op)
{
    switch (op) {
#define CASE(op, ...) \
    case STNI_POINTWISE_##op: return has_narrow_row<STNI_POINTWISE_##op, S>;
        CASES
#undef CASE
    }
    return false;
}

/* Whether the operand that has the result's dtype by the op's rule, and the result, are such 16-bit floats. */
bool is_narrow(const struct stni_pointwise_args &args)
{
    const stn_dtype dtype = args.out.dtype;
    return args.in[0].dtype == dtype && ((dtype == STN_DTYPE_BF16 && is_narrow_row<bf16>(args.op)) ||
                                         (dtype == STN_DTYPE_F16 && is_narrow_row<f16>(args.op)));
}

/* Every layout gives the bits that a dense one gives. */
template <class T> STNI_DEVICE T value_of_any(const any_args<T> &g, const row_operands<T> &in)
{
    if constexpr (is_same<T, float>) {
        if (g.narrow)
            return value_of_narrow_row(g.op, in);
    }
    return value_of_row<T>(g.op, in);
}

template <class T> __global__ void any(const __grid_constant__ any_args<T> g)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[MAX_IN + 1];
    T in[MAX_IN];
    if (i >= g.space.count)
        return;
    if (is_small(g.space))
        offsets_of(g.space, (uint32_t)i, at);
    else
        offsets_of(g.space, i, at);
    for (int k = 0; k < MAX_IN; k++)
        in[k] = k < g.n_in && g.data[k] ? read_element<T>(g.data[k], g.dtype[k], at[k]) : g.number[k];
    if constexpr (is_same<T, int64_t>) {
        if (g.values && in[1] == 0)
            report_value(g.values, g.number_of_op, STNI_BAD_DIVISOR);
    }
    write_element(g.data[OUT], g.dtype[OUT], at[OUT], value_of_any<T>(g, {in[0], in[1], in[2], g.a, g.b, g.c}));
}

template <class T>
void launch_any(const struct stni_pointwise_args &args, stn_value_record *values, cudaStream_t stream)
{
    any_args<T> g = {};
    g.space = no_dims<MAX_IN + 1>();
    for (int d = 0; d < args.ndim; d++)
        add_dim(g.space, args.shape[d],
                {args.in[0].strides[d], args.in[1].strides[d], args.in[2].strides[d], args.out.strides[d]});
    end_dims(g.space);
    for (int k = 0; k < args.n_in; k++) {
        g.data[k] = args.in[k].data;
        g.dtype[k] = args.in[k].dtype;
        g.number[k] = T(number_of<T>(args.number[k]));
    }
    g.data[OUT] = args.out.data;
    g.dtype[OUT] = args.out.dtype;
    g.a = number_of<T>(args.a);
    g.b = number_of<T>(args.b);
    g.c = number_of<T>(args.c);
    g.op = args.op;
    g.n_in = args.n_in;
    g.narrow = is_narrow(args);
    g.values = args.divides ? values : nullptr;
    g.number_of_op = args.number_of_op;
    STNI_LAUNCH(any<T>, blocks_for(g.space.count, THREADS), THREADS, stream, g);
}

}

void LAUNCH(const struct stni_pointwise_args &args, stn_value_record *values, cudaStream_t stream)
{
    const bool dense = are_dense(args);
    if (dense && args.out.dtype == STN_DTYPE_F32)
        return launch_dense<float>(args, stream);
    if (dense && args.out.dtype == STN_DTYPE_BF16)
        return launch_dense<bf16>(args, stream);
    if (dense && args.out.dtype == STN_DTYPE_F16)
        return launch_dense<f16>(args, stream);
    switch ((int)args.compute) {
#define TYPE(dtype, T) \
    case dtype: return launch_any<T>(args, values, stream);
        TYPES(TYPE)
#undef TYPE
    }
}
