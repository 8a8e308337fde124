/* Moments and normalisation on a CUDA device: sums by fine index, which are joined to the moments of groups; then
 * each element by itself. Dense rows that are on this rank are read once for both (norm_dense_forward.cuh); other dense
 * runs are read in packs by each (norm_pieces.cuh). */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/common/moments.h"
#include "ops/norm/norm_dense_forward.cuh"
#include "ops/norm/norm_pieces.cuh"
#include "ops/norm/norm_sums.cuh"

namespace {

/* Sums of z and z^2, z = x - shift, the shift being the first element, as on the CPU. */
template <class S> struct moment_terms {
    struct target {
        const S *x;
        double shift;
    };
    const S *x;
    int about_zero;

    STNI_ANY_DEVICE target begin(const int64_t *at) const
    {
        return {x + at[NORM_X], about_zero ? 0 : stni_moments_shift((double)load(x[at[NORM_X]]))};
    }

    STNI_ANY_DEVICE void add(const target &of, const int64_t *at, double *sum) const
    {
        const double z = (double)load(of.x[at[NORM_X]]) - of.shift;
        sum[0] += z;
        sum[1] += z * z;
    }
};

/* The same of packs. */
template <class S> struct moment_pieces {
    typedef pack<S> piece;
    typedef typename moment_terms<S>::target target;
    enum { AT_ONCE = 4 };
    moment_terms<S> terms;

    __device__ target begin(const int64_t *at) const { return terms.begin(at); }
    __device__ piece read(const target &of, const int64_t *at) const { return pack_at(of.x, at[NORM_X]); }
    __device__ void add(const target &of, const piece &x, double *sum) const
    {
        typename computed<S>::type v[pack<S>::SIZE];
        load_pack(x, v);
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k++) {
            const double z = (double)v[k] - of.shift;
            sum[0] += z;
            sum[1] += z * z;
        }
    }
};

/* The moments of each group: those of its channels, joined in their order. */
template <class S>
__global__ void __launch_bounds__(NORM_THREADS)
    join_channels(const __grid_constant__ stni_norm_args a, const __grid_constant__ operands<NORM_OPERANDS> fine,
                  double n, const double *sum)
{
    const int64_t i = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x, count = a.rows * a.groups,
                  n_fine = a.rows * a.channels;
    if (i >= count)
        return;
    const int64_t row = i / a.groups, first = i % a.groups * a.per_group - a.offset, end = first + a.per_group;
    stni_moments all = stni_moments_of(0, 0, 0);
    for (int64_t c = first < 0 ? 0 : first; c < end && c < a.channels; c++) {
        const int64_t f = row * a.channels + c;
        int64_t at[NORM_OPERANDS];
        any_offsets_of(fine, f, at);
        const double first = (double)load(static_cast<const S *>(a.x)[at[NORM_X]]);
        const double shift = a.about_zero ? 0 : stni_moments_shift(first);
        all = stni_moments_join(all, stni_moments_of_sums(n, shift, a.about_zero ? 0 : sum[f], sum[n_fine + f]));
    }
    stni_moments_write(a.coarse, count, i, all);
}

/* False where it does nothing: elements lie in no runs. */
template <class S>
bool launch_moment_pieces(const stni_norm_args &a, const moment_terms<S> &terms, double *sum, cudaStream_t stream)
{
    if constexpr (has_norm_pieces<S>) {
        piece_summation<NORM_OPERANDS> p;
        if (!is_pack_aligned((uintptr_t)a.x) || !find_norm_sums(a, norm_bit(NORM_X), p))
            return false;
        launch_piece_sums<2>(p, moment_pieces<S>{terms}, sum, parts_of_sums(a), stream);
        return true;
    }
    return false;
}

template <class S> void launch_moments_of(const stni_norm_args &a, cudaStream_t stream)
{
    const summation<NORM_OPERANDS> s = summation_by(a, NORM_STAT);
    const moment_terms<S> terms = {static_cast<const S *>(a.x), a.about_zero};
    double *const sum = fine_array(a, 0);
    if (!launch_moment_pieces(a, terms, sum, stream))
        launch_sums<2>(s, terms, sum, parts_of_sums(a), stream);
    STNI_LAUNCH(join_channels<S>, blocks_for(coarse_count(a), NORM_THREADS), NORM_THREADS, stream, a, s.kept,
                (double)s.summed.count, sum);
}

