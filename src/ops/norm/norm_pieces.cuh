/* Normalisations on a CUDA device whose elements lie in dense runs along which no statistic and no parameter changes,
 * such as the images of channels: a thread reads packs of a run, and what belongs to it once a pack. */
#ifndef STNI_OPS_NORM_NORM_PIECES_CUH
#define STNI_OPS_NORM_NORM_PIECES_CUH

#include "core/device/cuda/packs.cuh"
#include "core/device/cuda/piece_sums.cuh"
#include "ops/norm/norm_rows.h"
#include "ops/norm/norm_sums.cuh"

namespace {

/* Elements of f64 are wide enough by themselves. */
template <class S> constexpr bool has_norm_pieces = sizeof(S) < 8;

/* Elements of a pack. */
constexpr int64_t norm_pack_size(stn_dtype dtype)
{
    return dtype == STN_DTYPE_F64 ? 2 : dtype == STN_DTYPE_F32 ? 4 : 8;
}

constexpr uint32_t norm_bit(int operand)
{
    return (uint32_t)1 << operand;
}

/* With strides of 0 for all operands but those of `used`. */
inline void forget_others(operands<NORM_OPERANDS> &o, uint32_t used)
{
    for (int k = 0; k < NORM_OPERANDS; k++)
        for (int d = 0; !(used >> k & 1) && d < o.ndim; d++)
            o.stride[k][d] = 0;
}

/* By NORM_STAT, of what the operands of `dense` give. */
inline bool find_norm_sums(const stni_norm_args &a, uint32_t dense, piece_summation<NORM_OPERANDS> &to)
{
    summation<NORM_OPERANDS> s = summation_by(a, NORM_STAT);
    forget_others(s.summed, dense);
    return find_piece_sums(s, dense, norm_pack_size(a.dtype), to);
}

/* Bytes of workspace for `planes` sums of them, wherever they begin. */
inline size_t norm_sums_bytes(const stni_norm_args &a, uint32_t dense, int planes)
{
    piece_summation<NORM_OPERANDS> p;
    return !a.empty && find_norm_sums(a, dense, p) ? sums_bytes(p.s, planes) : 0;
}

inline size_t larger_size(size_t p, size_t v)
{
    return p > v ? p : v;
}

inline size_t norm_pieces_workspace(stn_queue *queue, const void *args)
{
    const stni_norm_args &a = *static_cast<const stni_norm_args *>(args);
    return larger_size(norm_workspace(queue, args), arrays_bytes(a) + norm_sums_bytes(a, norm_bit(NORM_X), 2));
}

/* All elements, divided into packs; `dense` are read or written. A weight or a bias is one number of a run. */
inline bool find_norm_pieces(const stni_norm_args &a, uint32_t dense, uintptr_t addresses,
                             operands<NORM_OPERANDS> &all)
{
    all = all_elements(a);
    const uint32_t params = (a.weight ? norm_bit(NORM_WEIGHT) : 0) | (a.bias ? norm_bit(NORM_PARAM) : 0);
    forget_others(all, dense | norm_bit(NORM_STAT) | params);
    if (!is_pack_aligned(addresses) || !divide_in_packs(all, dense, norm_pack_size(a.dtype)))
        return false;
    end_dims(all);
    return is_small(all);
}

inline unsigned blocks_of_pieces(const operands<NORM_OPERANDS> &all)
{
    return blocks_for(all.count, NORM_THREADS);
}

template <class S> STNI_DEVICE const pack<S> &pack_at(const S *from, int64_t at)
{
    return *reinterpret_cast<const pack<S> *>(from + at);
}

template <class S> struct normal_form {
    typedef typename computed<S>::type A;
    const S *x, *weight, *bias;
    S *y;
    const A *mean, *rstd;
};

template <class S> STNI_DEVICE pack<S> normalised(const normal_form<S> &g, const pack<S> &x, const int64_t *at)
{
    typedef typename computed<S>::type A;
    const A mean = g.mean[at[NORM_STAT]], rstd = g.rstd[at[NORM_STAT]];
    const A weight = g.weight ? load(g.weight[at[NORM_WEIGHT]]) : A(1);
    const A bias = g.bias ? load(g.bias[at[NORM_PARAM]]) : A(0);
    A v[pack<S>::SIZE];
    pack<S> y;
    load_pack(x, v);
    STNI_UNROLL
    for (int k = 0; k < pack<S>::SIZE; k++)
        v[k] = STNI_NORM_NORMAL(v[k], mean, rstd) * weight + bias;
    store_pack(y, v);
    return y;
}

template <class S> __global__ void __launch_bounds__(NORM_THREADS)
    normalise_pieces(const __grid_constant__ operands<NORM_OPERANDS> all, const __grid_constant__ normal_form<S> g)
{
    const int64_t i = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x;
    int64_t at[NORM_OPERANDS];
    if (i >= all.count)
        return;
    offsets_of(all, (uint32_t)i, at);
    const pack<S> y = normalised(g, pack_at(g.x, at[NORM_X]), at);
    *reinterpret_cast<pack<S> *>(g.y + at[NORM_Y]) = y;
}

/* The gradient. */

template <class S> struct gradient {
    typedef typename computed<S>::type A;
    const S *x, *y, *weight;
    S *out;
    const A *mean, *rstd, *mean_gradient, *variance_gradient;
};

template <class S> struct gradient_piece {
    pack<S> x, y;
};

template <class S>
STNI_DEVICE pack<S> gradient_of(const gradient<S> &g, const gradient_piece<S> &in, const int64_t *at)
{
    typedef typename computed<S>::type A;
    const int64_t f = at[NORM_STAT];
    const A mean = g.mean[f], rstd = g.rstd[f], of_mean = g.mean_gradient[f], of_variance = g.variance_gradient[f];
    const A weight = g.weight ? load(g.weight[at[NORM_WEIGHT]]) : A(1);
    A x[pack<S>::SIZE], y[pack<S>::SIZE];
    pack<S> out;
    load_pack(in.x, x);
    load_pack(in.y, y);
    STNI_UNROLL
    for (int k = 0; k < pack<S>::SIZE; k++)
        x[k] = STNI_NORM_GRADIENT(weight * y[k], x[k], mean, rstd, of_mean, of_variance);
    store_pack(out, x);
    return out;
}

template <class S> __global__ void __launch_bounds__(NORM_THREADS)
    apply_pieces(const __grid_constant__ operands<NORM_OPERANDS> all, const __grid_constant__ gradient<S> g)
{
    const int64_t i = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x;
    int64_t at[NORM_OPERANDS];
    if (i >= all.count)
        return;
    offsets_of(all, (uint32_t)i, at);
    const gradient_piece<S> in = {pack_at(g.x, at[NORM_X]), pack_at(g.y, at[NORM_Y])};
    *reinterpret_cast<pack<S> *>(g.out + at[NORM_OUT]) = gradient_of(g, in, at);
}

}

#endif
