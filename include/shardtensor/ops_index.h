/* Lookup: elements chosen by index. */
#ifndef SHARDTENSOR_OPS_INDEX_H
#define SHARDTENSOR_OPS_INDEX_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** Rows of a table: y[i…, :] = weight[input[i…], :].
 *
 * Shapes:     input (i0, …) of i64 or i32, weight (v, d) -> (i0, …, d).
 * Placement:  input's Shards stay; d sharded stays sharded; where one axis has both, the smaller operand is gathered. v
 *             sharded: indices are routed to the owners of their rows, and the rows come back, one exchange each way;
 *             where input is Replicate each rank reads what it has and the result is Partial(sum). Partial(sum) of
 *             weight is kept where input is Replicate.
 * Collective: over the mesh where v is sharded; the host then waits once, since the amount of data depends on values.
 * Gradient:   of weight: rows of the cotangent added up by index, except at `padding_index`. Twice differentiable.
 * @param padding_index  NULL: none; else -v <= *padding_index < v. By name also: `max_norm` with `norm_type` (rows that
 *        are read and longer are scaled down in the table, in place) and `scale_grad_by_freq` (a row's gradient is
 *        divided by how often it is read).
 * @return new tensor; an index outside 0 … v-1 reads 0 and is STN_ERR_VALUE at the next agreement (stn_agree). */
STN_API stn_tensor *stn_embedding(stn_tensor *input, stn_tensor *weight, const int64_t *padding_index);

/* In all ops below `index` is of i64 or i32. One that is out of range is found when the op runs: it reads 0 or writes
 * nothing, and is STN_ERR_VALUE at the next agreement (stn_agree). Negative ones are out of range but where it is said
 * otherwise.
 *
 * Collective: over the mesh where `dim` is sharded and the index too: the indices go to the owners of what they name,
 *             and values come back or go with them, three exchanges in all; the host then waits once, since the amount
 *             of data depends on values. Elsewhere nothing is exchanged. An index that is used again may keep what was
 *             found out (stn_tensor_keep_routes): then values alone are exchanged, and no host waits. */

/** Has an index keep its routes, or no longer: which rank asks which other one for what, and where it belongs. An
 *  access by the same index to a table that is cut alike then sorts nothing, exchanges values alone (1 exchange in
 *  place of 3) and waits for nothing. It gives the same bits. For indices that are used many times and seldom change:
 *  edges of a graph or a mesh, pairs of particles.
 *
 * Shapes:     index of i64 or i32, any shape and layout. Where it is not sharded by an axis that shards the dim which
 *             it stands for, nothing is routed, and nothing is kept.
 * Kept:       by the tensor, and by what stn_detach, a pullback and a backward have of it; not by other views, nor
 *             where an op redistributes the index first, nor for stn_index_put by several indices. The 4 routes that
 *             were used last: of ops that name slices one for each way in which `dim` of a table is cut, whatever its
 *             dtype and its other dims are; of ops that name elements (stn_gather, stn_scatter_from …) one for each
 *             `dim` and each way in which any dim is. Gradients use that of their op. They go with the last such
 *             tensor, when keeping ends, and at the next use after the index was changed (stn_tensor_version).
 * Memory:     of a route, on each rank: 8 bytes for each local index, 8 for each row that others ask this rank for,
 *             counted as tensors' elements are (stn_context_stats); 48 for each rank, of the host.
 * Collective: no, nothing is sent; every rank of the mesh calls it at the same place. Who changes such an index through
 *             its memory calls stn_tensor_changed on every rank, whether or not that one's chunk was changed: ranks
 *             that have different routes meet in different exchanges, which is STN_ERR_MISMATCH where it is found.
 * Captured:   an access by a route that was kept before stn_capture_begin may be a part of a captured step, where the
 *             index is frozen (stn_tensor_freeze), since repetitions do not look whether it was changed.
 * Gradient:   none of its own; ops have theirs as without.
 * @param keep  0: no longer, for all tensors that share the routes. Calls may be repeated.
 * @return STN_ERR_ARGUMENT (NULL), STN_ERR_DTYPE (neither i64 nor i32), STN_ERR_STATE (an error tensor),
 *         STN_ERR_MEMORY, or the kept error. An index out of range is found by each access, as without.
 * Source: PETSc's scatters (Balay et al. 1997) and star forests (Zhang et al. 2022). */