void launch_moments(const stni_norm_args &a, cudaStream_t stream)
{
    if (a.empty)
        cudaMemsetAsync(a.coarse, 0, (size_t)(3 * coarse_count(a)) * sizeof(double), stream);
    else
        dispatch_floating(a.dtype, [&](auto element) { launch_moments_of<decltype(element)>(a, stream); });
}

/* Weighted: sums about the first element that has a weight, as on the CPU. */

template <class S> __global__ void __launch_bounds__(TEAMS_THREADS)
    find_weighted(const __grid_constant__ summation<NORM_OPERANDS> s, const S *x, const S *weight, double *shift)
{
    STNI_SHARED(int64_t, shared, TEAMS_THREADS);
    const seat me = seat_of(s.team);
    const int64_t target = (int64_t)blockIdx.x * teams_count(s.team) + me.team;
    int64_t found = s.summed.count, of[NORM_OPERANDS] = {0}, at[NORM_OPERANDS];
    if (target < s.kept.count) {
        any_offsets_of(s.kept, target, of);
        for (int64_t i = me.row; i < found; i += s.team.rows) {
            any_offsets_of(s.summed, i, at);
            if (load(weight[of[NORM_WEIGHT] + at[NORM_WEIGHT]]) != 0)
                found = i;
        }
    }
    found = reduce_team(shared, s.team, me, found, [](int64_t p, int64_t v) { return v < p ? v : p; });
    if (me.row > 0 || target >= s.kept.count)
        return;
    any_offsets_of(s.summed, found < s.summed.count ? found : 0, at);
    shift[target] = stni_moments_shift((double)load(x[of[NORM_X] + at[NORM_X]]));
}

template <class S> struct weighted_terms {
    struct target {
        const S *x, *weight;
        double shift;
    };
    const S *x, *weight;
    const double *shift; /* by fine index */

    STNI_ANY_DEVICE target begin(const int64_t *at) const
    {
        return {x + at[NORM_X], weight + at[NORM_WEIGHT], shift[at[NORM_STAT]]};
    }

    STNI_ANY_DEVICE void add(const target &of, const int64_t *at, double *sum) const
    {
        const double z = (double)load(of.x[at[NORM_X]]) - of.shift, w = (double)load(of.weight[at[NORM_WEIGHT]]);
        sum[0] += w;
        sum[1] += w * z;
        sum[2] += w * z * z;
    }
};

template <class S> void launch_weighted_of(const stni_norm_args &a, cudaStream_t stream)
{
    const summation<NORM_OPERANDS> s = summation_by(a, NORM_STAT);
    const S *const x = static_cast<const S *>(a.x), *const weight = static_cast<const S *>(a.weight);
    const size_t plane = (size_t)a.rows * sizeof(double);
    double *const shift = a.coarse + STNI_WEIGHTED_ABOUT * a.rows, *const sum = fine_array(a, 0);
    STNI_LAUNCH(find_weighted<S>, blocks_for(s.kept.count, teams_count(s.team)), TEAMS_THREADS, stream, s, x, weight,
                shift);
    launch_sums<3>(s, weighted_terms<S>{x, weight, shift}, sum, parts_of_sums(a), stream);
    cudaMemcpyAsync(a.coarse + STNI_WEIGHTED_WEIGHT * a.rows, sum, plane, cudaMemcpyDeviceToDevice, stream);
    cudaMemcpyAsync(a.coarse + STNI_WEIGHTED_FIRST * a.rows, sum + a.rows, 2 * plane, cudaMemcpyDeviceToDevice, stream);
}

void launch_weighted(const stni_norm_args &a, cudaStream_t stream)
{
    if (a.empty)
        cudaMemsetAsync(a.coarse, 0, (size_t)(STNI_WEIGHTED_PLANES * a.rows) * sizeof(double), stream);
    else
        dispatch_floating(a.dtype, [&](auto element) { launch_weighted_of<decltype(element)>(a, stream); });
}

/* Normalise */

