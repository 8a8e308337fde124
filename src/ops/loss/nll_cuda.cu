/* nll_loss on a CUDA device: a thread each target forward, a thread each number of a class, or each pack of them,
 * backward. The arithmetic is that of nll_lanes_tmpl.h. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/pack_dims.cuh"
#include "core/device/cuda/packs.cuh"
#include "core/device/cuda/sums.cuh"
#include "core/device/cuda/value.cuh"
#include "ops/common/bad_value.h"
#include "ops/loss/nll_kernel.h"

namespace {

enum { THREADS = 256 };
/* Besides the kernel's operands: the number of a target among all here, or of a class. */
enum { NUMBER = NLL_OPERANDS, SIDES };

struct picking {
    stni_nll_args args;
    stn_value_record *values;
};

/* Target `number` of those here, row-major, is no class. */
STNI_DEVICE void report(const picking &k, int64_t number, int64_t target)
{
    const stni_nll_args &a = k.args;
    int64_t numbers[3 + STN_MAX_NDIM] = {target, a.all_classes - 1, a.ndim};
    if (!a.reports)
        return;
    for (int d = a.ndim - 1; d >= 0; d--) {
        numbers[3 + d] = a.offset[d] + number % a.shape[d];
        number /= a.shape[d];
    }
    report_value(k.values, a.op, STNI_BAD_CLASS, 3 + a.ndim, numbers);
}

template <class S> STNI_DEVICE typename computed<S>::type weight_of(const stni_nll_args &a, int64_t c)
{
    return a.weight ? load(static_cast<const S *>(a.weight)[c * a.weight_step]) : typename computed<S>::type(1);
}

/* The loss of a target; *weight: that of its class here, or 0. */
template <class S>
STNI_DEVICE typename computed<S>::type loss_at(const picking &k, const int64_t *at, typename computed<S>::type *weight)
{
    typedef typename computed<S>::type A;
    const stni_nll_args &a = k.args;
    const S *const x = static_cast<const S *>(a.x) + at[NLL_X];
    const A picked = (A)(1 - a.smoothing), spread = (A)(a.smoothing / (double)a.all_classes);
    const int64_t target = stni_nll_target(&a, at[NLL_TARGET]), t = stni_nll_class(&a, target);
    A loss = 0, all = 0;
    *weight = 0;
    if (t == STNI_NLL_NO_CLASS)
        report(k, at[NUMBER], target);
    if (t >= 0) {
        *weight = weight_of<S>(a, t);
        loss -= picked * *weight * load(x[t * a.class_step]);
    }
    if (!(a.smoothing > 0) || t == STNI_NLL_IGNORED || t == STNI_NLL_NO_CLASS || a.classes == 0)
        return loss;
    for (int64_t c = 0; c < a.classes; c++)
        all += weight_of<S>(a, c) * load(x[c * a.class_step]);
    return loss - spread * all;
}

template <class S> struct nll_sums {
    struct target {};
    picking k;

    __device__ target begin(const int64_t *) const { return {}; }
    __device__ void add(target, const int64_t *at, double *sum) const
    {
        typename computed<S>::type weight;
        sum[0] += (double)loss_at<S>(k, at, &weight);
        sum[1] += (double)weight;
    }
};

template <class S> __global__ void __launch_bounds__(THREADS)
    pick_each(const __grid_constant__ operands<SIDES> targets, const __grid_constant__ picking k)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    typename computed<S>::type weight;
    int64_t at[SIDES];
    if (i >= targets.count)
        return;
    any_offsets_of(targets, i, at);
    store(static_cast<S *>(k.args.each)[at[NLL_EACH]], loss_at<S>(k, at, &weight));
}