STN_API stn_status stn_tensor_keep_routes(stn_tensor *index, int keep);

/** 1 if the index keeps its routes; 0 for NULL and an error tensor. Local. */
STN_API int stn_tensor_keeps_routes(const stn_tensor *index);

/** Elements by index along `dim`: y[p] = input[p with p[dim] replaced by index[p]].
 *
 * Shapes:     input and index have the same number of dims, index is no longer in any dim but `dim` -> index's shape.
 * Placement:  dims of the input other than `dim` stay sharded, the index like them; where the input is whole, the index
 *             stays sharded. `dim` sharded: under a Replicate index each rank reads what it has and the result is
 *             Partial(sum), else indices are routed. Partial(sum) of the input is kept under a Replicate index.
 * Gradient:   of input: the cotangent added up by index. Twice differentiable.
 * @return new tensor; STN_ERR_ARGUMENT, STN_ERR_SHAPE, STN_ERR_DTYPE. */
STN_API stn_tensor *stn_gather(stn_tensor *input, int dim, stn_tensor *index);

/** Slices by index along `dim`: y[…, k, …] = input[…, index[k], …]. By name with `wrap` negative indices count from the
 *  end.
 *
 * Shapes:     index (k) or () -> input's with k for `dim`.
 * Placement, gradient, errors: as stn_gather's; whole slices are routed, each distinct one once. */
STN_API stn_tensor *stn_index_select(stn_tensor *input, int dim, stn_tensor *index);

/** stn_gather of tensors that are first repeated to a common shape in all dims but *dim; `dim` NULL: both are taken
 *  flat. Negative indices count from the end. */
STN_API stn_tensor *stn_take_along_dim(stn_tensor *input, stn_tensor *indices, const int *dim);

/** The input with elements replaced: y[p with p[dim] replaced by index[p]] = src[p]; of several that name one element
 *  the last one, in row-major order, wins.
 *
 * Shapes:     input, index, src with the same number of dims; index is no longer than src, nor than input but in `dim`
 *             -> input's.
 * Placement:  the input stays sharded, index and src like it. `dim` sharded: under a Replicate index and src each rank
 *             writes what it owns, else both are routed. An input that is whole gets the Shards of src, `dim` among
 *             them. Kept Partial(sum) where both are.
 * Gradient:   of input: 0 where an index points; of src: the cotangent by index, for each of several that name one
 *             element. Twice differentiable.
 * @return new tensor; STN_ERR_ARGUMENT, STN_ERR_SHAPE, STN_ERR_DTYPE (src's is not input's). */
STN_API stn_tensor *stn_scatter_from(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *src);

/** The same with one number for all of src, which input's dtype has (stn_full). */
STN_API stn_tensor *stn_scatter_number(stn_tensor *input, int dim, stn_tensor *index, double value);

/** As stn_scatter_from, but src is added: in row-major order on a rank, then in the order of ranks. 16-bit floats are
 * added in f32.
 *
 * Placement:  as stn_scatter_from's; an input that is whole beside a src that is sharded along `dim` gives
 *             Partial(sum), and nothing is exchanged.
 * Gradient:   of input: the cotangent; of src: it by index. Twice differentiable. */
STN_API stn_tensor *stn_scatter_add(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *src);

typedef enum stn_scatter_reduction {
    STN_SCATTER_SUM,
    STN_SCATTER_PROD,
    STN_SCATTER_MEAN,
    STN_SCATTER_AMAX,
    STN_SCATTER_AMIN
} stn_scatter_reduction;

/** As stn_scatter_add with other ways to join what comes to one element; with `include_self` the element's own value is
 *  one of those, without it counts only where nothing comes. NaN wins over numbers.
 *
 * Gradient:   of input and src: of products the product of the others; of amax and amin evenly among those that equal
 *             the result. Twice differentiable but where factors are 0. */
