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

/* Reads a thread's share of a row, x and g, weight times cotangent.
 * @return the share's sums of g and of g times the normal form of x. */
template <class S, class P>
STNI_DEVICE row_sums read_weighted(const dense_backward<S> &b, const row_place &place, int64_t f, kept_row<S, P> &x,
                                   kept_row<S, P> &g)
{
    typedef typename computed<S>::type A;
    const A mean = b.mean[f], rstd = b.rstd[f];
    row_sums sum = {0, 0};
    read_row(x, b.x + row_at(b.d, place, NORM_X), place.share);
    read_row(g, b.y + row_at(b.d, place, NORM_Y), place.share);
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(place.share, j)) {
            A weight[P::SIZE];
            read_parameter<P>(b.weight, place.share.first + j * place.share.step, A(1), weight);
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++) {
                g.v[j][k] = weight[k] * g.v[j][k];
                sum.first += (double)g.v[j][k];
                sum.second += (double)(g.v[j][k] * STNI_NORM_NORMAL(x.v[j][k], mean, rstd));
            }
        }
    return sum;
}

/* x becomes its gradient. */
template <class S, class P, class A>
STNI_DEVICE void write_gradient(const dense_backward<S> &b, const row_place &place, int64_t f, kept_row<S, P> &x,
                                const kept_row<S, P> &g, A of_mean, A of_variance)
{
    const A mean = b.mean[f], rstd = b.rstd[f];
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        STNI_UNROLL
        for (int k = 0; k < P::SIZE; k++)
            x.v[j][k] = STNI_NORM_GRADIENT(g.v[j][k], x.v[j][k], mean, rstd, of_mean, of_variance);
    write_row(x, b.out + row_at(b.d, place, NORM_OUT), place.share);
}

template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, P::SIZE == 1 ? 1 : 2)
    sum_rows(const __grid_constant__ dense_backward<S> b)
{
    STNI_SHARED(row_sums, shared, ROW_MOST_WARPS);
    const row_place place = row_place_of<P>(b.d);
    const int64_t f = row_at(b.d, place, NORM_STAT);
    kept_row<S, P> x, g;
    const row_sums sum = reduce_row(shared, b.d.team, read_weighted(b, place, f, x, g), plus_sums());
    if (!place.is_row || place.share.first > 0)
        return;
    b.sum[f] = sum.first;
    b.sum[b.d.rows + f] = sum.second;
}

template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, P::SIZE == 1 ? 1 : 2)
    apply_rows(const __grid_constant__ dense_backward<S> b)
{
    const row_place place = row_place_of<P>(b.d);
    const int64_t f = row_at(b.d, place, NORM_STAT);
    kept_row<S, P> x, g;
    read_weighted(b, place, f, x, g);
    write_gradient(b, place, f, x, g, b.mean_gradient[f], b.variance_gradient[f]);
}

/* Where all elements of a row's statistic are the row's: sums and gradients in one go. `count`: elements of a row. */
template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, P::SIZE == 1 ? 1 : 2)
    apply_whole_rows(const __grid_constant__ dense_backward<S> b, double count, bool about_zero)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(row_sums, shared, ROW_MOST_WARPS);
    const row_place place = row_place_of<P>(b.d);
    const int64_t f = row_at(b.d, place, NORM_STAT);
    kept_row<S, P> x, g;
    const row_sums sum = reduce_row(shared, b.d.team, read_weighted(b, place, f, x, g), plus_sums());
    const double rstd = (double)b.rstd[f];
    write_gradient(b, place, f, x, g, (A)(about_zero ? 0 : rstd * sum.first / count),
                   (A)(rstd * rstd * sum.second / count));
}

/* A block sums COLUMNS_TEAM pieces of a row over the rows of its part, which COLUMNS_ROWS warps share in turn. */
enum { COLUMNS_TEAM = WARP, COLUMNS_ROWS = 8, COLUMNS_THREADS = COLUMNS_TEAM * COLUMNS_ROWS };

/* Of short rows, too many lanes would have nothing. */
inline bool has_wide_columns(const dense_rows &d)
{
    return d.team.pieces >= COLUMNS_TEAM / 2;
}

inline parts parts_of_columns(const dense_rows &d)
{
    return parts_of(d.rows, COLUMNS_ROWS, blocks_for(d.team.pieces, COLUMNS_TEAM));
}

