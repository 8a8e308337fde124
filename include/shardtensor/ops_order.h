/* Elements in order: the greatest and the least, sorting, searching. NaN is the greatest number. */
#ifndef SHARDTENSOR_OPS_ORDER_H
#define SHARDTENSOR_OPS_ORDER_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** The greatest element of all; NaN wins.
 *
 * Shapes:     any with at least one element -> (), of input's dtype, which is not complex.
 * Placement:  Partial(max) where input is sharded; Partial(max) is kept, other pending reductions are done first.
 * Collective: over the mesh where Partial is reduced.
 * Gradient:   yes: the cotangent, in equal parts, to the elements that are the result.
 * @return new tensor; STN_ERR_SHAPE (no elements), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_max(stn_tensor *input);

/** The least one; NaN wins. As stn_max, with Partial(min). */
STN_API stn_tensor *stn_min(stn_tensor *input);

/** The greatest element along a dim, and where it is: the first among equals, the first NaN where there is one. By
 * name: max with `dim`.
 *
 * Shapes:     (…, n, …) -> (…, …), or (…, 1, …) with `keepdim`; values of input's dtype, indices i64. n > 0.
 * Placement:  Shards of other dims are kept. Where the dim is sharded, results are Replicate: one all-gather of an
 *             element and its index per result and rank. Partial is reduced first.
 * Collective: over the mesh where the dim is sharded, or input is Partial.
 * Gradient:   yes, twice differentiable: the cotangent at the elements' places.
 * @param indices  the second result; may be NULL.
 * @return values; STN_ERR_ARGUMENT (dim), STN_ERR_SHAPE (n = 0), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_max_dim(stn_tensor *input, int dim, int keepdim, stn_tensor **indices);

/** The least one; NaN wins here too. As stn_max_dim. */
STN_API stn_tensor *stn_min_dim(stn_tensor *input, int dim, int keepdim, stn_tensor **indices);

/** Where the greatest element along a dim is. As the indices of stn_max_dim; no gradient.
 *  @param dim  NULL: among all elements, counted row-major; the result is 0-d, or with `keepdim` of as many dims as
 *              input. */
STN_API stn_tensor *stn_argmax(stn_tensor *input, const int *dim, int keepdim);

/** Where the least one is. As stn_argmax. */
STN_API stn_tensor *stn_argmin(stn_tensor *input, const int *dim, int keepdim);

/** A dim in ascending order, or `descending`, and where each element was. The sort is stable (by name: `stable` changes
 * nothing).
 *
 * Shapes:     any -> the same, twice: values of input's dtype, which is not complex, and indices along the dim, i64.
 * Placement:  input's. Where the dim is sharded, its axes shard the longest other dim meanwhile: one exchange there,
 *             and one back for each result. Where no other dim is long enough, ranks sort the line together: sums of
 *             256 counts per digit and rank, and one exchange for each result. Partial is reduced first.
 * Collective: over the mesh where the dim is sharded, or input is Partial. The host then waits once where ranks sort
 *             together.
 * Gradient:   yes, twice differentiable: the cotangent at the elements' places.
 * @param indices  the second result; NULL: not wanted, and not brought back from another dim.
 * @return values; STN_ERR_ARGUMENT (dim), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: splitting at exact places, Varman, Scheufler, Iyer and Ricard 1991. */
STN_API stn_tensor *stn_sort(stn_tensor *input, int dim, int descending, stn_tensor **indices);

/** The indices of stn_sort. No gradient. */
STN_API stn_tensor *stn_argsort(stn_tensor *input, int dim, int descending);

/** The k greatest elements along a dim, or where `largest` is 0 the least, in order, and where they are; of equals
 * those that come first.
 *
 * Shapes:     (…, n, …) -> (…, k, …), twice: values of input's dtype, which is not complex, and indices, i64.
 * Placement:  Shards of other dims are kept. Where the dim is sharded, ranks gather k candidates each, and results are
 *             Replicate; where these would be more than the elements themselves, the dim is sorted as by stn_sort, and
 *             its axes shard the longest other dim, or where none is long enough the results' own. Partial is reduced
 *             first.
 * Collective: over the mesh where the dim is sharded, or input is Partial.
 * Gradient:   yes, twice differentiable: the cotangent at the elements' places.
 * @param indices  the second result; may be NULL.
 * @return values; STN_ERR_ARGUMENT (dim, k), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_topk(stn_tensor *input, int64_t k, int dim, int largest, stn_tensor **indices);

/** The k-th smallest element along a dim, k = 1 for the least, and where it is; among equals the one that a stable sort
 * puts there.
 *
 * Shapes:     (…, n, …) -> (…, …), or (…, 1, …) with `keepdim`, twice: values of input's dtype, which is not complex,
 *             and indices, i64. n > 0.
 * Placement:  where the dim is sharded, its axes shard the longest other dim instead, after one exchange. Where no
 *             other dim is long enough, ranks choose by counting, a sum of 256 numbers per digit and line; the result
 *             is Replicate. Partial is reduced first.
 * Collective: over the mesh where the dim is sharded, or input is Partial.
 * Gradient:   yes, twice differentiable: the cotangent at the element's place.
 * @param indices  the second result; may be NULL.
 * @return values; STN_ERR_ARGUMENT (dim, k), STN_ERR_SHAPE (n = 0), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_kthvalue(stn_tensor *input, int64_t k, int dim, int keepdim, stn_tensor **indices);

/** The median of all elements: the lower one of two; NaN where there is one, and of no floating elements. By counting
 *  over all ranks; Replicate.
 *  Gradient: the cotangent, in equal parts, to the elements that equal it. Else as stn_kthvalue. */
