/* The backward half of normalisations of dense rows. */
#ifndef STNI_OPS_NORM_NORM_DENSE_BACKWARD_CUH
#define STNI_OPS_NORM_NORM_DENSE_BACKWARD_CUH

#include "ops/norm/norm_dense.cuh"

namespace {

template <class S> struct dense_backward {
    typedef typename computed<S>::type A;
    dense_rows d;
    const S *x, *y, *weight; /* y: the cotangent */
    S *out;
    const A *mean, *rstd, *mean_gradient, *variance_gradient;
    double *sum; /* of rows or of columns, two planes */
};

/* Of a row's elements, with g = weight times cotangent: the sums of g and of g times the normal form of x. */
template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, P::SIZE == 1 ? 1 : 2)
    sum_rows(const __grid_constant__ dense_backward<S> b)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(row_sums, shared, ROW_MOST_WARPS);
    const row_place place = row_place_of<P>(b.d);
    const row_share share = place.share;
    const int64_t f = row_at(b.d, place, NORM_STAT);
    const A mean = b.mean[f], rstd = b.rstd[f];
    kept_row<S, P> x, y;
    row_sums sum = {0, 0};
    read_row(x, b.x + row_at(b.d, place, NORM_X), share);
    read_row(y, b.y + row_at(b.d, place, NORM_Y), share);
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(share, j)) {
            const P weight = parameter_piece<P>(b.weight, share.first + j * share.step, A(1));
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++) {
                const A g = load(weight.v[k]) * y.v[j][k];
                sum.first += (double)g;
                sum.second += (double)(g * STNI_NORM_NORMAL(x.v[j][k], mean, rstd));
            }
        }
    sum = reduce_row(shared, b.d.team, sum, plus_sums());
    if (!place.is_row || share.first > 0)
        return;
    b.sum[f] = sum.first;
    b.sum[b.d.rows + f] = sum.second;
}

template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, P::SIZE == 1 ? 1 : 2)
    apply_rows(const __grid_constant__ dense_backward<S> b)
{
    typedef typename computed<S>::type A;
    const row_place place = row_place_of<P>(b.d);
    const row_share share = place.share;
    const int64_t f = row_at(b.d, place, NORM_STAT);
    const A mean = b.mean[f], rstd = b.rstd[f], of_mean = b.mean_gradient[f], of_variance = b.variance_gradient[f];
    kept_row<S, P> x, y;
    read_row(x, b.x + row_at(b.d, place, NORM_X), share);
    read_row(y, b.y + row_at(b.d, place, NORM_Y), share);
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(share, j)) {
            const P weight = parameter_piece<P>(b.weight, share.first + j * share.step, A(1));
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++) {
                const A g = load(weight.v[k]) * y.v[j][k];
                x.v[j][k] = STNI_NORM_GRADIENT(g, x.v[j][k], mean, rstd, of_mean, of_variance);
            }
        }
    write_row(x, b.out + row_at(b.d, place, NORM_OUT), share);
}

/* Whether rows are dense, and in packs where elements are narrow. */
template <class S> bool find_backward_rows(const stni_norm_args &a, dense_rows &d)
{
    typedef widest_piece<S> P;
    if (!find_dense_rows(a, d) || (P::SIZE > 1 && !has_packs<S>(a, d)))
        return false;
    divide_rows<P>(d);
    return true;
}

}

#endif
