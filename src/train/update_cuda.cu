/* Updates on a CUDA device: one grid for all chunks of a list, whose blocks are dealt to the chunks in their order. */
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "train/update_kernel.h"

#include <math.h>

namespace {

namespace in_f32 {
#define T float
#define SQRT sqrtf
#define NAME(x) x
#include "train/update_rows_tmpl.h"
#undef T
#undef SQRT
}

namespace in_f64 {
#define T double
#define SQRT sqrt
#include "train/update_rows_tmpl.h"
#undef T
#undef SQRT
#undef NAME
}

/* The functions of one type under one name; those that take a step are found by it. */
template <class T> struct arithmetic;
#define ARITHMETIC(T, from)                                                                            \
    template <> struct arithmetic<T> {                                                                 \
        typedef from::step step;                                                                       \
        static step step_of(stni_update_kind kind, const stni_update_numbers &n)                       \
        {                                                                                              \
            return from::step_of(kind, &n);                                                            \
        }                                                                                              \
        STNI_ANY_DEVICE static T clipping(const stni_update_numbers &n) { return from::clipping(&n); } \
    };
ARITHMETIC(float, in_f32)
ARITHMETIC(double, in_f64)
#undef ARITHMETIC

enum { THREADS = 256, PER_THREAD = 4, PER_BLOCK = THREADS * PER_THREAD };

template <class T> struct list {
    typename arithmetic<T>::step step;
    stni_update_numbers numbers;
    double *parts; /* of what is counted, one number a block */
    int n;
    unsigned begin[STNI_UPDATE_CHUNKS + 1]; /* each chunk's first block, and all blocks */
    stni_update_chunk chunk[STNI_UPDATE_CHUNKS];
};

static_assert(sizeof(list<double>) <= STN_MAX_KERNEL_ARGS, "arguments of a kernel");

/* Whether blocks count something that is added to norm_square. */
STNI_HOST_DEVICE bool counts(stni_update_kind kind)
{
    return kind == STNI_UPDATE_NORM || kind == STNI_UPDATE_UNSCALE;
}

/* Element i of a chunk; what it adds to a block's count. */
template <int KIND, class T>
STNI_DEVICE double update(const list<T> &l, const stni_update_chunk &c, int64_t i, T factor)
{
    T *const a = static_cast<T *>(c.at[0]) + i, *const b = static_cast<T *>(c.at[1]) + i;
    T *const m = static_cast<T *>(c.at[2]) + i, *const v = static_cast<T *>(c.at[3]) + i;
    (void)b, (void)m, (void)v, (void)factor;
    if constexpr (KIND == STNI_UPDATE_SGD) {
        step_sgd(&l.step, a, *b);
    } else if constexpr (KIND == STNI_UPDATE_MOMENTUM) {
        step_momentum(&l.step, a, *b, m);
    } else if constexpr (KIND == STNI_UPDATE_ADAMW) {
        step_adamw(&l.step, a, *b, m, v);
    } else if constexpr (KIND == STNI_UPDATE_ADAM) {
        step_adam(&l.step, a, *b, m, v);
    } else if constexpr (KIND == STNI_UPDATE_AVERAGE) {
        step_average(&l.step, a, *b);
    } else if constexpr (KIND == STNI_UPDATE_SWAP) {
        const T kept = *a;
        *a = *b;
        *b = kept;
    } else if constexpr (KIND == STNI_UPDATE_NORM) {
        return (double)*a * (double)*a;
    } else if constexpr (KIND == STNI_UPDATE_SCALE) {
        *a = factor * *b;
    } else if constexpr (KIND == STNI_UPDATE_UNSCALE) {
        *a = *b / l.step.divisor;
        return *a - *a != 0; /* 0 for finite numbers only */
    }
    return 0;
}

template <int KIND, class T> __global__ void __launch_bounds__(THREADS) update_list(const __grid_constant__ list<T> l)
{
    const int which = piece_of_block(l.begin, l.n, blockIdx.x);
    const stni_update_chunk &chunk = l.chunk[which];
    const int64_t first = (int64_t)(blockIdx.x - l.begin[which]) * PER_BLOCK + threadIdx.x;
    const T factor = KIND == STNI_UPDATE_SCALE ? arithmetic<T>::clipping(l.numbers) : T(1);
    double count = 0;
    STNI_UNROLL
    for (int k = 0; k < PER_THREAD; k++) {
        const int64_t i = first + k * THREADS;
        if (i < chunk.n)
            count += update<KIND>(l, chunk, i, factor);
    }
    if (!counts((stni_update_kind)KIND))
        return;
    count = reduce_block<THREADS>(count, [](double p, double v) { return p + v; });
    if (threadIdx.x == 0)
        l.parts[blockIdx.x] = count;
}

/* One block. */
__global__ void __launch_bounds__(THREADS) add_counts(const double *parts, int64_t n, double *total)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum += parts[i];
    sum = reduce_block<THREADS>(sum, [](double p, double v) { return p + v; });
    if (threadIdx.x == 0)
        *total += sum;
}