/* Of a parameter's element: the sums of the cotangent and of it times the normal form of x, of a part of the rows. */
template <class P> struct column_sums {
    double v[P::SIZE][2];
};

template <class S, class P>
STNI_DEVICE void add_row(const dense_backward<S> &b, uint32_t row, int piece, column_sums<P> &sum)
{
    typedef typename computed<S>::type A;
    const int64_t f = row_offset(b.d.at, NORM_STAT, row);
    const P x = reinterpret_cast<const P *>(b.x + row_offset(b.d.at, NORM_X, row))[piece];
    const P y = reinterpret_cast<const P *>(b.y + row_offset(b.d.at, NORM_Y, row))[piece];
    const A mean = b.mean[f], rstd = b.rstd[f];
    STNI_UNROLL
    for (int k = 0; k < P::SIZE; k++) {
        const A g = load(y.v[k]);
        sum.v[k][0] += (double)g;
        sum.v[k][1] += (double)(g * STNI_NORM_NORMAL(load(x.v[k]), mean, rstd));
    }
}

/* to[(2 part + plane) n + column] */
template <class S, class P>
__global__ void __launch_bounds__(COLUMNS_THREADS)
    sum_columns(const __grid_constant__ dense_backward<S> b, const __grid_constant__ parts p)
{
    STNI_SHARED(column_sums<P>, shared, COLUMNS_THREADS);
    const int lane = (int)threadIdx.x % COLUMNS_TEAM, warp = (int)threadIdx.x / COLUMNS_TEAM;
    const int first = (int)blockIdx.x * COLUMNS_TEAM, piece = first + lane;
    const uint32_t end = (uint32_t)part_end(p, b.d.rows, blockIdx.y);
    column_sums<P> sum = {};
    if (piece < b.d.team.pieces)
        for (uint32_t row = (uint32_t)(blockIdx.y * p.each) + (uint32_t)warp; row < end; row += COLUMNS_ROWS)
            add_row(b, row, piece, sum);
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 2 * COLUMNS_TEAM * P::SIZE; i += COLUMNS_THREADS) {
        const int plane = i / (COLUMNS_TEAM * P::SIZE), column = i % (COLUMNS_TEAM * P::SIZE);
        double all = 0;
        for (int w = 0; w < COLUMNS_ROWS; w++)
            all += shared[w * COLUMNS_TEAM + column / P::SIZE].v[column % P::SIZE][plane];
        if (first * P::SIZE + column < b.d.n)
            b.sum[(2 * (int64_t)blockIdx.y + plane) * b.d.n + first * P::SIZE + column] = all;
    }
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

/* Whether rows are summed where they are applied, and not before. */
inline bool applies_whole_rows(const stni_norm_args &a, const dense_rows &d)
{
    return a.whole && d.n <= ROW_MOST;
}

/* Two planes of the sums of columns. `workspace` has as many bytes as columns_bytes says. */
template <class S> void launch_columns(dense_backward<S> b, double *sum, void *workspace, cudaStream_t stream)
{
    typedef widest_piece<S> P;
    const parts p = parts_of_columns(b.d);
    b.sum = p.count > 1 ? static_cast<double *>(workspace) : sum;
    const dim3 grid(blocks_for(b.d.team.pieces, COLUMNS_TEAM), (unsigned)p.count);
    STNI_LAUNCH((sum_columns<S, P>), grid, COLUMNS_THREADS, stream, b, p);
    if (p.count > 1)
        join_parts(static_cast<const double *>(workspace), p.count, 2 * b.d.n, sum, stream);
}

/* Of the parts, where there are some, of a chunk that is not empty. */
inline size_t columns_bytes(const stni_norm_args &a)
{
    dense_rows d;
    size_t bytes = 0;
    dispatch_floating(a.dtype, [&](auto element) {
        if (find_backward_rows<decltype(element)>(a, d) && has_wide_columns(d) && parts_of_columns(d).count > 1)
            bytes = (size_t)(parts_of_columns(d).count * 2 * d.n) * sizeof(double);
    });
    return bytes;
}

/* Of any of the backward kernels. */
inline size_t norm_backward_workspace(stn_queue *queue, const void *args)
{
    const stni_norm_args &a = *static_cast<const stni_norm_args *>(args);
    const size_t most = norm_workspace(queue, args), columns = a.empty ? 0 : arrays_bytes(a) + columns_bytes(a);
    return most > columns ? most : columns;
}

}

#endif