STN_API stn_tensor *stn_scatter_reduce(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *src,
                                       stn_scatter_reduction reduce, int include_self);

/** Adds slices: y = input, but y[…, index[k], …] += alpha source[…, k, …].
 *
 * Shapes:     index (k) or (), source input's with k for `dim` -> input's.
 * Placement, gradient, errors: as stn_scatter_add's. */
STN_API stn_tensor *stn_index_add(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *source, double alpha);

/** Replaces slices: y[…, index[k], …] = source[…, k, …]; the last of several wins. Otherwise as stn_scatter_from. */
STN_API stn_tensor *stn_index_copy(stn_tensor *input, int dim, stn_tensor *index, stn_tensor *source);

/** Replaces slices by a number; by name, or by a tensor without dims, which then gets a gradient: that of the
 *  elements filled, each once, however often the index names it. Negative indices count from the end.
 *  Otherwise as stn_scatter_number. */
STN_API stn_tensor *stn_index_fill(stn_tensor *input, int dim, stn_tensor *index, double value);

/** Elements, or slices, that several indices name: y[p, …] = input[indices[0][p], indices[1][p], …, …]; the indices
 * stand for the first n dims, and negative ones count from the end. A bool tensor among them, a mask, stands for as
 * many dims as it has, and names what is true in it, in row-major order (stn_nonzero).
 *
 * Shapes:     indices of i64 or i32 broadcast to one shape; a mask is a line of them -> that shape and the input's
 *             other dims. A mask alone: (how many it names, …).
 * Placement:  as stn_index_select's; of several dims with an index, the first stays sharded, else one exchange. A mask
 *             alone: rows that are named stay where they are, so that the result's cuts are as uneven as the mask has
 *             them. Where no axis cuts the dims of the mask the result is cut as the mask is. Partial is reduced.
 * Collective: as stn_index_select. With a mask: over the mesh where its dims are cut, one all-gather of a number from
 *             each rank, and the host waits: how many it names depends on data. Refused while a step is captured.
 *             Outside the mesh nobody knows, and one row counts, which no rank there has.
 * Gradient:   of input: the cotangent added up by index. Twice differentiable.
 * @return new tensor; STN_ERR_ARGUMENT, STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_STATE (captured), STN_ERR_UNSUPPORTED (a
 *  mask without dims beside others). (PyTorch: input[indices].) */
STN_API stn_tensor *stn_index(stn_tensor *input, int n, stn_tensor *const *indices);

/** Elements, or slices, replaced by values, or with `accumulate` added to: y[indices[0][p], indices[1][p], …] =
 *  values[p]; the indices stand for the first n dims. Negative ones count from the end; the last of several that name
 *  one element wins.
 *
 * Shapes:     indices broadcast to one shape, masks among them as of stn_index; values to that and the input's other
 *             dims -> input's.
 * Placement:  other dims stay sharded. Of several dims with an index, the first stays sharded, else one exchange each
 *             way; then as stn_index_copy, stn_index_add. A mask alone: as stn_index, values go where the rows are.
 * Collective: as stn_index_copy; with a mask, but for one alone whose elements all get the same values, as stn_index.
 * Gradient:   of input and values. Twice differentiable.
 * @return new tensor; as stn_index. */
STN_API stn_tensor *stn_index_put(stn_tensor *input, int n, stn_tensor *const *indices, stn_tensor *values,
                                  int accumulate);