/* Statistics as mean and rstd lie, from the ranks' parts. */
template <class A> __global__ void __launch_bounds__(NORM_THREADS) merge_parts(const __grid_constant__ stni_norm_args a)
{
    const int64_t i = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x, count = a.rows * a.groups;
    if (i >= count)
        return;
    const stni_moments all = stni_moments_merge(a.parts, a.n_parts, count, i);
    static_cast<A *>(a.mean)[i] = (A)all.mean;
    static_cast<A *>(a.rstd)[i] = (A)stni_norm_rstd(all.n, all.m2, a.eps);
    if (a.var)
        static_cast<A *>(a.var)[i] = (A)(all.m2 / (all.n - 1));
}

template <class S> __global__ void __launch_bounds__(NORM_THREADS)
    normalise(const __grid_constant__ operands<NORM_OPERANDS> all, const __grid_constant__ normal_form<S> g)
{
    typedef typename computed<S>::type A;
    const int64_t i = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x;
    int64_t at[NORM_OPERANDS];
    if (i >= all.count)
        return;
    any_offsets_of(all, i, at);
    const A z = STNI_NORM_NORMAL(load(g.x[at[NORM_X]]), g.mean[at[NORM_STAT]], g.rstd[at[NORM_STAT]]);
    store(g.y[at[NORM_Y]],
          z * (g.weight ? load(g.weight[at[NORM_WEIGHT]]) : A(1)) + (g.bias ? load(g.bias[at[NORM_PARAM]]) : A(0)));
}

/* False where it does nothing: elements lie in no runs. */
template <class S>
bool launch_normalise_pieces(const stni_norm_args &a, const normal_form<S> &g, cudaStream_t stream)
{
    if constexpr (has_norm_pieces<S>) {
        operands<NORM_OPERANDS> all;
        if (!find_norm_pieces(a, norm_bit(NORM_X) | norm_bit(NORM_Y), (uintptr_t)a.x | (uintptr_t)a.y, all))
            return false;
        STNI_LAUNCH(normalise_pieces<S>, blocks_of_pieces(all), NORM_THREADS, stream, all, g);
        return true;
    }
    return false;
}

template <class S> void launch_normalise_of(const stni_norm_args &given, cudaStream_t stream)
{
    typedef typename computed<S>::type A;
    stni_norm_args a = given;
    dense_rows d;
    const bool is_dense = find_dense_rows(a, d);
    if (is_dense && !a.parts && launch_dense_kept<S>(a, d, stream))
        return;
    if (!a.parts) {
        launch_moments(a, stream);
        a.parts = a.coarse;
        a.n_parts = 1;
    }
    STNI_LAUNCH(merge_parts<A>, blocks_for(coarse_count(a), NORM_THREADS), NORM_THREADS, stream, a);
    if (a.empty)
        return;
    if (is_dense && launch_dense_read<S>(a, d, stream))
        return;
    const normal_form<S> g = {static_cast<const S *>(a.x),
                              static_cast<const S *>(a.weight),
                              static_cast<const S *>(a.bias),
                              static_cast<S *>(a.y),
                              spread_statistic<A>(a, a.mean, 0, stream),
                              spread_statistic<A>(a, a.rstd, 1, stream)};
    if (launch_normalise_pieces(a, g, stream))
        return;
    const operands<NORM_OPERANDS> all = all_elements(a);
    STNI_LAUNCH(normalise<S>, blocks_for(all.count, NORM_THREADS), NORM_THREADS, stream, all, g);
}

void launch_normalise(const stni_norm_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_normalise_of<decltype(element)>(a, stream); });
}

}

#define KERNEL(slot, launch) STNI_CUDA_KERNEL_WITH(slot, FLOATING_DTYPES, stni_norm_args, launch, norm_pieces_workspace)
#define ROWS(op) KERNEL(op ".moments", launch_moments), KERNEL(op ".normalise", launch_normalise)

STNI_CUDA_KERNELS(norm) = {
    ROWS("layer_norm"),
    ROWS("rms_norm"),
    ROWS("group_norm"),
    ROWS("channel_norm"),
    KERNEL("var.moments", launch_moments),
    KERNEL("std.moments", launch_moments),
    KERNEL("weighted_mean.moments", launch_weighted),
    KERNEL("weighted_var.moments", launch_weighted),
    STNI_CUDA_KERNELS_END
};
