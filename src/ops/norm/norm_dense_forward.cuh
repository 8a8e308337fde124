/* The forward half of normalisations of dense rows: statistics and result at once where the row is on this rank and can
 * be kept in registers, else the result from statistics that are there. */
#ifndef STNI_OPS_NORM_NORM_DENSE_FORWARD_CUH
#define STNI_OPS_NORM_NORM_DENSE_FORWARD_CUH

#include "ops/common/moments.h"
#include "ops/cpu/fused.h"
#include "ops/norm/norm_dense.cuh"

namespace {

template <class S> struct dense_forward {
    typedef typename computed<S>::type A;
    dense_rows d;
    const S *x, *weight, *bias;
    S *y;
    A *mean, *rstd, *var;
    double share, eps; /* share: 1 / n, since a thread that divides keeps its row waiting */
    int about_zero;
};

template <class A> struct row_statistic {
    A mean, rstd;
};

/* Sums of z and z^2, z = x - shift. */
template <class S, class P>
STNI_DEVICE row_sums row_moments(const kept_row<S, P> &x, const row_share &share, double shift)
{
    row_sums sum = {0, 0};
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(share, j))
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++) {
                const double z = (double)x.v[j][k] - shift;
                sum.first += z;
                sum.second = STNI_FMA_F64(z, z, sum.second);
            }
    return sum;
}

/* The statistics of the row at `i`, which the first thread of the team puts where they belong. */
template <class S>
STNI_DEVICE row_statistic<typename computed<S>::type>
take_statistics(const dense_forward<S> &g, int64_t i, row_sums sum, double shift, bool writes)
{
    typedef typename computed<S>::type A;
    const double first = g.about_zero ? 0 : sum.first, mean = first * g.share, rest = sum.second - first * mean;
    const double m2 = rest < 0 ? 0 : rest; /* as in stni_moments_of_sums: NaN stays */
    const row_statistic<A> found = {(A)(shift + mean), (A)(1 / sqrt(m2 * g.share + g.eps))};
    if (writes) {
        g.mean[i] = found.mean;
        g.rstd[i] = found.rstd;
        if (g.var)
            g.var[i] = (A)(m2 / (double)(g.d.n - 1));
    }
    return found;
}

/* In a team of several warps one thread takes them for all, since it divides in f64. `shared` has ROW_MOST_WARPS. */
template <class S>
STNI_DEVICE row_statistic<typename computed<S>::type>
share_statistics(row_statistic<typename computed<S>::type> *shared, const dense_forward<S> &g, const row_place &place,
                 row_sums sum, double shift)
{
    const int first = ((int)threadIdx.x & -g.d.team.threads) / WARP;
    const bool is_first = place.share.first == 0, is_small = g.d.team.threads <= WARP;
    row_statistic<typename computed<S>::type> found = {0, 0};
    if (is_first || is_small)
        found = take_statistics(g, row_at(g.d, place, NORM_STAT), sum, shift, is_first && place.is_row);
    if (is_small)
        return found;
    if (is_first)
        shared[first] = found;
    __syncthreads();
    return shared[first];
}

/* a b + c */
STNI_DEVICE float fused(float a, float b, float c)
{
    return STNI_FMA_F32(a, b, c);
}

STNI_DEVICE double fused(double a, double b, double c)
{
    return STNI_FMA_F64(a, b, c);
}

template <class S, class P>
STNI_DEVICE void row_normalise(const dense_forward<S> &g, kept_row<S, P> &x, const row_share &share,
                               const row_statistic<typename computed<S>::type> &of)
{
    typedef typename computed<S>::type A;
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(share, j)) {
            A weight[P::SIZE], bias[P::SIZE];
            read_parameter<P>(g.weight, share.first + j * share.step, A(1), weight);
            read_parameter<P>(g.bias, share.first + j * share.step, A(0), bias);
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++)
                x.v[j][k] = fused(STNI_NORM_NORMAL(x.v[j][k], of.mean, of.rstd), weight[k], bias[k]);
        }
}

