/* The same elements under other shapes, in other places. */
#ifndef SHARDTENSOR_OPS_SHAPE_H
#define SHARDTENSOR_OPS_SHAPE_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** The same elements, in row-major order, under another shape.
 *
 * Shapes:     (d0, …) -> `shape`, of as many elements; one entry may be -1 and is inferred.
 * Placement:  data stays where it is wherever a split of the new dims can describe it; else one exchange.
 * Collective: over the mesh where rows straddle.
 * Gradient:   yes, twice differentiable. A view apart (ops_in_place.h) unless dims of size 1 alone come and go.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_ARGUMENT, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_view(stn_tensor *input, int ndim, const int64_t *shape);

/** Two dims change places.
 *
 * Shapes:     (…, di, …, dj, …) -> (…, dj, …, di, …). Any dtype.
 * Placement:  Shards, splits and memory order follow their dims: no data moves.
 * Collective: no.
 * Gradient:   yes, twice differentiable. The result is a view that shares memory (ops_in_place.h).
 * @param dim0, dim1  -ndim <= dim < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_transpose(stn_tensor *input, int dim0, int dim1);

/** A larger tensor on the same memory: dims of size 1 are repeated, new dims are added in front.
 *
 * Shapes:     (d0, …) -> `shape`, of at least as many dims, aligned at the last; -1 keeps a dim.
 * Placement:  Shards and Partial are kept; a Shard of a repeated dim becomes Replicate.
 * Collective: over the mesh where a repeated dim is sharded.
 * Gradient:   yes, twice differentiable: the cotangent, summed over repeated and new dims.
 * @return a view apart (ops_in_place.h); STN_ERR_SHAPE, STN_ERR_ARGUMENT (ndim), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_expand(stn_tensor *input, int ndim, const int64_t *shape);

/** Dims in another order: output dim d is input dim dims[d].
 *
 * Shapes:     (d0, …) -> the same sizes, reordered. Any dtype.
 * Placement:  Shards, splits and memory order follow their dims: no data moves.
 * Collective: no.
 * Gradient:   yes, twice differentiable. The result is a view that shares memory (ops_in_place.h).
 * @param dims  `ndim` distinct dims, -ndim <= dims[d] < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_permute(stn_tensor *input, int ndim, const int *dims);

/** Dims source[i] go to places destination[i]; the others keep their order. As stn_permute. */
STN_API stn_tensor *stn_movedim(stn_tensor *input, int n, const int *source, const int *destination);

/** Every step-th element from `start` up to but not `end` along a dim, as Python's slices: negative places count from
 *  the end, what is outside is dropped.
 *
 * Shapes:     (…, n, …) -> (…, m, …), m = ceil((end - start) / step), at least 0. Any dtype.
 * Placement:  kept, pending reductions too. Along a sharded dim each rank keeps what it has: no data moves, and the
 *             split is explicit.
 * Collective: no.
 * Gradient:   yes, twice differentiable: the cotangent among zeros. The result is a view that shares memory
 *             (ops_in_place.h).
 * @param end   INT64_MAX: to the last.
 * @param step  at least 1.
 * @return new tensor; STN_ERR_ARGUMENT (dim, step), STN_ERR_SHAPE (no dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_slice(stn_tensor *input, int dim, int64_t start, int64_t end, int64_t step);

/** Tensors one after the other along a dim.
 *
 * Shapes:     (…, n0, …), (…, n1, …), … -> (…, n0 + n1 + …, …); other sizes are equal. Tensors of shape (0) are passed
 *             over. Dtypes are promoted.
 * Placement:  per axis as pointwise: Shard beats Replicate, among Shards the largest tensor's. The split along `dim`:
 *             balanced where the largest tensor's is, else each rank's share is in proportion to what it has of all
 *             tensors that are cut along `dim`. What all have pending stays pending; else it is reduced first.
 * Collective: over the mesh where a tensor has to move; where `dim` is sharded, one exchange. No data moves where it is
 *             not.
 * Gradient:   yes, twice differentiable: slices of the cotangent.
 * @param n  1 to STN_MAX_INPUTS.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_ARGUMENT (n, dim), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_cat(int n, stn_tensor *const *tensors, int dim);

/* Made of the ops above: placements, gradients and collectivity are theirs. */

