/* Neighborhood attention on a CUDA device: a warp each target. 32 sources at a time each lane has the score of one;
 * then the lanes are columns of the result, to which the sources' rows are added, one after the other, times their
 * scores. No number is added to by two warps, so that results have the same bits in every run and whatever the cuts of
 * space. */
#include "core/device/cuda/block.cuh"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/products.cuh"
#include "ops/neighborhood/neighborhood_kernel.h"

#include <math.h>

namespace {

typedef stni_neighborhood_args arguments;
typedef stni_neighborhood_operand operand;

/* Columns are gathered COLS * WARP at a time; beyond that many scores are computed again. BLOCKS of a processor leave
 * each thread as many registers as it takes. */
enum { THREADS = 128, COLS = 4, BLOCKS = 3 };

/* A target: where it lies, relative to the first one, and what it has along each dim. */
struct target {
    int64_t batch, head, at[STNI_NEIGHBORHOOD_DIMS];
    stni_neighbors along[STNI_NEIGHBORHOOD_DIMS];
    int64_t sources;
};

STNI_DEVICE int64_t offset_of(const operand &o, int64_t batch, int64_t head,
                              const int64_t (&at)[STNI_NEIGHBORHOOD_DIMS])
{
    int64_t offset = batch * o.batch + head * o.head;
    STNI_UNROLL
    for (int d = 0; d < STNI_NEIGHBORHOOD_DIMS; d++)
        offset += at[d] * o.space[d];
    return offset;
}

/* Targets next to each other in space are next to each other in a block: they have sources in common. */
template <bool OF_KEYS> STNI_DEVICE bool find_target(const arguments &p, target &t)
{
    int64_t rest = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    const int64_t heads = OF_KEYS ? p.key_heads : p.heads;
    t.sources = 1;
    for (int d = STNI_NEIGHBORHOOD_DIMS - 1; d >= 0; d--) {
        const int64_t n = stni_range_length(p.target[d]);
        t.at[d] = rest % n;
        rest /= n;
        t.along[d] = OF_KEYS ? stni_neighborhood_queries(&p.dim[d], p.target[d].begin + t.at[d]) :
                               stni_neighborhood_keys(&p.dim[d], p.target[d].begin + t.at[d]);
        t.sources *= t.along[d].count;
    }
    t.head = rest % heads;
    t.batch = rest / heads;
    return t.batch < p.batch;
}

/* I: 32 bits where they can count the sources, since a GPU has no division of 64. */
template <class I> STNI_DEVICE void divide(const target &t, I source, int64_t (&along)[STNI_NEIGHBORHOOD_DIMS])
{
    for (int d = STNI_NEIGHBORHOOD_DIMS - 1; d >= 0; d--) {
        along[d] = (int64_t)(source % (I)t.along[d].count);
        source /= (I)t.along[d].count;
    }
}

/* Where source number `source` of a target lies, relative to the first one of the box. */
STNI_DEVICE void find_source(const arguments &p, const target &t, int64_t source,
                             int64_t (&at)[STNI_NEIGHBORHOOD_DIMS])
{
    t.sources < 2 * STNI_SMALL_COUNT ? divide(t, (uint32_t)source, at) : divide(t, source, at);
    STNI_UNROLL
    for (int d = 0; d < STNI_NEIGHBORHOOD_DIMS; d++)
        at[d] = t.along[d].first + at[d] * p.dim[d].dilation - p.source[d].begin;
}

/* Element by element, in PACKED rows too, which are read 16 bytes at a time: the bits are the same. */
template <bool PACKED, class S>
STNI_DEVICE typename computed<S>::type dot(const S *a, int64_t a_col, const S *b, int64_t b_col, int64_t n)
{
    typename computed<S>::type sum = 0;
    if constexpr (PACKED) {
        enum { SIZE = pack<S>::SIZE };
        STNI_KEEP_LOOP
        for (int64_t i = 0; i < n / SIZE; i++) {
            const pack<S> x = reinterpret_cast<const pack<S> *>(a)[i], y = reinterpret_cast<const pack<S> *>(b)[i];
            STNI_UNROLL
            for (int k = 0; k < SIZE; k++)
                sum = multiply_add(load(x.v[k]), load(y.v[k]), sum);
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            sum = multiply_add(load(a[i * a_col]), load(b[i * b_col]), sum);
    }
    return sum;
}

template <class S> STNI_DEVICE const S *row_of(const operand &o, int64_t offset)
{
    return (const S *)o.data + offset;
}

template <class A> STNI_DEVICE A largest_of(A a, A b)
{
    return b > a ? b : a;
}

template <class A> STNI_DEVICE A sum_of_warp(A value)
{
    return reduce_warp_to_all(value, [](A a, A b) { return a + b; });
}

/* sum += the rows of the first n lanes' sources times their weights, columns from `first` on, a column each lane. */
template <class S, class A>
STNI_DEVICE void gather(const operand &o, int64_t offset, A weight, int64_t n, int64_t first, int64_t cols,
                        A (&sum)[COLS])
{
    const int lane = (int)(threadIdx.x % WARP);
    for (int k = 0; k < WARP && k < n; k++) {
        const A of_source = value_of_lane(weight, k);
        const S *row = row_of<S>(o, value_of_lane(offset, k));
        STNI_UNROLL
        for (int i = 0; i < COLS; i++) {
            const int64_t c = first + i * WARP + lane;
            if (c < cols)
                sum[i] = multiply_add(of_source, load(row[c * o.col]), sum[i]);
        }
    }
}

template <class S, class A>
STNI_DEVICE void store_cols(const operand &o, int64_t offset, A factor, int64_t first, int64_t cols,
                            const A (&sum)[COLS])
{
    S *row = (S *)o.data + offset;
    STNI_UNROLL
    for (int i = 0; i < COLS; i++) {
        const int64_t c = first + i * WARP + threadIdx.x % WARP;
        if (c < cols)
            store(row[c * o.col], factor * sum[i]);
    }
}

/* Once where there are no columns: numbers of a target that are not its columns are written all the same. */
STNI_DEVICE bool has_cols(int64_t first, int64_t cols)
{
    return first == 0 || first < cols;
}

STNI_DEVICE bool is_first_lane(int64_t first)
{
    return first == 0 && threadIdx.x % WARP == 0;
}

/* Online softmax over the sources. */
template <class S, bool PACKED>
__global__ void __launch_bounds__(THREADS, BLOCKS) attend(const __grid_constant__ arguments p)
{
    typedef typename computed<S>::type A;
    const int lane = (int)(threadIdx.x % WARP);
    target t;
    if (!find_target<false>(p, t))
        return;
    const int64_t key_head = (p.head + t.head) / p.group - p.key_head;
    const S *query = row_of<S>(p.query, offset_of(p.query, t.batch, t.head, t.at));
    for (int64_t first = 0; has_cols(first, p.v); first += COLS * WARP) {
        A largest = -(A)INFINITY, total = 0, sum[COLS] = {};
        for (int64_t begin = 0; begin < t.sources; begin += WARP) {
            int64_t at[STNI_NEIGHBORHOOD_DIMS];
            const bool is_there = begin + lane < t.sources;
            find_source(p, t, is_there ? begin + lane : 0, at);
            const S *key = row_of<S>(p.key, offset_of(p.key, t.batch, key_head, at));
            const A product = (A)p.scale * dot<PACKED>(query, p.query.col, key, p.key.col, p.e);
            const A score = is_there ? product : -(A)INFINITY;
            const A most = largest_of(largest, reduce_warp_to_all(score, largest_of<A>));
            const A measure = most > -(A)INFINITY ? most : (A)0;
            const A before = largest > -(A)INFINITY ? exp(largest - measure) : (A)0;
            const A weight = is_there ? exp(score - measure) : (A)0;
            largest = most;
            total = total * before + sum_of_warp(weight);
            STNI_UNROLL
            for (int i = 0; i < COLS; i++)
                sum[i] *= before;
            gather<S>(p.value, offset_of(p.value, t.batch, key_head, at), weight, t.sources - begin, first, p.v, sum);
        }
        store_cols<S>(p.out, offset_of(p.out, t.batch, t.head, t.at), 1 / total, first, p.v, sum);
        if (is_first_lane(first))
            ((A *)p.lse.data)[offset_of(p.lse, t.batch, t.head, t.at)] = largest + log(total);
    }
}

/* Probabilities again, and from the gradients of these the gradients of scores. */
template <class A> struct entry {
    A weight, grad_score;
};

template <bool PACKED, class S, class A>
STNI_DEVICE entry<A> entry_of(const arguments &p, const S *query, const S *key, const S *grad, const S *value, A lse,
                              A mean)
{
    const A weight = exp((A)p.scale * dot<PACKED>(query, p.query.col, key, p.key.col, p.e) - lse);
    return {weight, weight * (dot<PACKED>(grad, p.grad.col, value, p.value.col, p.v) - mean)};
}

/* The product of a query's row of the result with its cotangent. */
template <class S> STNI_DEVICE typename computed<S>::type mean_of(const arguments &p, const S *grad, const S *out)
{
    typename computed<S>::type sum = 0;
    for (int64_t c = threadIdx.x % WARP; c < p.v; c += WARP)
        sum += load(grad[c * p.grad.col]) * load(out[c * p.out.col]);
    return sum_of_warp(sum);
}

template <class S, bool PACKED>
__global__ void __launch_bounds__(THREADS, BLOCKS) gather_queries(const __grid_constant__ arguments p)
{
    typedef typename computed<S>::type A;
    const int lane = (int)(threadIdx.x % WARP);
    target t;
    if (!find_target<false>(p, t))
        return;
    const int64_t key_head = (p.head + t.head) / p.group - p.key_head;
    const S *query = row_of<S>(p.query, offset_of(p.query, t.batch, t.head, t.at));
    const S *grad = row_of<S>(p.grad, offset_of(p.grad, t.batch, t.head, t.at));
    const A lse = ((const A *)p.lse.data)[offset_of(p.lse, t.batch, t.head, t.at)];
    const A mean = mean_of<S>(p, grad, row_of<S>(p.out, offset_of(p.out, t.batch, t.head, t.at)));
    for (int64_t first = 0; has_cols(first, p.e); first += COLS * WARP) {
        A sum[COLS] = {};
        for (int64_t begin = 0; begin < t.sources; begin += WARP) {
            int64_t at[STNI_NEIGHBORHOOD_DIMS];
            const bool is_there = begin + lane < t.sources;
            find_source(p, t, is_there ? begin + lane : 0, at);
            const int64_t key = offset_of(p.key, t.batch, key_head, at);
            const S *value = row_of<S>(p.value, offset_of(p.value, t.batch, key_head, at));
            const entry<A> e = entry_of<PACKED>(p, query, row_of<S>(p.key, key), grad, value, lse, mean);
            gather<S>(p.key, key, e.grad_score, t.sources - begin, first, p.e, sum);
        }
        store_cols<S>(p.grad_query, offset_of(p.grad_query, t.batch, t.head, t.at), (A)p.scale, first, p.e, sum);
        if (is_first_lane(first))
            ((A *)p.mean.data)[offset_of(p.mean, t.batch, t.head, t.at)] = mean;
    }
}

/* Over the query heads that share the key's, and the queries that attend to it. */
template <class S, bool PACKED>
__global__ void __launch_bounds__(THREADS, BLOCKS) gather_keys(const __grid_constant__ arguments p)
{
    typedef typename computed<S>::type A;
    const int lane = (int)(threadIdx.x % WARP);
    target t;
    if (!find_target<true>(p, t))
        return;
    const stni_range heads = stni_neighborhood_group(&p, t.head);
    const S *key = row_of<S>(p.key, offset_of(p.key, t.batch, t.head, t.at));
    const S *value = row_of<S>(p.value, offset_of(p.value, t.batch, t.head, t.at));
    for (int64_t first = 0; has_cols(first, p.e > p.v ? p.e : p.v); first += COLS * WARP) {
        A of_key[COLS] = {}, of_value[COLS] = {};
        for (int64_t h = heads.begin; h < heads.end; h++)
            for (int64_t begin = 0; begin < t.sources; begin += WARP) {
                int64_t at[STNI_NEIGHBORHOOD_DIMS];
                const bool is_there = begin + lane < t.sources;
                find_source(p, t, is_there ? begin + lane : 0, at);
                const int64_t query = offset_of(p.query, t.batch, h, at), grad = offset_of(p.grad, t.batch, h, at);
                const A lse = ((const A *)p.lse.data)[offset_of(p.lse, t.batch, h, at)];
                const A mean = ((const A *)p.mean.data)[offset_of(p.mean, t.batch, h, at)];
                const entry<A> e = entry_of<PACKED>(p, row_of<S>(p.query, query), key, row_of<S>(p.grad, grad), value,
                                                    lse, mean);
                gather<S>(p.query, query, e.grad_score, t.sources - begin, first, p.e, of_key);
                gather<S>(p.grad, grad, e.weight, t.sources - begin, first, p.v, of_value);
            }
        store_cols<S>(p.grad_key, offset_of(p.grad_key, t.batch, t.head, t.at), (A)p.scale, first, p.e, of_key);
        store_cols<S>(p.grad_value, offset_of(p.grad_value, t.batch, t.head, t.at), (A)1, first, p.v, of_value);
    }
}

inline unsigned blocks_of(const arguments &p)
{
    int64_t targets = p.batch * (p.of_keys ? p.key_heads : p.heads);
    for (int d = 0; d < STNI_NEIGHBORHOOD_DIMS; d++)
        targets *= stni_range_length(p.target[d]);
    return blocks_for(targets, THREADS / WARP);
}

/* Whether all rows of `cols` elements are packs. */
template <class S> bool has_packs(const operand &o, int64_t cols)
{
    int64_t bytes = (o.batch | o.head | cols) * (int64_t)sizeof(S);
    for (int d = 0; d < STNI_NEIGHBORHOOD_DIMS; d++)
        bytes |= o.space[d] * (int64_t)sizeof(S);
    return o.col == 1 && is_pack_aligned((uintptr_t)o.data | (uintptr_t)bytes);
}

void launch_forward(const arguments &p, cudaStream_t stream)
{
    dispatch_floating(p.dtype, [&](auto element) {
        typedef decltype(element) S;
        if (has_packs<S>(p.query, p.e) && has_packs<S>(p.key, p.e))
            STNI_LAUNCH((attend<S, true>), blocks_of(p), THREADS, stream, p);
        else
            STNI_LAUNCH((attend<S, false>), blocks_of(p), THREADS, stream, p);
    });
}

template <class S> bool has_packs_of_backward(const arguments &p)
{
    return has_packs<S>(p.query, p.e) && has_packs<S>(p.key, p.e) && has_packs<S>(p.grad, p.v) &&
           has_packs<S>(p.value, p.v);
}

void launch_queries(const arguments &p, cudaStream_t stream)
{
    dispatch_floating(p.dtype, [&](auto element) {
        typedef decltype(element) S;
        if (has_packs_of_backward<S>(p))
            STNI_LAUNCH((gather_queries<S, true>), blocks_of(p), THREADS, stream, p);
        else
            STNI_LAUNCH((gather_queries<S, false>), blocks_of(p), THREADS, stream, p);
    });
}

void launch_keys(const arguments &p, cudaStream_t stream)
{
    dispatch_floating(p.dtype, [&](auto element) {
        typedef decltype(element) S;
        if (has_packs_of_backward<S>(p))
            STNI_LAUNCH((gather_keys<S, true>), blocks_of(p), THREADS, stream, p);
        else
            STNI_LAUNCH((gather_keys<S, false>), blocks_of(p), THREADS, stream, p);
    });
}

}

STNI_CUDA_KERNELS(neighborhood) = {
    STNI_CUDA_KERNEL("neighborhood_attention.forward", FLOATING_DTYPES, arguments, launch_forward),
    STNI_CUDA_KERNEL("neighborhood_attention_backward.queries", FLOATING_DTYPES, arguments, launch_queries),
    STNI_CUDA_KERNEL("neighborhood_attention_backward.keys", FLOATING_DTYPES, arguments, launch_keys),
    STNI_CUDA_KERNELS_END
};
