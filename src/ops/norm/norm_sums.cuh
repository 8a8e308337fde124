/* What the CUDA kernels of normalisations share: sums by fine index or by parameter, and where they lie in the
 * workspace. */
#ifndef STNI_OPS_NORM_NORM_SUMS_CUH
#define STNI_OPS_NORM_NORM_SUMS_CUH

#include "core/device/cuda/sums.cuh"
#include "ops/norm/norm_rows.h"

namespace {

enum { NORM_THREADS = 256, FINE_ARRAYS = 4 };

inline int64_t fine_count(const stni_norm_args &a)
{
    return a.rows * a.channels;
}

inline int64_t coarse_count(const stni_norm_args &a)
{
    return a.rows * a.groups;
}

/* The targets' numbers run through the kept dims, so that these are sorted by them. */
inline int sorted_kept_dims(const stni_norm_args &a, int target, int (&order)[STN_MAX_NDIM])
{
    const int64_t *const number = a.strides[target];
    int n = 0;
    for (int d = 0; d < a.ndim; d++) {
        if (number[d] == 0)
            continue;
        int at = n++;
        for (; at > 0 && number[order[at - 1]] < number[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return n;
}

inline void add_norm_dim(operands<NORM_OPERANDS> &o, const stni_norm_args &a, int d)
{
    int64_t strides[NORM_OPERANDS];
    for (int k = 0; k < NORM_OPERANDS; k++)
        strides[k] = a.strides[k][d];
    add_dim(o, a.shape[d], strides);
}

/* By NORM_STAT or NORM_PARAM, of a chunk that is not empty. */
inline summation<NORM_OPERANDS> summation_by(const stni_norm_args &a, int target)
{
    summation<NORM_OPERANDS> s = {no_dims<NORM_OPERANDS>(), no_dims<NORM_OPERANDS>(), {}, 1, 0};
    int order[STN_MAX_NDIM];
    const int n = sorted_kept_dims(a, target, order);
    for (int i = 0; i < n; i++)
        add_norm_dim(s.kept, a, order[i]);
    for (int d = 0; d < a.ndim; d++)
        if (a.strides[target][d] == 0)
            add_norm_dim(s.summed, a, d);
    const int kept = s.kept.ndim - 1, summed = s.summed.ndim - 1;
    const bool across = kept >= 0 && summed >= 0 && s.kept.stride[NORM_X][kept] < s.summed.stride[NORM_X][summed];
    end_sums(s, across);
    return s;
}

inline operands<NORM_OPERANDS> all_elements(const stni_norm_args &a)
{
    operands<NORM_OPERANDS> all = no_dims<NORM_OPERANDS>();
    for (int d = 0; d < a.ndim; d++)
        add_norm_dim(all, a, d);
    end_dims(all);
    return all;
}

/* The workspace: FINE_ARRAYS arrays of one number per fine index, two of one per parameter, parts of sums. */
inline double *fine_array(const stni_norm_args &a, int n)
{
    return static_cast<double *>(a.workspace) + n * fine_count(a);
}

inline double *param_sums(const stni_norm_args &a)
{
    return fine_array(a, FINE_ARRAYS);
}

inline double *parts_of_sums(const stni_norm_args &a)
{
    return param_sums(a) + 2 * a.params;
}

inline size_t arrays_bytes(const stni_norm_args &a)
{
    return (size_t)(FINE_ARRAYS * fine_count(a) + 2 * a.params) * sizeof(double);
}

/* Of any of the kernels. */
inline size_t norm_workspace(stn_queue *, const void *args)
{
    const stni_norm_args &a = *static_cast<const stni_norm_args *>(args);
    const size_t arrays = arrays_bytes(a);
    if (a.empty)
        return arrays;
    const size_t stat = sums_bytes(summation_by(a, NORM_STAT), 3),
                 param = a.along ? sums_bytes(summation_by(a, NORM_PARAM), 2) : 0;
    return arrays + (stat > param ? stat : param);
}

/* A coarse statistic as one number for each fine index: where a group is one channel, it is. */
template <class A> __global__ void __launch_bounds__(NORM_THREADS)
    spread(const __grid_constant__ stni_norm_args a, const A *coarse, A *fine)
{
    const int64_t f = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x;
    if (f < a.rows * a.channels)
        fine[f] = coarse[stni_norm_coarse_of(&a, f / a.channels, f % a.channels)];
}

template <class A>
const A *spread_statistic(const stni_norm_args &a, const void *coarse, int array, cudaStream_t stream)
{
    if (a.per_group == 1)
        return static_cast<const A *>(coarse);
    A *const fine = reinterpret_cast<A *>(fine_array(a, array));
    STNI_LAUNCH(spread<A>, blocks_for(fine_count(a), NORM_THREADS), NORM_THREADS, stream, a,
                static_cast<const A *>(coarse), fine);
    return fine;
}

}

#endif
