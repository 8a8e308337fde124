/* Elements in order: the greatest and the least, sorting, searching. NaN is the greatest number. */
#ifndef SHARDTENSOR_OPS_ORDER_H
#define SHARDTENSOR_OPS_ORDER_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** The greatest element of all; NaN wins.
 *
 * Shapes:     any with at least one element -> (), of input's dtype, which is not complex.
 * Placement:  Partial(max) where input is cut; Partial(max) is kept, other pending reductions are done first.
 * Collective: over the mesh where Partial is reduced.
 * Gradient:   yes: the cotangent, in equal parts, to the elements that are the result.
 * @return new tensor; STN_ERR_SHAPE (no elements), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_max(stn_tensor *input);

/** The least one; NaN wins. As stn_max, with Partial(min). */
STN_API stn_tensor *stn_min(stn_tensor *input);

/** The greatest element along a dim, and where it is: the first among equals, the first NaN where there is one. By name: max with `dim`.
 *
 * Shapes:     (…, n, …) -> (…, …), or (…, 1, …) with `keepdim`; values of input's dtype, indices i64. n > 0.
 * Placement:  Shards of other dims are kept. Where the dim is cut, results are Replicate: one all-gather of an element and its index per
 *             result and rank. Partial is reduced first.
 * Collective: over the mesh where the dim is cut, or input is Partial.
 * Gradient:   yes, twice differentiable: the cotangent at the elements' places.
 * @param indices  the second result; may be NULL.
 * @return values; STN_ERR_ARGUMENT (dim), STN_ERR_SHAPE (n = 0), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_max_dim(stn_tensor *input, int dim, int keepdim, stn_tensor **indices);

/** The least one; NaN wins here too. As stn_max_dim. */
STN_API stn_tensor *stn_min_dim(stn_tensor *input, int dim, int keepdim, stn_tensor **indices);

/** Where the greatest element along a dim is. As the indices of stn_max_dim; no gradient.
 *  @param dim  NULL: among all elements, counted row-major; the result is 0-d, or with `keepdim` of as many dims as input. */
STN_API stn_tensor *stn_argmax(stn_tensor *input, const int *dim, int keepdim);

/** Where the least one is. As stn_argmax. */
STN_API stn_tensor *stn_argmin(stn_tensor *input, const int *dim, int keepdim);

STN_END_DECLS
#endif
