/* The same elements under other shapes, in other places. */
#ifndef SHARDTENSOR_OPS_SHAPE_H
#define SHARDTENSOR_OPS_SHAPE_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** The same elements, in row-major order, under another shape.
 *
 * Shapes:     (d0, …) -> `shape`, of as many elements; one entry may be -1 and is inferred.
 * Placement:  data stays where it is wherever a cut of the new dims can describe it; else one exchange.
 * Collective: over the mesh where rows straddle.
 * Gradient:   yes, twice differentiable. The result may share memory: a view cannot be changed in place.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_ARGUMENT, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_view(stn_tensor *input, int ndim, const int64_t *shape);

/** Two dims change places.
 *
 * Shapes:     (…, di, …, dj, …) -> (…, dj, …, di, …). Any dtype.
 * Placement:  Shards, cuts and memory order follow their dims: no data moves.
 * Collective: no.
 * Gradient:   yes, twice differentiable. The result shares memory: it cannot be changed in place.
 * @param dim0, dim1  -ndim <= dim < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_transpose(stn_tensor *input, int dim0, int dim1);

/** A larger tensor on the same memory: dims of size 1 are repeated, new dims are added in front.
 *
 * Shapes:     (d0, …) -> `shape`, of at least as many dims, aligned at the last; -1 keeps a dim.
 * Placement:  Shards and Partial are kept; a Shard of a repeated dim becomes Replicate.
 * Collective: over the mesh where a repeated dim is sharded.
 * Gradient:   yes, twice differentiable: the cotangent, summed over repeated and new dims.
 * @return a view, which cannot be changed in place; STN_ERR_SHAPE, STN_ERR_ARGUMENT (ndim), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_expand(stn_tensor *input, int ndim, const int64_t *shape);

/** Dims in another order: output dim d is input dim dims[d].
 *
 * Shapes:     (d0, …) -> the same sizes, reordered. Any dtype.
 * Placement:  Shards, cuts and memory order follow their dims: no data moves.
 * Collective: no.
 * Gradient:   yes, twice differentiable. The result shares memory: it cannot be changed in place.
 * @param dims  `ndim` distinct dims, -ndim <= dims[d] < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_permute(stn_tensor *input, int ndim, const int *dims);

/** Dims source[i] go to places destination[i]; the others keep their order. As stn_permute. */
STN_API stn_tensor *stn_movedim(stn_tensor *input, int n, const int *source, const int *destination);

/** Every step-th element from `start` up to but not `end` along a dim, as Python's slices: negative places count from the end, what is
 *  outside is cut off.
 *
 * Shapes:     (…, n, …) -> (…, m, …), m = ceil((end - start) / step), at least 0. Any dtype.
 * Placement:  kept, pending reductions too. Along a sharded dim each rank keeps what it has: no data moves, and the cut is explicit.
 * Collective: no.
 * Gradient:   yes, twice differentiable: the cotangent among zeros. The result shares memory: it cannot be changed in place.
 * @param end   INT64_MAX: to the last.
 * @param step  at least 1.
 * @return new tensor; STN_ERR_ARGUMENT (dim, step), STN_ERR_SHAPE (no dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_slice(stn_tensor *input, int dim, int64_t start, int64_t end, int64_t step);

/** Tensors one after the other along a dim.
 *
 * Shapes:     (…, n0, …), (…, n1, …), … -> (…, n0 + n1 + …, …); other sizes are equal. Tensors of shape (0) are passed over. Dtypes are
 *             promoted.
 * Placement:  per axis as pointwise: Shard beats Replicate, among Shards the largest tensor's. The cut along `dim`: balanced from balanced,
 *             else in proportion to the largest tensor's. What all have pending stays pending; else it is reduced first.
 * Collective: over the mesh where a tensor has to move; where `dim` is sharded, one exchange. No data moves where it is not.
 * Gradient:   yes, twice differentiable: slices of the cotangent.
 * @param n  1 to STN_MAX_INPUTS.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_ARGUMENT (n, dim), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_cat(int n, stn_tensor *const *tensors, int dim);

STN_END_DECLS
#endif
