/* Scans: each element becomes what the elements up to it, along a dim, come to. */
#ifndef SHARDTENSOR_OPS_SCAN_H
#define SHARDTENSOR_OPS_SCAN_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Sums of the elements up to each: y_i = x_0 + … + x_i.
 *
 * Shapes:     (…, n, …) -> the same. Any dtype; bool and integers give i64.
 * Placement:  kept, empty chunks and several axes along `dim` too; Partial(sum) is kept where the dtype is, other
 *             pending reductions are done first.
 * Collective: over the ranks that share lines along `dim`: one all-gather of a total per line and rank (several where
 *             those are very many).
 * Gradient:   yes, differentiable as often as one likes: the sums from the other end.
 * @param dim  -ndim <= dim < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (dim), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_cumsum(stn_tensor *input, int dim);

/** Products of the elements up to each. As stn_cumsum; every Partial is reduced first. The gradient divides by nothing:
 *  zeros are right. */
STN_API stn_tensor *stn_cumprod(stn_tensor *input, int dim);

/** log of the sum of exp of the elements up to each, without overflow. As stn_cumprod, for floating and complex dtypes;
 *  of complex numbers it is the principal value. @return STN_ERR_DTYPE too. */
STN_API stn_tensor *stn_logcumsumexp(stn_tensor *input, int dim);

/** The largest of the elements up to each, and its index along `dim`: NaN wins, among equals the last.
 *
 * Shapes:     (…, n, …) -> the same, of input's dtype, which is not complex; indices i64.
 * Placement:  kept for both; Partial is reduced first.
 * Collective: as stn_cumsum.
 * Gradient:   yes, differentiable as often as one likes: each cotangent goes to the element that its result is.
 * @param indices  NULL where they are not asked for.
 * @return the values; STN_ERR_ARGUMENT (dim), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM: then both are the error
 * tensor. */
STN_API stn_tensor *stn_cummax(stn_tensor *input, int dim, stn_tensor **indices);

/** The smallest one. As stn_cummax. */
STN_API stn_tensor *stn_cummin(stn_tensor *input, int dim, stn_tensor **indices);

STN_END_DECLS
#endif
