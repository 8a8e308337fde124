/* Searches for near points on a CUDA device: a warp has a few queries and reads all points, a lane each. */
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/points/block_parts.cuh"
#include "ops/points/neighbours_kernel.h"

#include <math.h>

namespace {

enum {
    THREADS = 128,
    WARPS = THREADS / WARP,
    TOGETHER = 4,          /* queries that read a point at once, where there are many */
    AT_LEAST = 1 << 13,    /* queries from which on they do: enough for the processors of any device */
    SHARED_CANDIDATES = 16, /* of a query, up to which they are in shared memory */
    FINISH_BLOCKS = 8       /* of a processor, which leave each thread as many registers as it takes */
};

static_assert((int)STNI_LEAF == (int)WARP, "a lane each point of a leaf");

STNI_DEVICE uint64_t key_of(float square)
{
    return stni_near_key_f32(square);
}

STNI_DEVICE uint64_t key_of(double square)
{
    return stni_near_key_f64(square);
}

/* Of the first argument's type. */
STNI_DEVICE float square_of(float, uint64_t key)
{
    return stni_near_square_f32(key);
}

STNI_DEVICE double square_of(double, uint64_t key)
{
    return stni_near_square_f64(key);
}

/* Candidates among the points of a leaf, in the order of the lanes, for one query. All lanes have its farthest. */
template <class A>
STNI_DEVICE void take_candidates(stni_candidate *heap, int64_t k, const int64_t *index, bool there, A square,
                                 A &farthest)
{
    unsigned left = __ballot_sync(WHOLE_WARP, there && !(square > farthest));
    while (left) {
        const int lane = __popc((left & (0u - left)) - 1);
        const A candidate = value_of_lane(square, lane);
        left &= left - 1;
        if (candidate > farthest)
            continue;
        uint64_t root = 0;
        if (threadIdx.x % WARP == 0) {
            const stni_candidate next = {key_of(candidate), index[lane]};
            stni_near_put(heap, k, next);
            root = heap[0].key;
        }
        farthest = square_of(A(), value_of_lane(root, 0));
    }
}

/* A warp each Q queries. `near`: their candidates while it searches. */
template <class S, int Q>
STNI_DEVICE void search_block(const stni_near_search_args &a, int64_t first, stni_candidate *const (&near)[Q])
{
    typedef typename computed<S>::type A;
    const block_parts<A> from = parts_of<A>(const_cast<void *>(a.block), a.shape);
    const int64_t lane = threadIdx.x % WARP;
    const S *query[Q];
    A farthest[Q];
    STNI_UNROLL
    for (int j = 0; j < Q; j++) {
        const int64_t i = first + j < a.queries.rows ? first + j : a.queries.rows - 1;
        query[j] = static_cast<const S *>(a.queries.data) + i * a.queries.row;
        farthest[j] = square_of(A(), near[j][0].key);
    }
    __syncwarp(WHOLE_WARP); /* all lanes have read what the first one writes from here on */
    for (int64_t leaf = 0; leaf < stni_leaves(a.shape.n); leaf++) {
        const A *x = from.x + leaf * STNI_LEAF * a.shape.d + lane;
        A square[Q] = {};
        for (int64_t c = 0; c < a.shape.d; c++) {
            const A p = x[c * STNI_LEAF];
            STNI_UNROLL
            for (int j = 0; j < Q; j++) {
                const A t = (A)load(query[j][c * a.queries.col]) - p;
                square[j] += t * t;
            }
        }
        STNI_UNROLL
        for (int j = 0; j < Q; j++)
            take_candidates(near[j], a.k, from.index + leaf * STNI_LEAF,
                            leaf * STNI_LEAF + lane < a.shape.n && first + j < a.queries.rows, square[j], farthest[j]);
    }
}

/* Candidates are the first lane's alone, but where they come from and go to. */
template <class S, int Q> __global__ void __launch_bounds__(THREADS)
search_points(const __grid_constant__ stni_near_search_args a)
{
    STNI_SHARED(stni_candidate, shared, WARPS * Q * SHARED_CANDIDATES);
    const int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / WARP) * Q, lane = threadIdx.x % WARP;
    const bool is_shared = a.k <= SHARED_CANDIDATES;
    stni_candidate *near[Q];
    if (first >= a.queries.rows)
        return;
    const stni_candidate none = {a.limit, -1};
    STNI_UNROLL
    for (int j = 0; j < Q; j++) {
        stni_candidate *own = a.candidates + (first + j) * a.k;
        const bool there = first + j < a.queries.rows;
        stni_candidate *in_shared = shared + ((int64_t)threadIdx.x / WARP * Q + j) * SHARED_CANDIDATES;
        near[j] = is_shared ? in_shared : there ? own : near[0];
        for (int64_t i = lane; i < a.k && (is_shared || (there && a.fresh)); i += WARP)
            near[j][i] = there && !a.fresh ? own[i] : none;
    }
    __syncwarp(WHOLE_WARP);
    search_block<S, Q>(a, first, near);
    __syncwarp(WHOLE_WARP);
    STNI_UNROLL
    for (int j = 0; j < Q; j++)
        for (int64_t i = lane; is_shared && i < a.k && first + j < a.queries.rows; i += WARP)
            a.candidates[(first + j) * a.k + i] = near[j][i];
}

