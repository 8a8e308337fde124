/* Exact sums on a CUDA device: blocks add their elements in shared memory, then to the sum. Integers may be added in
 * any order. A sum of few elements is one thread's. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/reduce/exact_sum_kernel.h"
#include "ops/reduce/reduce_dims.cuh"

namespace {

enum { THREADS = 256, FEW = 64, PER_BLOCK = 1 << 14, MOST_BLOCKS = 1 << 15 };
enum { MOST_WORDS = STNI_EXACT_DIGITS_F64 + STNI_EXACT_COUNTS };

typedef unsigned long long word; /* atomicAdd knows no signed one of its size; sums wrap alike */

struct addition {
    operands<SIDES> kept;
    operands<1> reduced;
    const void *in;
    word *sums;
    int words;
    int64_t first, end; /* elements of each result that this grid adds */
};

STNI_DEVICE stni_exact_addend addend_of(float x) { return stni_exact_addend_f32(x); }
STNI_DEVICE stni_exact_addend addend_of(double x) { return stni_exact_addend_f64(x); }

template <class S> STNI_DEVICE stni_exact_addend addend_at(const addition &g, int64_t result_at, int64_t i)
{
    int64_t element[1];
    any_offsets_of(g.reduced, i, element);
    return addend_of(load(static_cast<const S *>(g.in)[result_at + element[0]]));
}

template <class S> __global__ void __launch_bounds__(THREADS) add_alone(const __grid_constant__ addition g)
{
    const int64_t result = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[SIDES];
    if (result >= g.kept.count)
        return;
    any_offsets_of(g.kept, result, at);
    word *const sum = g.sums + at[RESULT] * g.words;
    for (int64_t i = 0; i < g.reduced.count; i++) {
        const stni_exact_addend a = addend_at<S>(g, at[IN], i);
        for (int j = 0; j < 3; j++)
            if (a.word[j])
                sum[a.at + j] += (word)a.word[j];
    }
}

template <class S> __global__ void __launch_bounds__(THREADS) add(const __grid_constant__ addition g, int64_t result0)
{
    STNI_SHARED(word, part, MOST_WORDS);
    const int64_t result = result0 + blockIdx.x, step = (int64_t)gridDim.y * THREADS;
    int64_t at[SIDES];
    for (int k = (int)threadIdx.x; k < g.words; k += THREADS)
        part[k] = 0;
    __syncthreads();
    any_offsets_of(g.kept, result, at);
    for (int64_t i = g.first + (int64_t)blockIdx.y * THREADS + threadIdx.x; i < g.end; i += step) {
        const stni_exact_addend a = addend_at<S>(g, at[IN], i);
        for (int j = 0; j < 3; j++)
            if (a.word[j])
                atomicAdd(&part[a.at + j], (word)a.word[j]);
    }
    __syncthreads();
    for (int k = (int)threadIdx.x; k < g.words; k += THREADS)
        if (part[k])
            atomicAdd(&g.sums[at[RESULT] * g.words + k], part[k]);
}

__global__ void __launch_bounds__(THREADS) carry(int64_t *sums, int64_t count, int digits)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        stni_exact_carry(sums + i * (digits + STNI_EXACT_COUNTS), digits);
}

template <class S>
__global__ void __launch_bounds__(THREADS) round_sums(stn_dtype dtype, int64_t *sums, int64_t count, S *out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        store(out[i], (typename computed<S>::type)stni_exact_value(sums + i * stni_exact_words(dtype), dtype));
}

/* Elements first to end of all results; a grid has room for so many results at once. */
template <class S> void launch_part(addition &g, cudaStream_t stream)
{
    const int64_t wanted = (g.end - g.first + PER_BLOCK - 1) / PER_BLOCK;
    if (g.reduced.count <= FEW) {
        STNI_LAUNCH(add_alone<S>, blocks_for(g.kept.count, THREADS), THREADS, stream, g);
        return;
    }
    for (int64_t result0 = 0; result0 < g.kept.count; result0 += MOST_BLOCKS) {
        const int64_t left = g.kept.count - result0, results = left < MOST_BLOCKS ? left : (int64_t)MOST_BLOCKS;
        const int64_t most = MOST_BLOCKS / results;
        const dim3 grid((unsigned)results, (unsigned)(wanted < most ? wanted : most));
        STNI_LAUNCH(add<S>, grid, THREADS, stream, g, result0);
    }
}

void launch_add(const stni_exact_sum_args &args, cudaStream_t stream)
{
    const stni_reduce_args &a = args.of;
    const int digits = stni_exact_digits(a.in_dtype), words = digits + STNI_EXACT_COUNTS;
    addition g = {{}, {}, a.in, reinterpret_cast<word *>(args.sums), words, 0, 0};
    cudaMemsetAsync(args.sums, 0, (size_t)(args.count * words) * sizeof(int64_t), stream);
    reduce_dims(a, g.kept, g.reduced);
    for (; g.first < g.reduced.count; g.first = g.end) {
        g.end =
            g.reduced.count - g.first < STNI_EXACT_BEFORE_CARRY ? g.reduced.count : g.first + STNI_EXACT_BEFORE_CARRY;
        dispatch_floating(a.in_dtype, [&](auto element) { launch_part<decltype(element)>(g, stream); });
        STNI_LAUNCH(carry, blocks_for(args.count, THREADS), THREADS, stream, args.sums, args.count, digits);
    }
}

void launch_round(const stni_exact_sum_args &args, cudaStream_t stream)
{
    dispatch_floating(args.of.out_dtype, [&](auto element) {
        typedef decltype(element) S;
        STNI_LAUNCH(round_sums<S>, blocks_for(args.count, THREADS), THREADS, stream, args.of.out_dtype, args.sums,
                    args.count, static_cast<S *>(args.of.out));
    });
}

}

STNI_CUDA_KERNELS(exact_sum) = {
    STNI_CUDA_KERNEL("exact_sum.add", FLOATING_DTYPES, stni_exact_sum_args, launch_add),
    STNI_CUDA_KERNEL("exact_sum.round", FLOATING_DTYPES, stni_exact_sum_args, launch_round),
    STNI_CUDA_KERNELS_END
};
