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

/** Mean over dims. As stn_sum, for floating and complex dtypes; of no elements it is NaN.
 *  @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_DTYPE, STN_ERR_MEMORY. */
STN_API stn_tensor *stn_mean(stn_tensor *input, int n_dims, const int *dims, int keepdim);

STN_END_DECLS
#endif