/* A thread each query. */
template <class S> __global__ void __launch_bounds__(THREADS, FINISH_BLOCKS)
finish_queries(const __grid_constant__ stni_near_finish_args a)
{
    typedef typename computed<S>::type A;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    stni_candidate *heap = a.candidates + i * a.k;
    S *distances = static_cast<S *>(a.distances) + i * a.k;
    int64_t found = 0;
    for (int part = 1; part < a.parts; part++)
        for (int64_t j = 0; j < a.k; j++) {
            const stni_candidate candidate = a.candidates[(part * a.n + i) * a.k + j];
            if (candidate.index >= 0)
                stni_near_put(heap, a.k, candidate);
        }
    stni_near_sort(heap, a.k);
    for (int64_t j = 0; j < a.k; j++) {
        const bool there = heap[j].index >= 0;
        found += there;
        a.indices[i * a.k + j] = there ? heap[j].index : 0;
        store(distances[j], there ? (A)sqrt(square_of(A(), heap[j].key)) : (A)0);
    }
    if (a.counts)
        a.counts[i] = found;
}

void launch_search(const stni_near_search_args &a, cudaStream_t stream)
{
    const int64_t m = a.queries.rows;
    dispatch_floating(a.shape.dtype, [&](auto element) {
        typedef decltype(element) S;
        if (m >= AT_LEAST)
            STNI_LAUNCH((search_points<S, TOGETHER>), blocks_for(m, WARPS * TOGETHER), THREADS, stream, a);
        else
            STNI_LAUNCH((search_points<S, 1>), blocks_for(m, WARPS), THREADS, stream, a);
    });
}

void launch_finish(const stni_near_finish_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) {
        STNI_LAUNCH((finish_queries<decltype(element)>), blocks_for(a.n, THREADS), THREADS, stream, a);
    });
}

}

STNI_CUDA_KERNELS(neighbours) = {
    STNI_CUDA_KERNEL("knn.search", FLOATING_DTYPES, stni_near_search_args, launch_search),
    STNI_CUDA_KERNEL("knn.finish", FLOATING_DTYPES, stni_near_finish_args, launch_finish),
    STNI_CUDA_KERNEL("radius_search.search", FLOATING_DTYPES, stni_near_search_args, launch_search),
    STNI_CUDA_KERNEL("radius_search.finish", FLOATING_DTYPES, stni_near_finish_args, launch_finish),
    STNI_CUDA_KERNELS_END
};
