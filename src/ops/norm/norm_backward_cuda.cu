/* Gradients of normalisations on a CUDA device: sums by fine index, and by parameter where these run along the
 * elements of one; then each element by itself. Dense rows are read in packs (norm_dense_backward.cuh), and so are
 * other dense runs (norm_pieces.cuh). */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/norm/norm_dense_backward.cuh"
#include "ops/norm/norm_pieces.cuh"
#include "ops/norm/norm_sums.cuh"

namespace {

/* Sums of g = weight y and of g times the normal form of x. */
template <class S> struct gradient_terms {
    typedef typename computed<S>::type A;
    struct target {
        const S *x, *y, *weight;
        const A *mean, *rstd;
    };
    const S *x, *y, *weight; /* weight: NULL: ones */
    const A *mean, *rstd;

    STNI_ANY_DEVICE target begin(const int64_t *at) const
    {
        return {x + at[NORM_X], y + at[NORM_Y], weight ? weight + at[NORM_WEIGHT] : nullptr, mean + at[NORM_STAT],
                rstd + at[NORM_STAT]};
    }

    STNI_ANY_DEVICE void add(const target &of, const int64_t *at, double *sum) const
    {
        const int64_t stat = at[NORM_STAT];
        const A g = (of.weight ? load(of.weight[at[NORM_WEIGHT]]) : A(1)) * load(of.y[at[NORM_Y]]);
        sum[0] += (double)g;
        sum[1] += (double)(g * STNI_NORM_NORMAL(load(of.x[at[NORM_X]]), of.mean[stat], of.rstd[stat]));
    }
};

/* The same of packs, all weights being ones. */
template <class S> struct gradient_pieces {
    typedef gradient_piece<S> piece;
    typedef typename gradient_terms<S>::target target;
    enum { AT_ONCE = 2 };
    gradient_terms<S> terms;

    __device__ target begin(const int64_t *at) const { return terms.begin(at); }
    __device__ piece read(const target &of, const int64_t *at) const
    {
        return {pack_at(of.x, at[NORM_X]), pack_at(of.y, at[NORM_Y])};
    }
    __device__ void add(const target &of, const piece &in, double *sum) const
    {
        typename computed<S>::type x[pack<S>::SIZE], y[pack<S>::SIZE];
        load_pack(in.x, x);
        load_pack(in.y, y);
        STNI_UNROLL
        for (int k = 0; k < pack<S>::SIZE; k++) {
            sum[0] += (double)y[k];
            sum[1] += (double)(y[k] * STNI_NORM_NORMAL(x[k], *of.mean, *of.rstd));
        }
    }
};

enum { SUMMED_PIECES = 1 << NORM_X | 1 << NORM_Y }; /* what is read in packs */

/* Channels have parameters: what was summed of each, weighted, is added up over the channels of a group, … */
template <class S> __global__ void __launch_bounds__(NORM_THREADS)
    fold_groups(const __grid_constant__ stni_norm_args a, const double *sum)
{
    const int64_t i = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x, count = a.rows * a.groups,
                  n_fine = a.rows * a.channels;
    if (i >= count)
        return;
    const int64_t row = i / a.groups, first = i % a.groups * a.per_group - a.offset, end = first + a.per_group;
    double total[2] = {0, 0};
    for (int64_t c = first < 0 ? 0 : first; c < end && c < a.channels; c++) {
        const double w = a.weight ? (double)load(static_cast<const S *>(a.weight)[c * a.weight_step]) : 1;
        for (int k = 0; k < 2; k++)
            total[k] += w * sum[k * n_fine + row * a.channels + c];
    }
    a.coarse[i] = total[0];
    a.coarse[count + i] = total[1];
}

/* … and as it is over rows. */
template <class S> __global__ void __launch_bounds__(NORM_THREADS)
    fold_rows(const __grid_constant__ stni_norm_args a, const double *sum)
{
    const int64_t c = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x, n_fine = a.rows * a.channels;
    if (c >= a.channels)
        return;
    double total[2] = {0, 0};
    for (int64_t row = 0; row < a.rows; row++)
        for (int k = 0; k < 2; k++)
            total[k] += sum[k * n_fine + row * a.channels + c];
    store(static_cast<S *>(a.grad_bias)[c], (typename computed<S>::type)total[0]);
    store(static_cast<S *>(a.grad_weight)[c], (typename computed<S>::type)total[1]);
}

template <class S> __global__ void __launch_bounds__(NORM_THREADS)
    store_params(const __grid_constant__ stni_norm_args a, const double *sum)
{
    const int64_t i = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x;
    if (i >= a.params)
        return;
    store(static_cast<S *>(a.grad_bias)[i], (typename computed<S>::type)sum[i]);
    store(static_cast<S *>(a.grad_weight)[i], (typename computed<S>::type)sum[a.params + i]);
}

template <class S>
dense_backward<S> dense_backward_of(const dense_rows &d, const gradient_terms<S> &terms, double *sum)
{
    return {d, terms.x, terms.y, terms.weight, nullptr, terms.mean, terms.rstd, nullptr, nullptr, sum};
}

/* Parameters that lie along the lines of which there are statistics have sums of their own. */
template <class S> void launch_sums_along(const stni_norm_args &a, gradient_terms<S> terms, cudaStream_t stream)
{
    double *const sum = param_sums(a);
    dense_rows d;
    const bool is_dense = find_backward_rows<S>(a, d);
    if (!is_dense || d.n > ROW_MOST)
        launch_sums<2>(summation_by(a, NORM_STAT), terms, a.coarse, parts_of_sums(a), stream);
    else if (!applies_whole_rows(a, d))
        STNI_LAUNCH((sum_rows<S, widest_piece<S>>), blocks_of_rows(d), (unsigned)d.team.block, stream,
                    dense_backward_of(d, terms, a.coarse));
    terms.weight = nullptr;
    if (is_dense && has_wide_columns(d))
        launch_columns(dense_backward_of(d, terms, nullptr), sum, parts_of_sums(a), stream);
    else
        launch_sums<2>(summation_by(a, NORM_PARAM), terms, sum, parts_of_sums(a), stream);
    STNI_LAUNCH(store_params<S>, blocks_for(a.params, NORM_THREADS), NORM_THREADS, stream, a, sum);
}

/* False where it does nothing: elements lie in no runs. */
template <class S>
bool launch_gradient_pieces(const stni_norm_args &a, const gradient_terms<S> &terms, double *sum, cudaStream_t stream)
{
    if constexpr (has_norm_pieces<S>) {
        piece_summation<NORM_OPERANDS> p;
        if (!is_pack_aligned((uintptr_t)a.x | (uintptr_t)a.y) || !find_norm_sums(a, SUMMED_PIECES, p))
            return false;
        launch_piece_sums<2>(p, gradient_pieces<S>{terms}, sum, parts_of_sums(a), stream);
        return true;
    }
    return false;
}

template <class S> void launch_sums_of_channels(const stni_norm_args &a, gradient_terms<S> terms, cudaStream_t stream)
{
    double *const sum = fine_array(a, 2);
    terms.weight = nullptr;
    if (!launch_gradient_pieces(a, terms, sum, stream))
        launch_sums<2>(summation_by(a, NORM_STAT), terms, sum, parts_of_sums(a), stream);
    STNI_LAUNCH(fold_groups<S>, blocks_for(coarse_count(a), NORM_THREADS), NORM_THREADS, stream, a, sum);
    STNI_LAUNCH(fold_rows<S>, blocks_for(a.channels, NORM_THREADS), NORM_THREADS, stream, a, sum);
}

template <class S> void clear_sums(const stni_norm_args &a, cudaStream_t stream)
{
    const size_t params = (size_t)(a.along ? a.params : a.channels) * sizeof(S),
                 sums = (size_t)(2 * coarse_count(a)) * sizeof(double);
    if (sums > 0)
        cudaMemsetAsync(a.coarse, 0, sums, stream);
    if (params == 0)
        return;
    cudaMemsetAsync(a.grad_bias, 0, params, stream);
    cudaMemsetAsync(a.grad_weight, 0, params, stream);
}

template <class S> void launch_sums_of(const stni_norm_args &a, cudaStream_t stream)
{
    typedef typename computed<S>::type A;
    if (a.empty)
        return clear_sums<S>(a, stream);
    const gradient_terms<S> terms = {static_cast<const S *>(a.x), static_cast<const S *>(a.y),
                                     static_cast<const S *>(a.weight), spread_statistic<A>(a, a.mean, 0, stream),
                                     spread_statistic<A>(a, a.rstd, 1, stream)};
    if (a.along)
        launch_sums_along(a, terms, stream);
    else
        launch_sums_of_channels(a, terms, stream);
}

void launch_gradient_sums(const stni_norm_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_sums_of<decltype(element)>(a, stream); });
}

