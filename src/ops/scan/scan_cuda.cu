/* Scans on a CUDA device: a block each line, THREADS elements at a time. The states of these are joined in
 * log2(THREADS) steps (Hillis and Steele 1986), and what stands before them is joined in front. The arithmetic is that
 * of the CPU's kernels.
 *
 * Sums of numbers that are not complex have kernels of their own (sums_cuda.cuh). */
#include "core/device/cuda/complex_functions.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/products.cuh"
#include "ops/scan/scan_kernel.h"
#include "ops/scan/sums_cuda.cuh"

#include <math.h>

namespace {

#include "ops/scan/scan_real.h"
#include "ops/scan/scan_end.h"

#include "ops/scan/scan_integer.h"
#include "ops/scan/scan_end.h"

#define ACC stni_complex<double>
#define RE(x) ((x).re)
#define IM(x) ((x).im)
#define IMAGINARY(x) stni_complex<double>(0.0, x)
#include "ops/scan/scan_complex.h"
#include "ops/scan/scan_end.h"

/* The functions of one type of arithmetic under one name. */
template <class A> struct arithmetic;
#define ARITHMETIC(type, suffix)                                                                                                     \
    template <> struct arithmetic<type> {                                                                                            \
        typedef state_##suffix state;                                                                                                \
        STNI_ANY_DEVICE static state none(stni_scan_op op) { return none_##suffix(op); }                                             \
        STNI_ANY_DEVICE static state join(stni_scan_op op, state p, state v) { return join_##suffix(op, p, v); }                     \
        STNI_ANY_DEVICE static state lift(stni_scan_op op, type x, type y, int64_t i) { return lift_##suffix(op, x, y, i); }         \
        STNI_ANY_DEVICE static type result(stni_scan_op op, state s, type y) { return result_##suffix(op, s, y); }                   \
        STNI_ANY_DEVICE static int64_t index(state s) { return index_##suffix(s); }                                                  \
    };
ARITHMETIC(double, real)
ARITHMETIC(int64_t, integer)
ARITHMETIC(stni_complex<double>, complex)
#undef ARITHMETIC

enum { THREADS = 128 };

STNI_DEVICE bool is_affine(stni_scan_op op)
{
    return op == STNI_SCAN_AFFINE || op == STNI_SCAN_AFFINE_LAGGED;
}

/* W: how sums and products are stored, of integers in i64. */
template <class E, class W, class A>
STNI_DEVICE void put(const stni_scan_args &a, int64_t out, int64_t index, typename arithmetic<A>::state s, A y)
{
    const A v = arithmetic<A>::result(a.op, s, y);
    if (a.op == STNI_SCAN_SUM || a.op == STNI_SCAN_PROD) {
        W &element = ((W *)a.out)[out];
        store(element, narrow(v, &element));
        return;
    }
    E &element = ((E *)a.out)[out];
    store(element, narrow(v, &element));
    if (a.op == STNI_SCAN_MAX || a.op == STNI_SCAN_MIN)
        a.indices[index] = arithmetic<A>::index(s);
}

/* States become those of all that stands before and at a thread's element. */
template <class A> STNI_DEVICE void join_block(stni_scan_op op, typename arithmetic<A>::state *states)
{
    const int me = (int)threadIdx.x;
    __syncthreads();
    for (int by = 1; by < THREADS; by *= 2) {
        const typename arithmetic<A>::state left = states[me >= by ? me - by : me];
        __syncthreads();
        if (me >= by)
            states[me] = arithmetic<A>::join(op, left, states[me]);
        __syncthreads();
    }
}

template <class E, class W, class A>
__global__ void __launch_bounds__(THREADS) scan_line(const __grid_constant__ stni_scan_args a, int stores)
{
    typedef typename arithmetic<A>::state state;
    STNI_SHARED(state, states, THREADS);
    const stni_lines &lines = a.lines;
    const int64_t line = blockIdx.x, me = threadIdx.x;
    const bool before = a.exclusive || a.op == STNI_SCAN_AFFINE_LAGGED;
    int64_t at[SCAN_TENSORS] = {0}, rest = line;
    for (int d = lines.ndim - 1; d >= 0; d--) {
        for (int t = 0; t < SCAN_TENSORS; t++)
            at[t] += rest % lines.shape[d] * lines.strides[t][d];
        rest /= lines.shape[d];
    }
    state joined = stores && a.states ? ((const state *)a.states)[line] : arithmetic<A>::none(a.op);
    for (int64_t first = 0; first < lines.n; first += THREADS) {
        const int64_t k = first + me, i = a.reverse ? lines.n - 1 - k : k,
                      last = lines.n - first < THREADS ? lines.n - first - 1 : THREADS - 1;
        A x = A(0), y = A(0);
        if (k < lines.n) {
            x = widen(load(((const E *)a.x)[at[SCAN_X] + i * lines.step[SCAN_X]]), &x);
            if (is_affine(a.op))
                y = widen(load(((const E *)a.y)[at[SCAN_Y] + i * lines.step[SCAN_Y]]), &y);
        }
        states[me] = arithmetic<A>::lift(a.op, x, y, a.first + i);
        join_block<A>(a.op, states);
        if (k < lines.n && stores) {
            const state s =
                before && me == 0 ? joined : arithmetic<A>::join(a.op, joined, states[before ? me - 1 : me]);
            put<E, W, A>(a, at[SCAN_OUT] + i * lines.step[SCAN_OUT], at[SCAN_Y] + i * lines.step[SCAN_Y], s, y);
        }
        joined = arithmetic<A>::join(a.op, joined, states[last]);
        __syncthreads();
    }
    if (!stores && me == 0)
        ((state *)a.states)[line] = joined;
}

template <class A>
__global__ void __launch_bounds__(THREADS) join_pieces(const __grid_constant__ stni_scan_prefix_args a)
{
    typedef typename arithmetic<A>::state state;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.count)
        return;
    state joined = arithmetic<A>::none(a.op);
    for (int k = a.begin; k < a.end; k++) {
        const int piece = a.reverse ? a.begin + a.end - 1 - k : k;
        joined =
            arithmetic<A>::join(a.op, joined, ((const state *)a.parts)[stni_scan_rank_of(&a, piece) * a.count + i]);
    }
    ((state *)a.states)[i] = joined;
}

template <class E, class W, class A> void launch_of(const stni_scan_args &args, int stores, cudaStream_t stream)
{
    int64_t lines = 1;
    for (int d = 0; d < args.lines.ndim; d++)
        lines *= args.lines.shape[d];
    if (lines > 0)
        STNI_LAUNCH((scan_line<E, W, A>), blocks_for(lines, 1), THREADS, stream, args, stores);
}

void launch_lines(const stni_scan_args &args, int stores, cudaStream_t stream)
{
    dispatch_floating(args.dtype, [&](auto e) { launch_of<decltype(e), decltype(e), double>(args, stores, stream); });
    dispatch_integer(args.dtype, [&](auto e) { launch_of<decltype(e), int64_t, int64_t>(args, stores, stream); });
    dispatch_narrow(args.dtype, [&](auto e) { launch_of<decltype(e), int64_t, int64_t>(args, stores, stream); });
    dispatch_complex(args.dtype, [&](auto e) {
        launch_of<decltype(e), decltype(e), stni_complex<double>>(args, stores, stream);
    });
}

void launch_sums(const stni_scan_args &args, const line_sums &s, cudaStream_t stream)
{
    dispatch_floating(args.dtype, [&](auto e) { launch_line_sums<decltype(e), decltype(e), double>(s, stream); });
    dispatch_integer(args.dtype, [&](auto e) { launch_line_sums<decltype(e), int64_t, int64_t>(s, stream); });
    dispatch_narrow(args.dtype, [&](auto e) { launch_line_sums<decltype(e), int64_t, int64_t>(s, stream); });
}

void launch_scan(const stni_scan_args &args, cudaStream_t stream)
{
    line_sums s;
    if (args.op == STNI_SCAN_SUM && !(dtype_bit(args.dtype) & COMPLEX_DTYPES) && find_line_sums(args, s))
        launch_sums(args, s, stream);
    else
        launch_lines(args, 1, stream);
}

void launch_total(const stni_scan_args &args, cudaStream_t stream)
{
    launch_lines(args, 0, stream);
}

void launch_prefix(const stni_scan_prefix_args &args, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(args.count, THREADS);
    if (args.count == 0)
        return;
    if (dtype_bit(args.dtype) & COMPLEX_DTYPES)
        STNI_LAUNCH(join_pieces<stni_complex<double>>, blocks, THREADS, stream, args);
    else if (dtype_bit(args.dtype) & FLOATING_DTYPES)
        STNI_LAUNCH(join_pieces<double>, blocks, THREADS, stream, args);
    else
        STNI_LAUNCH(join_pieces<int64_t>, blocks, THREADS, stream, args);
}

}

#define ROWS(op)                                                                            \
    STNI_CUDA_KERNEL(op ".scan", ALL_DTYPES, stni_scan_args, launch_scan),                   \
    STNI_CUDA_KERNEL(op ".total", ALL_DTYPES, stni_scan_args, launch_total),                 \
    STNI_CUDA_KERNEL(op ".prefix", ALL_DTYPES, stni_scan_prefix_args, launch_prefix)

STNI_CUDA_KERNELS(scan) = {
    ROWS("cumsum"),
    ROWS("cumprod"),
    ROWS("cummax"),
    ROWS("cummin"),
    ROWS("logcumsumexp"),
    ROWS("affine_scan"),
    STNI_CUDA_KERNELS_END
};
