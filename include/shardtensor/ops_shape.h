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

STN_END_DECLS
#endif