/* The dims of the targets, numbered row-major. */
operands<SIDES> targets_of(const stni_nll_args &a)
{
    operands<SIDES> targets = no_dims<SIDES>();
    int64_t below = 1;
    for (int d = 0; d < a.ndim; d++)
        below *= a.shape[d];
    for (int d = 0; d < a.ndim; d++) {
        below = a.shape[d] > 0 ? below / a.shape[d] : 0;
        add_dim(targets, a.shape[d], {a.strides[NLL_X][d], a.strides[NLL_TARGET][d], a.strides[NLL_EACH][d], below});
    }
    end_dims(targets);
    return targets;
}

summation<SIDES> summation_of(const stni_nll_args &a)
{
    summation<SIDES> s = {no_dims<SIDES>(), targets_of(a), {}, 1, 0};
    end_sums(s, false);
    return s;
}

size_t workspace(stn_queue *, const void *raw)
{
    const stni_nll_args &a = *static_cast<const stni_nll_args *>(raw);
    return a.each || a.n == 0 ? 0 : sums_bytes(summation_of(a), 2);
}

template <class S> void launch_pick_of(const picking &k, cudaStream_t stream)
{
    const operands<SIDES> targets = targets_of(k.args);
    if (k.args.each)
        STNI_LAUNCH(pick_each<S>, blocks_for(targets.count, THREADS), THREADS, stream, targets, k);
    else
        launch_sums<2>(summation_of(k.args), nll_sums<S>{k}, k.args.sum, k.args.workspace, stream);
}

stn_status launch_pick(stn_queue *queue, const void *raw)
{
    const picking k = {*static_cast<const stni_nll_args *>(raw), stni_cuda_host()->queue_value_record(queue)};
    const cudaStream_t stream = static_cast<cudaStream_t>(stni_cuda_stream(queue));
    if (k.args.n > 0)
        dispatch_floating(k.args.dtype, [&](auto element) { launch_pick_of<decltype(element)>(k, stream); });
    else if (!k.args.each)
        cudaMemsetAsync(k.args.sum, 0, 2 * sizeof *k.args.sum, stream);
    return stni_cuda_launched(queue);
}

/* Backward */

/* Of a target: what its own class gets of the cotangent, and what every class gets, before weights. */
template <class S> struct shares {
    typename computed<S>::type picked, spread;
};

template <class S> STNI_DEVICE shares<S> shares_of(const stni_nll_args &a, int64_t each)
{
    typedef typename computed<S>::type A;
    const double total = a.total ? *a.total : 1;
    const A grad = (A)((double)load(static_cast<const S *>(a.each)[each]) / total);
    return {(A)(1 - a.smoothing) * grad,
            a.smoothing > 0 ? (A)(a.smoothing / (double)a.all_classes) * grad : A(0)};
}

/* The number of class c, where the target is t. */
template <class S>
STNI_DEVICE typename computed<S>::type dealt(const stni_nll_args &a, const shares<S> &of, int64_t t, int64_t c)
{
    if (t == c)
        return -(of.picked + of.spread) * weight_of<S>(a, c);
    if (a.smoothing > 0 && (t >= 0 || t == STNI_NLL_ELSEWHERE))
        return -of.spread * weight_of<S>(a, c);
    return 0;
}

template <class S> __global__ void __launch_bounds__(THREADS)
    deal(const __grid_constant__ operands<SIDES> all, const __grid_constant__ stni_nll_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[SIDES];
    if (i >= all.count)
        return;
    any_offsets_of(all, i, at);
    const int64_t t = stni_nll_class(&a, stni_nll_target(&a, at[NLL_TARGET]));
    store(static_cast<S *>(a.x)[at[NLL_X]], dealt(a, shares_of<S>(a, at[NLL_EACH]), t, at[NUMBER]));
}

/* Numbers of one target's classes, which follow each other. Where there is no smoothing, few packs have another number
 * than 0, and others need no shares. Each number is put behind those before it, so that the loop stays one. */