/** Elements start … start + length - 1 of a dim; a negative start counts from the end.
 *  @return as stn_slice; STN_ERR_ARGUMENT where they are not all there. */
STN_API stn_tensor *stn_narrow(stn_tensor *input, int dim, int64_t start, int64_t length);

/** Element `index` of a dim, without the dim. A view that shares memory; but where the dim is the last one and
 *  sharded, one rank has all that is chosen, which goes to the ranks along the dim before, or to all of them where
 *  there is none, and is a view apart (ops_in_place.h).
 *  @return new tensor; STN_ERR_ARGUMENT (dim, index). */
STN_API stn_tensor *stn_select(stn_tensor *input, int dim, int64_t index);

/** Every element of a dim, without the dim, as stn_select gives it: as many outputs, at most STN_MAX_OUTPUTS. Outputs
 *  that are not there become NULL.
 *  @return the context's status. */
STN_API stn_status stn_unbind(stn_tensor *input, int dim, int n_outputs, stn_tensor **outputs);

/** Parts of `size` elements along a dim; the last one has what is left. As stn_unbind. By name, `split_sizes` may list
 *  the sizes. */
STN_API stn_status stn_split(stn_tensor *input, int dim, int64_t size, int n_outputs, stn_tensor **outputs);

/** Up to `chunks` parts of equal size along a dim; the last one may have fewer elements. As stn_unbind. */
STN_API stn_status stn_chunk(stn_tensor *input, int dim, int64_t chunks, int n_outputs, stn_tensor **outputs);

/** stn_view, which makes a copy where it has to: both names are known. */
STN_API stn_tensor *stn_reshape(stn_tensor *input, int ndim, const int64_t *shape);

/** Without dims of size 1: those among the `n` named ones, of all dims where n is 0. */
STN_API stn_tensor *stn_squeeze(stn_tensor *input, int n, const int *dims);

/** With a new dim of size 1 at `dim`, -ndim - 1 <= dim <= ndim. */
STN_API stn_tensor *stn_unsqueeze(stn_tensor *input, int dim);

/** Dims start_dim … end_dim as one. */
STN_API stn_tensor *stn_flatten(stn_tensor *input, int start_dim, int end_dim);

/** One dim as several; one of the sizes may be -1 and is inferred. */
STN_API stn_tensor *stn_unflatten(stn_tensor *input, int dim, int n, const int64_t *sizes);

/** Tensors of one shape along a new dim. @return new tensor; STN_ERR_SHAPE, else as stn_cat. */
STN_API stn_tensor *stn_stack(int n, stn_tensor *const *tensors, int dim);

/** The tensor repeats[d] times along each dim d, a copy; more entries than dims are new dims in front. A dim that is
 *  sharded and repeated is laid out anew. Without a copy: stn_expand. */
STN_API stn_tensor *stn_repeat(stn_tensor *input, int n, const int64_t *repeats);

/** Differences of neighbours along a dim, `n` times. `prepend` and `append` (NULL: none) go before and behind the input
 *  first. Where the dim is sharded, a rank gets one row from the next. */
STN_API stn_tensor *stn_diff(stn_tensor *input, int64_t n, int dim, stn_tensor *prepend, stn_tensor *append);

/** (…, c r r, h, w) -> (…, c, h r, w r): channels become pixels. */
STN_API stn_tensor *stn_pixel_shuffle(stn_tensor *input, int64_t upscale_factor);

/** (…, c, h r, w r) -> (…, c r r, h, w): its inverse. */
STN_API stn_tensor *stn_pixel_unshuffle(stn_tensor *input, int64_t downscale_factor);

/** The lower triangle of the last two dims: element (i, j) where j - i <= diagonal, else 0.
 *
 * Shapes:     (…, m, n) -> same shape and dtype, any.
 * Placement:  kept, pending reductions too.
 * Collective: no.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_SHAPE (fewer than two dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_tril(stn_tensor *input, int64_t diagonal);

/** The upper triangle: j - i >= diagonal. As stn_tril. */
STN_API stn_tensor *stn_triu(stn_tensor *input, int64_t diagonal);

STN_END_DECLS
#endif
