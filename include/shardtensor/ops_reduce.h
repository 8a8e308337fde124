/* Reductions over dims. */
#ifndef SHARDTENSOR_OPS_REDUCE_H
#define SHARDTENSOR_OPS_REDUCE_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Sum over dims.
 *
 * Shapes:     (d0, …) -> without the summed dims; with `keepdim`, they have size 1. Bool and integers give i64.
 * Placement:  a Shard of a summed dim becomes Partial(sum); other Shards and Partial(sum) are kept.
 * Collective: no.
 * Gradient:   yes, twice differentiable: the cotangent, broadcast.
 * @param n_dims  0: all dims.  @param dims  -ndim <= dims[i] < ndim, distinct.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_sum(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** The same sum without rounding errors: that of the exact numbers, rounded once to the nearest. Its bits depend on the
 *  values alone: not on layout, number of ranks, order, processor or device (docs/reproducibility.md). It takes about
 *  ten times as long as stn_sum, and more where lines are short or a dim other than the innermost is summed.
 *
 * Shapes:     as stn_sum, of floating dtypes; of 16-bit floats rounded to f32 and then to the dtype. Of no elements,
 *             and of zeros, +0.
 * Placement:  a Shard of a summed dim becomes Replicate; other Shards are kept; Partial is reduced first, which rounds.
 * Collective: over the mesh axes that shard a summed dim: 112 bytes for each result (f64: 568).
 * Gradient:   yes, twice differentiable: the cotangent, broadcast.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_DTYPE (not floating), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Kulisch 1971, Collange, Defour, Graillat and Iakymchuk 2015. */
STN_API stn_tensor *stn_exact_sum(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** Mean over dims. As stn_sum, for floating and complex dtypes; of no elements it is NaN.
 *  @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_DTYPE, STN_ERR_MEMORY. */
STN_API stn_tensor *stn_mean(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** Product over dims.
 *
 * Shapes:     as of stn_sum; bool and integers give i64.
 * Placement:  a Shard of a reduced dim becomes Partial(prod); other Shards and Partial(prod) are kept; other pending
 *             reductions are done first.
 * Collective: over the mesh where Partial is reduced; the gradient over the ranks that share reduced dims.
 * Gradient:   yes, twice differentiable, zeros included: the cotangent times the product of the others.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_prod(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** The largest element along dims; NaN wins.
 *
 * Shapes:     as of stn_sum, of input's dtype, which is not complex.
 * Placement:  a Shard of a reduced dim becomes Partial(max); other Shards and Partial(max) are kept; other pending
 *             reductions are done first.
 * Collective: over the mesh where Partial is reduced.
 * Gradient:   yes: the cotangent, in equal parts, to the elements that are the result.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_SHAPE (nothing to reduce), STN_ERR_DTYPE, STN_ERR_MEMORY,
 * STN_ERR_COMM. */
STN_API stn_tensor *stn_amax(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** The smallest one. As stn_amax. */
STN_API stn_tensor *stn_amin(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** Whether any element along dims is other than 0 (of none: false), as bool: Partial(max) where a reduced dim is
 *  sharded. No gradient. */
STN_API stn_tensor *stn_any(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** Whether all are (of none: true): Partial(min) where a reduced dim is sharded. No gradient. */
STN_API stn_tensor *stn_all(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** How many elements along dims are other than 0, as i64. As stn_sum; no gradient. */
STN_API stn_tensor *stn_count_nonzero(stn_tensor *input, int n_dims, const int *dims);

/** log sum exp(x) over dims: m + log sum exp(x - m), m the largest x. One pass over x, which keeps no temporary of x's
 * size.
 *
 * Shapes:     as of stn_sum; floating. 16-bit floats are computed in f32.
 * Placement:  Shards of other dims are kept. Where ranks share results, these are Replicate: two all-reduces of one f64
 *             per result. Partial is reduced first.
 * Collective: over the mesh where a reduced dim is sharded, or input is Partial.
 * Gradient:   yes, twice differentiable: g exp(x - y), one pass as well.
 * @return new tensor, -infinity where there is nothing to add up; STN_ERR_ARGUMENT (dims), STN_ERR_DTYPE,
 * STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax". */
STN_API stn_tensor *stn_logsumexp(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** (sum |x|^ord)^(1/ord) over dims; INFINITY: the largest |x|, -INFINITY: the smallest, 0: how many are not 0. Floating
 *  or complex; the result is real. Powers of 16-bit floats are computed in f32, squares of f32 are added in f64. Of
 *  order 2: one pass over x, Partial is reduced first, and where a reduced dim is sharded one all-reduce of a number
 *  per result, which is Replicate. Other orders are made of stn_sum, stn_amax and stn_amin, and placed as their results
 *  when reduced, once; order 1 leaves its sum pending, those of infinity their extreme. Of a negative order a norm is 0
 *  where an element is 0, and infinity where all are infinite. Gradient: yes, twice differentiable, of complex numbers
 *  once, as stn_abs; 0 where the norm is 0 (ord other than 1). */
STN_API stn_tensor *stn_vector_norm(stn_tensor *input, double ord, int n_dims, const int *dims, int keepdim);

/** Variance over dims: sum (x - mean)^2 / (n - correction); correction 1 for a sample's, 0 for that of a whole.
 *
 * Shapes:     as of stn_sum; floating.
 * Placement:  Shards of other dims are kept. Where ranks share results, these are Replicate: one all-gather of three
 *             numbers per result and rank (count, mean, sum of squared deviations). Partial is reduced first.
 * Collective: over the mesh where a reduced dim is sharded, or input is Partial.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Chan, Golub and LeVeque 1979, for the union of ranks. */
STN_API stn_tensor *stn_var(stn_tensor *input, int n_dims, const int *dims, double correction, int keepdim);

/** The root of stn_var. */
STN_API stn_tensor *stn_std(stn_tensor *input, int n_dims, const int *dims, double correction, int keepdim);

/** sum w x / sum w over dims; weights are broadcast to input's shape. They may be of any sign; NaN where they add up to
 *  0. An element of weight 0 may be any finite number. As stn_var; gradients reach the weights too.
 *  @return new tensor; STN_ERR_SHAPE (weight does not broadcast to input), STN_ERR_ARGUMENT (dims), STN_ERR_DTYPE (they
 *  differ, or not floating), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_weighted_mean(stn_tensor *input, stn_tensor *weight, int n_dims, const int *dims, int keepdim);

/** sum w (x - m)^2 / sum w over dims, m the weighted mean. As stn_weighted_mean; below 0 where weights of both signs
 *  make it so. */
STN_API stn_tensor *stn_weighted_var(stn_tensor *input, stn_tensor *weight, int n_dims, const int *dims, int keepdim);

STN_END_DECLS
#endif