template <class S> __global__ void __launch_bounds__(THREADS)
    deal_packs(const __grid_constant__ operands<SIDES> all, const __grid_constant__ stni_nll_args a)
{
    typedef typename computed<S>::type A;
    enum { SIZE = pack<S>::SIZE };
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t at[SIDES];
    if (i >= all.count)
        return;
    offsets_of(all, (uint32_t)i, at);
    const int64_t c = at[NUMBER], t = stni_nll_class(&a, stni_nll_target(&a, at[NLL_TARGET]));
    const bool is_spread = a.smoothing > 0 && (t >= 0 || t == STNI_NLL_ELSEWHERE);
    A value[SIZE] = {};
    if (is_spread || (t >= c && t < c + SIZE)) {
        const shares<S> of = shares_of<S>(a, at[NLL_EACH]);
        STNI_KEEP_LOOP
        for (int k = 0; k < SIZE; k++) {
            STNI_UNROLL
            for (int before = 1; before < SIZE; before++)
                value[before - 1] = value[before];
            value[SIZE - 1] = dealt(a, of, t, c + k);
        }
    }
    pack<S> written;
    store_pack(written, value);
    *reinterpret_cast<pack<S> *>(static_cast<S *>(a.x) + at[NLL_X]) = written;
}

/* Every class of every target, by the strides of x. */
operands<SIDES> classes_of(const stni_nll_args &a)
{
    operands<SIDES> all = no_dims<SIDES>();
    stn_box x = {}; /* the dims of the targets, then that of the classes */
    int order[STN_MAX_BOX_NDIM];
    x.ndim = a.ndim + 1;
    for (int d = 0; d < a.ndim; d++) {
        x.shape[d] = a.shape[d];
        x.strides[d] = a.strides[NLL_X][d];
    }
    x.shape[a.ndim] = a.classes;
    x.strides[a.ndim] = a.class_step;
    order_by_strides(x, order);
    for (int i = 0; i < x.ndim; i++) {
        const int d = order[i];
        if (d < a.ndim)
            add_dim(all, x.shape[d], {x.strides[d], a.strides[NLL_TARGET][d], a.strides[NLL_EACH][d], 0});
        else
            add_dim(all, x.shape[d], {x.strides[d], 0, 0, 1});
    }
    end_dims(all);
    return all;
}

/* In packs of classes, where x has them beside each other. */
template <class S> bool find_packs(const stni_nll_args &a, operands<SIDES> &all)
{
    const int last = all.ndim - 1;
    if (last < 0 || all.stride[NUMBER][last] != 1 || !is_pack_aligned((uintptr_t)a.x) ||
        !divide_in_packs(all, 1 << NLL_X | 1 << NUMBER, pack<S>::SIZE))
        return false;
    end_dims(all);
    return is_small(all);
}

template <class S> void launch_deal_of(const stni_nll_args &a, const operands<SIDES> &all, cudaStream_t stream)
{
    operands<SIDES> packs = all;
    if constexpr (sizeof(S) < 8) {
        if (find_packs<S>(a, packs)) {
            STNI_LAUNCH(deal_packs<S>, blocks_for(packs.count, THREADS), THREADS, stream, packs, a);
            return;
        }
    }
    STNI_LAUNCH(deal<S>, blocks_for(all.count, THREADS), THREADS, stream, all, a);
}

void launch_deal(const stni_nll_args &a, cudaStream_t stream)
{
    const operands<SIDES> all = classes_of(a);
    if (all.count > 0)
        dispatch_floating(a.dtype, [&](auto element) { launch_deal_of<decltype(element)>(a, all, stream); });
}

}

STNI_CUDA_KERNELS(nll) = {
    {sizeof(stn_kernel), "nll_loss.pick", "cuda", FLOATING_DTYPES, sizeof(stni_nll_args), launch_pick, workspace},
    STNI_CUDA_KERNEL("nll_loss_backward.deal", FLOATING_DTYPES, stni_nll_args, launch_deal),
    STNI_CUDA_KERNELS_END
};