/** The elements that a mask names, in row-major order, as one dim.
 *
 * Shapes:     input and mask, of bool, broadcast to one shape -> (how many are true).
 * Placement:  elements stay where they are, so that the result's cuts are as uneven as the mask has them; a tensor that
 *             is cut in other dims than the first is flattened first (stn_flatten). Where input is whole the result is
 *             cut as the mask is. Partial is reduced.
 * Collective: over the mesh where one is cut: one all-gather of a number from each rank, and the host waits. Refused
 *             while a step is captured. Outside the mesh nobody knows, and one element counts, which no rank there has;
 *             a failure that hangs on elements is not known there before the next agreement.
 * Gradient:   of input, twice differentiable.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE (mask), STN_ERR_STATE (captured), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_masked_select(stn_tensor *input, stn_tensor *mask);

/** The input with the elements that a mask names replaced by the first elements of `source`, in row-major order.
 *
 * Shapes:     input and mask broadcast to one shape, the result's; source has as many elements as are true, or more.
 * Placement:  as stn_masked_select; elements of source go to the ranks that have those which they replace.
 * Gradient:   of input and source, twice differentiable.
 * @return new tensor; as stn_masked_select; STN_ERR_VALUE (source has too few). */
STN_API stn_tensor *stn_masked_scatter(stn_tensor *input, stn_tensor *mask, stn_tensor *source);

/** Where elements are not 0: their coordinates, in row-major order.
 *
 * Shapes:     (d0, …) of any dtype -> (how many, dims), i64.
 * Placement, collective, errors: as stn_masked_select's. Gradient: none. */
STN_API stn_tensor *stn_nonzero(stn_tensor *input);

/** The different elements of a tensor, in ascending order. Each NaN is one of its own.
 *
 * Shapes:     any -> (how many there are); of input's dtype, which is not complex.
 * Placement:  that of the flat tensor where it is sorted (stn_sort): the first of each run of equal elements stays.
 * Collective: as stn_sort and stn_masked_select.
 * Gradient:   none of inverse and counts; of values that of the elements that were taken, the first of each run.
 * @param inverse  which of the values each element of the input is: input's shape, i64. May be NULL.
 * @param counts   how often each is there, i64. May be NULL.
 * @return values; STN_ERR_DTYPE, and as stn_masked_select. */
STN_API stn_tensor *stn_unique(stn_tensor *input, stn_tensor **inverse, stn_tensor **counts);

/** The first of each run of equal elements, in row-major order. As stn_unique, but nothing is sorted. */
STN_API stn_tensor *stn_unique_consecutive(stn_tensor *input, stn_tensor **inverse, stn_tensor **counts);

/** Every element along *dim `repeats` times, one after the other; `dim` NULL: the input is taken flat.
 *
 * Placement:  Shards stay, each rank repeats what it has.
 * Gradient:   yes, twice differentiable. */
STN_API stn_tensor *stn_repeat_interleave(stn_tensor *input, int64_t repeats, const int *dim);

/** The same with a number for each element, `repeats` (n) or (1) or () of i64 or i32, which add up to `output_size`:
 *  what else they add up to is STN_ERR_VALUE at the next agreement. `output_size` -1: the sum is read first, for which
 *  the host waits; refused while a step is captured.
 *
 * Placement:  `repeats` is gathered; the input's Shards stay, the split of the dim in proportion: what straddles is
 *             routed as by stn_index_select. */
STN_API stn_tensor *stn_repeat_interleave_each(stn_tensor *input, stn_tensor *repeats, const int *dim,
                                               int64_t output_size);

/** Zeros, and a one where input[i…] says along a new last dim: (i0, …) -> (i0, …, num_classes) of i64, sharded as the
 * input.
 *
 * Gradient:   none.
 * @param num_classes  at least 1; -1: one more than the largest index, which is read first: collective over the mesh,
 *  the host waits, and refused while a step is captured. */
STN_API stn_tensor *stn_one_hot(stn_tensor *input, int64_t num_classes);

/** The elements whose positions along dim2 and dim1 differ by `offset`: y[…, k] = input[…, k + max(-offset, 0), …, k +
 * max(offset, 0), …].
 *
 * Shapes:     dim1 and dim2 leave, the diagonal is the last dim.
 * Placement:  a view: what a rank has stays, sharded as dim1 or dim2 is. Where both are, dim2's axes shard dim1 first:
 *             one exchange. Partial is kept.
 * Gradient:   yes, twice differentiable. */
STN_API stn_tensor *stn_diagonal(stn_tensor *input, int64_t offset, int dim1, int dim2);

STN_END_DECLS
#endif