/* What is subtracted from the gradient of a fine index's elements, and what is times x - mean. */
template <class A> __global__ void __launch_bounds__(NORM_THREADS)
    prepare(const __grid_constant__ stni_norm_args a, A *mean_gradient, A *variance_gradient)
{
    const int64_t f = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x;
    if (f >= a.rows * a.channels)
        return;
    const int64_t i = stni_norm_coarse_of(&a, f / a.channels, f % a.channels);
    const double rstd = (double)static_cast<const A *>(a.rstd)[i];
    mean_gradient[f] = (A)stni_norm_mean_gradient(&a, rstd, i);
    variance_gradient[f] = (A)stni_norm_variance_gradient(&a, rstd, i);
}

template <class S> __global__ void __launch_bounds__(NORM_THREADS)
    apply(const __grid_constant__ operands<NORM_OPERANDS> all, const __grid_constant__ gradient<S> g)
{
    typedef typename computed<S>::type A;
    const int64_t i = (int64_t)blockIdx.x * NORM_THREADS + threadIdx.x;
    int64_t at[NORM_OPERANDS];
    if (i >= all.count)
        return;
    any_offsets_of(all, i, at);
    const int64_t f = at[NORM_STAT];
    const A weighted = (g.weight ? load(g.weight[at[NORM_WEIGHT]]) : A(1)) * load(g.y[at[NORM_Y]]);
    store(g.out[at[NORM_OUT]],
          STNI_NORM_GRADIENT(weighted, load(g.x[at[NORM_X]]), g.mean[f], g.rstd[f], g.mean_gradient[f],
                             g.variance_gradient[f]));
}