STN_API stn_tensor *stn_median(stn_tensor *input);

/** The lower median along a dim, and where it is; the first NaN where there is one. As stn_kthvalue. By name: median
 *  with `dim`. */
STN_API stn_tensor *stn_median_dim(stn_tensor *input, int dim, int keepdim, stn_tensor **indices);

/** What the quantile is where its place is between two elements. */
typedef enum stn_quantile_interpolation {
    STN_QUANTILE_LINEAR, /* by how far the place is from each */
    STN_QUANTILE_LOWER,
    STN_QUANTILE_HIGHER,
    STN_QUANTILE_MIDPOINT, /* half of the way */
    STN_QUANTILE_NEAREST   /* of two as near the one with the even place */
} stn_quantile_interpolation;

/** The element at place q (n - 1), from 0, of all n elements in order, or what is between its two neighbours.
 *
 * Shapes:     any shape with an element -> (); a floating dtype. NaN where one of the elements is. The place is
 *             computed in f64 of f64, else in f32. Between two infinities of one sign, and at one, linear and midpoint
 *             give NaN, as PyTorch does.
 * Placement, Collective, Gradient: as stn_kthvalue of the tensor as one line, twice where two elements count; the
 *             cotangent goes to these, by their weights.
 * @param q  0 to 1.
 * @return STN_ERR_ARGUMENT (q, interpolation), STN_ERR_SHAPE (no elements), STN_ERR_DTYPE, STN_ERR_MEMORY,
 *  STN_ERR_COMM. */
STN_API stn_tensor *stn_quantile(stn_tensor *input, double q, stn_quantile_interpolation interpolation);

/** The same of each line along a dim. By name: quantile with `dim`, and an interpolation "linear", "lower", "higher",
 *  "midpoint" or "nearest". */
STN_API stn_tensor *stn_quantile_dim(stn_tensor *input, double q, int dim, int keepdim,
                                     stn_quantile_interpolation interpolation);

/** Places of values in a sequence that is in ascending order along its last dim: how many of its elements come before
 *  each value; with `right`, before it or equal to it.
 *
 * Shapes:     sequence (n) and input (…), or sequence (…, n) and input (…, m) -> input's, i64 (by name: i32 with
 *             `out_int32`). By name, input may be a number beside a sequence of one dim, and `side` "left" or "right".
 *             Dtypes are promoted.
 * Placement:  input's. A sequence whose last dim is sharded gives Partial(sum): each rank counts its own elements;
 *             where the same axis shards both, the smaller of the two is gathered. Partial is reduced first.
 * Collective: over the mesh where an operand has to move.
 * Gradient:   none.
 * @param sorter  NULL, or indices that put the sequence in ascending order, of which one out of range reads 0 and is
 *                STN_ERR_VALUE at the next agreement; where its last dim is sharded, the sequence is sorted instead.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (input absent; side and right differ),
 * STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_searchsorted(stn_tensor *sorted_sequence, stn_tensor *input, int right, stn_tensor *sorter);

/** The bins, between ascending `boundaries` of one dim, into which values fall: stn_searchsorted with the operands in
 *  another order. */
STN_API stn_tensor *stn_bucketize(stn_tensor *input, stn_tensor *boundaries, int right);

/** How many elements fall into each of `bins` bins of equal width from `min` to `max`, both included; those outside and
 *  NaN are not counted. Where min equals max, bins go from the least element to the greatest, or where these are equal
 *  from 1 below to 1 above.
 *
 * Shapes:     any -> (bins), of input's dtype: floating, i64 or i32. Counts are exact up to 2^24 of f32, and are
 *             rounded once above 2048 of f16 (infinite from 65,520 on) and 256 of bf16: cast to f32 where more fall
 *             into a bin. Integers of fewer bits are refused.
 * Placement:  Partial(sum) where input is sharded; of bf16 and f16 Replicate, so that counts are rounded once.
 *             Partial is reduced first.
 * Collective: over the mesh where input is Partial; where it is sharded and min equals max, or its dtype is one of
 *             those two.
 * Gradient:   none.
 * @return new tensor; elements without finite range are STN_ERR_VALUE at the next agreement. STN_ERR_ARGUMENT (bins,
 *         min, max), STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_histc(stn_tensor *input, int64_t bins, double min, double max);

STN_END_DECLS
#endif
