/* core.box_reduce on a CUDA device: a thread joins an element of every source in order, then writes it to every
 * result. Where all boxes are dense and lie at multiples of 16 bytes it does so for 16 bytes at a time. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/joins.cuh"
#include "core/device/cuda/kernel.cuh"

namespace {

enum { THREADS = 256 };

/* The arguments, and what the dims are divided by. */
struct reduction {
    stn_box_reduce_args a;
    int64_t count;
    divider by[STN_MAX_BOX_NDIM];
};

static_assert(sizeof(reduction) <= STN_MAX_KERNEL_ARGS, "arguments of a kernel");

template <class T> STNI_DEVICE T quotient_of(T a, int n)
{
    return (T)(a / (T)n);
}

template <class F> STNI_DEVICE stni_complex<F> quotient_of(stni_complex<F> a, int n)
{
    return {a.re / (F)n, a.im / (F)n};
}

template <class T> STNI_DEVICE T join(stn_reduce_op op, T a, T b)
{
    switch (op) {
    case STN_PROD: return product_of(a, b);
    case STN_MIN: return least_of(a, b);
    case STN_MAX: return greatest_of(a, b);
    default: return sum_of(a, b);
    }
}

/* V elements at a time; one that lies `offset` elements into each box, or where strides say. */
template <class S, int V> struct alignas(V > 1 ? 16 : alignof(S)) piece {
    S v[V];
};

template <class S, int V, class O> STNI_DEVICE void reduce_piece(const stn_box_reduce_args &a, O offset_in)
{
    typedef typename computed<S>::type T;
    typedef piece<S, V> P;
    T joined[V];
    P result = *(const P *)((const S *)a.data[a.n_dst] + offset_in(a.n_dst));
    for (int i = 0; i < V; i++)
        joined[i] = load(result.v[i]);
    for (int box = a.n_dst + 1; box < a.n_dst + a.n_src; box++) {
        const P next = *(const P *)((const S *)a.data[box] + offset_in(box));
        for (int i = 0; i < V; i++)
            joined[i] = join(a.op, joined[i], load(next.v[i]));
    }
    for (int i = 0; i < V; i++)
        store(result.v[i], a.op == STN_AVG ? quotient_of(joined[i], a.n_src) : joined[i]);
    for (int d = 0; d < a.n_dst; d++)
        *(P *)((S *)a.data[d] + offset_in(d)) = result;
}

/* Dense boxes: as many whole packs as there are, then what is left one by one. */
template <class S> __global__ void __launch_bounds__(THREADS) reduce_dense(const __grid_constant__ reduction r)
{
    enum { V = 16 / sizeof(S) };
    const int64_t packs = r.count / V, t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t one = packs * V + (t - packs);
    if (t < packs)
        reduce_piece<S, V>(r.a, [=](int) { return t * V; });
    else if (one < r.count)
        reduce_piece<S, 1>(r.a, [=](int) { return one; });
}

/* Any strides. The index along each dim is the same for all boxes. */
template <class S, class I>
__global__ void __launch_bounds__(THREADS) reduce_strided(const __grid_constant__ reduction r)
{
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (t >= r.count)
        return;
    int64_t at[STN_MAX_BOX_NDIM];
    I index = (I)t;
    for (int d = r.a.ndim - 1; d >= 0; d--) {
        const I rest = d > 0 ? quotient_in_dim(index, r.a.shape[d], r.by[d]) : 0;
        at[d] = (int64_t)(index - rest * (I)r.a.shape[d]);
        index = rest;
    }
    const stn_box_reduce_args &a = r.a;
    reduce_piece<S, 1>(a, [&](int box) {
        int64_t offset = 0;
        for (int d = 0; d < a.ndim; d++)
            offset += at[d] * a.strides[box * a.ndim + d];
        return offset;
    });
}

/* Whether every box is dense and lies at a multiple of 16 bytes. */
bool is_dense(const stn_box_reduce_args &a)
{
    uintptr_t addresses = 0;
    bool dense = a.ndim <= 1;
    for (int i = 0; i < a.n_dst + a.n_src; i++) {
        addresses |= (uintptr_t)a.data[i];
        dense = dense && (a.ndim == 0 || a.strides[i] == 1);
    }
    return dense && is_pack_aligned(addresses);
}

template <class S> void launch_of(const reduction &r, cudaStream_t stream)
{
    enum { V = 16 / sizeof(S) };
    if (is_dense(r.a))
        STNI_LAUNCH(reduce_dense<S>, blocks_for(r.count / V + r.count % V, THREADS), THREADS, stream, r);
    else if (is_small_count(r.count))
        STNI_LAUNCH((reduce_strided<S, uint32_t>), blocks_for(r.count, THREADS), THREADS, stream, r);
    else
        STNI_LAUNCH((reduce_strided<S, int64_t>), blocks_for(r.count, THREADS), THREADS, stream, r);
}

/* Only the strides that are used were passed. */
reduction reduction_of(const stn_box_reduce_args &args)
{
    reduction r;
    const size_t strides = (size_t)((args.n_dst + args.n_src) * args.ndim) * sizeof args.strides[0];
    memset(&r, 0, sizeof r);
    memcpy(&r.a, &args, offsetof(stn_box_reduce_args, strides) + strides);
    r.count = 1;
    for (int d = 0; d < r.a.ndim; d++)
        r.count *= r.a.shape[d];
    for (int d = 0; d < r.a.ndim && is_small_count(r.count); d++)
        r.by[d] = divider_of(r.a.shape[d]);
    if (r.a.n_src == 1)
        r.a.op = STN_SUM;
    return r;
}

/* Of bool values, which are 0 and 1, "or" is the greatest and "and" the least. */
stn_reduce_op op_of_bool(stn_reduce_op op)
{
    return op == STN_PROD || op == STN_MIN ? STN_MIN : STN_MAX;
}

void launch_reduce(const stn_box_reduce_args &args, cudaStream_t stream)
{
    reduction r = reduction_of(args);
    if (args.dtype == STN_DTYPE_BOOL)
        r.a.op = op_of_bool(r.a.op);
    dispatch_all(args.dtype, [&](auto element) { launch_of<decltype(element)>(r, stream); });
}

}

STNI_CUDA_KERNELS(box_reduce) = {
    STNI_CUDA_KERNEL("core.box_reduce", ALL_DTYPES, stn_box_reduce_args, launch_reduce),
    STNI_CUDA_KERNELS_END
};