unsigned blocks_of(const stni_update_chunk &chunk)
{
    return (unsigned)((chunk.n + PER_BLOCK - 1) / PER_BLOCK);
}

size_t workspace(stn_queue *, const void *raw)
{
    const stni_update_args &a = *static_cast<const stni_update_args *>(raw);
    size_t blocks = 0;
    for (int i = 0; i < a.n; i++)
        blocks += blocks_of(a.chunk[i]);
    return counts(a.kind) ? blocks * sizeof(double) : 0;
}

template <int KIND, class T> void launch_kind(const stni_update_args &a, cudaStream_t stream)
{
    list<T> l = {arithmetic<T>::step_of(a.kind, a.numbers), a.numbers, static_cast<double *>(a.workspace), a.n, {}, {}};
    for (int i = 0; i < a.n; i++) {
        l.chunk[i] = a.chunk[i];
        l.begin[i + 1] = l.begin[i] + blocks_of(a.chunk[i]);
    }
    const unsigned blocks = l.begin[a.n];
    if (blocks == 0)
        return;
    STNI_LAUNCH((update_list<KIND, T>), blocks, THREADS, stream, l);
    if (counts((stni_update_kind)KIND))
        STNI_LAUNCH(add_counts, 1, THREADS, stream, l.parts, (int64_t)blocks, a.numbers.norm_square);
}

template <class T> void launch_of(const stni_update_args &a, cudaStream_t stream)
{
    switch (a.kind) {
    case STNI_UPDATE_SGD: return launch_kind<STNI_UPDATE_SGD, T>(a, stream);
    case STNI_UPDATE_MOMENTUM: return launch_kind<STNI_UPDATE_MOMENTUM, T>(a, stream);
    case STNI_UPDATE_ADAMW: return launch_kind<STNI_UPDATE_ADAMW, T>(a, stream);
    case STNI_UPDATE_ADAM: return launch_kind<STNI_UPDATE_ADAM, T>(a, stream);
    case STNI_UPDATE_AVERAGE: return launch_kind<STNI_UPDATE_AVERAGE, T>(a, stream);
    case STNI_UPDATE_SWAP: return launch_kind<STNI_UPDATE_SWAP, T>(a, stream);
    case STNI_UPDATE_NORM: return launch_kind<STNI_UPDATE_NORM, T>(a, stream);
    case STNI_UPDATE_SCALE: return launch_kind<STNI_UPDATE_SCALE, T>(a, stream);
    case STNI_UPDATE_UNSCALE: return launch_kind<STNI_UPDATE_UNSCALE, T>(a, stream);
    case STNI_UPDATE_KINDS: break;
    }
}

void launch_chunks(const stni_update_args &a, cudaStream_t stream)
{
    if (a.dtype == STN_DTYPE_F64)
        launch_of<double>(a, stream);
    else
        launch_of<float>(a, stream);
}

}

STNI_CUDA_KERNELS(update) = {STNI_CUDA_KERNEL_WITH("update.chunks", dtype_bit(STN_DTYPE_F32) | dtype_bit(STN_DTYPE_F64),
                                                   stni_update_args, launch_chunks, workspace),
                             STNI_CUDA_KERNELS_END};