/* Threads of a multiprocessor for which there are registers where rows are in packs; f16 would spill with more. */
template <class S> constexpr int KEPT_THREADS = 1024;
template <> constexpr int KEPT_THREADS<f16> = 768;

template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, P::SIZE == 1 ? 1 : KEPT_THREADS<S> / ROW_MOST_THREADS<P>)
    normalise_kept(const __grid_constant__ dense_forward<S> g)
{
    STNI_SHARED(row_sums, shared, ROW_MOST_WARPS);
    STNI_SHARED(row_statistic<typename computed<S>::type>, of_team, ROW_MOST_WARPS);
    const row_place place = row_place_of<P>(g.d);
    const S *const row = g.x + row_at(g.d, place, NORM_X);
    const double shift = g.about_zero ? 0 : stni_moments_shift((double)load(row[0]));
    kept_row<S, P> x;
    read_row(x, row, place.share);
    const row_sums sum = reduce_row(shared, g.d.team, row_moments(x, place.share, shift), plus_sums());
    row_normalise(g, x, place.share, share_statistics(of_team, g, place, sum, shift));
    write_row(x, g.y + row_at(g.d, place, NORM_Y), place.share);
}

/* The statistics are there. */
template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, P::SIZE == 1 ? 1 : 2)
    normalise_read(const __grid_constant__ dense_forward<S> g)
{
    const row_place place = row_place_of<P>(g.d);
    kept_row<S, P> x;
    read_row(x, g.x + row_at(g.d, place, NORM_X), place.share);
    row_normalise(g, x, place.share, {g.mean[row_at(g.d, place, NORM_STAT)], g.rstd[row_at(g.d, place, NORM_STAT)]});
    write_row(x, g.y + row_at(g.d, place, NORM_Y), place.share);
}

template <class S> dense_forward<S> dense_forward_of(const stni_norm_args &a, const dense_rows &d)
{
    typedef typename computed<S>::type A;
    return {d,
            static_cast<const S *>(a.x),
            static_cast<const S *>(a.weight),
            static_cast<const S *>(a.bias),
            static_cast<S *>(a.y),
            static_cast<A *>(a.mean),
            static_cast<A *>(a.rstd),
            static_cast<A *>(a.var),
            1 / (double)d.n,
            a.eps,
            a.about_zero};
}

template <bool KEPT, class P, class S> void launch_dense_in(dense_forward<S> &g, cudaStream_t stream)
{
    divide_rows<P>(g.d);
    if constexpr (KEPT)
        STNI_LAUNCH((normalise_kept<S, P>), blocks_of_rows(g.d), (unsigned)g.d.team.block, stream, g);
    else
        STNI_LAUNCH((normalise_read<S, P>), blocks_of_rows(g.d), (unsigned)g.d.team.block, stream, g);
}

/* Statistics too. False where it does nothing: rows are too long, or of f64, which would take too many registers. */
template <class S> bool launch_dense_kept(const stni_norm_args &a, const dense_rows &d, cudaStream_t stream)
{
    if constexpr (sizeof(S) < 8) {
        if (d.n > ROW_MOST)
            return false;
        dense_forward<S> g = dense_forward_of<S>(a, d);
        if (has_packs<S>(a, d))
            launch_dense_in<true, pack<S>>(g, stream);
        else
            launch_dense_in<true, single<S>>(g, stream);
        return true;
    }
    return false;
}

/* False where it does nothing: rows of narrow elements are in no packs. */
template <class S> bool launch_dense_read(const stni_norm_args &a, const dense_rows &d, cudaStream_t stream)
{
    typedef widest_piece<S> P;
    if (P::SIZE > 1 && !has_packs<S>(a, d))
        return false;
    dense_forward<S> g = dense_forward_of<S>(a, d);
    launch_dense_in<false, P>(g, stream);
    return true;
}

}

#endif
