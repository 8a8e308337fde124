/* What the kernels of distances between rows have in common on a CUDA device. */
#ifndef STNI_OPS_DISTANCE_CDIST_DISTANCES_CUH
#define STNI_OPS_DISTANCE_CDIST_DISTANCES_CUH

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/packs.cuh"
#include "ops/distance/cdist_kernel.h"

/* With fewer blocks of the tiles of many rows, smaller ones use more of a device. */
#ifndef STNI_DISTANCE_ENOUGH
#define STNI_DISTANCE_ENOUGH 32
#endif

namespace {

using metric = enum stni_cdist_metric;

/* Of differences or of their squares: the metrics that tiles of many rows are for. */
inline bool is_of_sums(metric m)
{
    return m == STNI_CDIST_ONE || m == STNI_CDIST_TWO;
}

/* One batch of both directions: where its operands begin. */
enum { X1, X2, DISTANCE, GRAD, GRAD1, OPERANDS };

struct distances {
    operands<OPERANDS> own, summed; /* batch dims that grad1 has, and those that it is summed over */
    metric m;
    double p;
    int64_t rows1, rows2, n, row[OPERANDS], col[OPERANDS];
};

/* As many elements side by side as a pack has numbers of their type of arithmetic. */
template <class S> using stored_pack = side_by_side<S, pack<typename computed<S>::type>::SIZE>;

/* A warp's threads as 4 x 8. Where lanes that differ in the last bit, or in the last but one, read the same pack of
 * shared memory, the packs of a warp come in half the time; so rows are of the last bit, columns of the next. */
enum { WARP = 32, WARP_ROWS = 4, WARP_COLS = 8 };

STNI_DEVICE int row_in_warp()
{
    const int lane = (int)threadIdx.x % WARP;
    return (lane & 1) + 2 * (lane / 16);
}

STNI_DEVICE int col_in_warp()
{
    return (int)threadIdx.x % WARP / 2 % WARP_COLS;
}

/* Where the e-th of N numbers of thread `thread` lies in a line of which `threads` threads have packs in turn. */
template <class A> STNI_HOST_DEVICE int place_in_line(int e, int thread, int threads)
{
    return (e / pack<A>::SIZE * threads + thread) * pack<A>::SIZE + e % pack<A>::SIZE;
}

/* The N numbers of a thread, from where its first pack is. */
template <class A, int N> STNI_DEVICE void read_packs(const pack<A> *from, int threads, A (&to)[N])
{
    STNI_UNROLL
    for (int p = 0; p < N / pack<A>::SIZE; p++) {
        const pack<A> read = from[p * threads];
        STNI_UNROLL
        for (int e = 0; e < pack<A>::SIZE; e++)
            to[p * pack<A>::SIZE + e] = read.v[e];
    }
}

}

#endif