/* False where it does nothing: elements lie in no runs. */
template <class S> bool launch_apply_pieces(const stni_norm_args &a, const gradient<S> &g, cudaStream_t stream)
{
    if constexpr (has_norm_pieces<S>) {
        const uintptr_t addresses = (uintptr_t)a.x | (uintptr_t)a.y | (uintptr_t)a.out;
        operands<NORM_OPERANDS> all;
        if (a.bias || !find_norm_pieces(a, SUMMED_PIECES | norm_bit(NORM_OUT), addresses, all))
            return false;
        STNI_LAUNCH(apply_pieces<S>, blocks_of_pieces(all), NORM_THREADS, stream, all, g);
        return true;
    }
    return false;
}

template <class S> void launch_apply_rows(const stni_norm_args &a, const dense_backward<S> &b, cudaStream_t stream)
{
    const unsigned blocks = blocks_of_rows(b.d), threads = (unsigned)b.d.team.block;
    if (applies_whole_rows(a, b.d))
        STNI_LAUNCH((apply_whole_rows<S, widest_piece<S>>), blocks, threads, stream, b, (double)a.count,
                    a.about_zero != 0);
    else
        STNI_LAUNCH((apply_rows<S, widest_piece<S>>), blocks, threads, stream, b);
}

template <class S> void launch_apply_of(const stni_norm_args &a, cudaStream_t stream)
{
    typedef typename computed<S>::type A;
    const operands<NORM_OPERANDS> all = all_elements(a);
    A *const mean_gradient = reinterpret_cast<A *>(fine_array(a, 2));
    A *const variance_gradient = reinterpret_cast<A *>(fine_array(a, 3));
    dense_rows d;
    const bool is_dense = find_backward_rows<S>(a, d);
    if (!is_dense || !applies_whole_rows(a, d))
        STNI_LAUNCH(prepare<A>, blocks_for(fine_count(a), NORM_THREADS), NORM_THREADS, stream, a, mean_gradient,
                    variance_gradient);
    const gradient<S> g = {static_cast<const S *>(a.x),
                           static_cast<const S *>(a.y),
                           static_cast<const S *>(a.weight),
                           static_cast<S *>(a.out),
                           spread_statistic<A>(a, a.mean, 0, stream),
                           spread_statistic<A>(a, a.rstd, 1, stream),
                           mean_gradient,
                           variance_gradient};
    if (is_dense)
        return launch_apply_rows<S>(a, {d, g.x, g.y, g.weight, g.out, g.mean, g.rstd, g.mean_gradient,
                                        g.variance_gradient, nullptr}, stream);
    if (launch_apply_pieces(a, g, stream))
        return;
    STNI_LAUNCH(apply<S>, blocks_for(all.count, NORM_THREADS), NORM_THREADS, stream, all, g);
}

/* Of any of these kernels. */
size_t workspace(stn_queue *queue, const void *args)
{
    const stni_norm_args &a = *static_cast<const stni_norm_args *>(args);
    return larger_size(norm_backward_workspace(queue, args), arrays_bytes(a) + norm_sums_bytes(a, SUMMED_PIECES, 2));
}

void launch_apply(const stni_norm_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_apply_of<decltype(element)>(a, stream); });
}

}

#define KERNEL(slot, launch) \
    STNI_CUDA_KERNEL_WITH(slot, FLOATING_DTYPES, stni_norm_args, launch, workspace)
#define ROWS(op) KERNEL(op "_backward.sums", launch_gradient_sums), KERNEL(op "_backward.apply", launch_apply)

STNI_CUDA_KERNELS(norm_backward) = {
    ROWS("layer_norm"),
    ROWS("rms_norm"),
    ROWS("group_norm"),
    ROWS("channel_norm"),
    STNI_CUDA_KERNELS_END
};
