/* Operations. Each gives on every layout what one process would have given, forward and backward.
 *
 * All: inputs are borrowed; the result is a new handle that the scope owns (the caller, outside a scope). A failure is kept by the
 * context, and the result is its error tensor. Inputs of one call share a context and a mesh; a local tensor goes with local ones.
 * "Partial is reduced first" means inside the call: one exchange where the result stays cut, two where every rank gets it. */
#ifndef SHARDTENSOR_OPS_H
#define SHARDTENSOR_OPS_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/* Elementwise arithmetic. Shapes broadcast as PyTorch's do; dtypes are promoted. */

/** input + other.
 *
 * Shapes:     broadcast (d0, …), (e0, …) -> the common shape. Dtype: promoted.
 * Placement:  Shard beats Replicate, among Shards the largest operand's; the cut of the largest operand that is sharded there.
 *             Partial(sum) is kept on axes where both are Partial(sum), else reduced first.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable: each input's is the cotangent, summed over the dims it was broadcast along.
 * @return new tensor; STN_ERR_SHAPE (do not broadcast), STN_ERR_ARGUMENT (meshes differ), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: numpy's broadcasting rules. */
STN_API stn_tensor *stn_add(stn_tensor *input, stn_tensor *other);

/** input + alpha * other. As stn_add. */
STN_API stn_tensor *stn_add_scaled(stn_tensor *input, stn_tensor *other, double alpha);

/** input + other, for a number. As stn_add; Partial is reduced first. A whole number leaves integers integers. */
STN_API stn_tensor *stn_add_number(stn_tensor *input, double other);

/** input += alpha * other, in place; `other` broadcasts to input's shape, input keeps its spec and dtype (beside a Partial(sum) input,
 *  `other` becomes pending too, which moves nothing).
 *  @return `input` itself, no reference added; STN_ERR_STATE (a leaf that requires grad while grad mode is on; a view, or viewed). */
STN_API stn_tensor *stn_add_(stn_tensor *input, stn_tensor *other, double alpha);

/** input * other. As stn_add, but Partial(sum) is kept where exactly one is Partial and the other Replicate.
 *  Gradient: yes, twice differentiable: the cotangent times the other (conjugated if complex). */
STN_API stn_tensor *stn_mul(stn_tensor *input, stn_tensor *other);

/** input * other, for a number; Partial(sum) is kept. */
STN_API stn_tensor *stn_mul_number(stn_tensor *input, double other);

/** input *= other, in place. As stn_add_. */
STN_API stn_tensor *stn_mul_(stn_tensor *input, stn_tensor *other);

/** input *= other, in place, for a number. As stn_add_. */
STN_API stn_tensor *stn_mul_number_(stn_tensor *input, double other);

/** The complex conjugate; the input's values where it is not complex. Keeps Partial(sum). Gradient: yes. */
STN_API stn_tensor *stn_conj(stn_tensor *input);

/** The same values in another dtype; from complex to real, the real parts.
 *
 * Shapes:     kept. To a 16-bit float: rounds to nearest even. To an integer: towards zero. To bool: x != 0.
 * Placement:  kept. Partial(sum) is kept where each element is converted exactly and stays linear: to a wider float, real to complex,
 *             complex to real; else it is reduced first.
 * Collective: over the mesh where Partial is reduced.
 * Gradient:   yes, twice differentiable: the cotangent, cast back.
 * @return new tensor, or one more handle on `input` where it has that dtype; STN_ERR_ARGUMENT (dtype), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_cast(stn_tensor *input, stn_dtype dtype);

typedef enum stn_gelu_approximation {
    STN_GELU_ERF, /* x times the normal distribution */
    STN_GELU_TANH /* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
} stn_gelu_approximation;

/** Gaussian error linear unit, element by element.
 *
 * Shapes:     (d0, …) -> same shape and dtype.
 * Placement:  keeps input's Shards. Partial is reduced first.
 * Collective: over the mesh where Partial.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_DTYPE (not floating), STN_ERR_ARGUMENT (approximation), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: Hendrycks and Gimpel 2016. */
STN_API stn_tensor *stn_gelu(stn_tensor *input, stn_gelu_approximation approximation);

/* Reductions */

/** Sum over dims.
 *
 * Shapes:     (d0, …) -> without the summed dims; with `keepdim`, they have size 1. Bool and integers give i64.
 * Placement:  a Shard of a summed dim becomes Partial(sum); other Shards and Partial(sum) are kept.
 * Collective: no.
 * Gradient:   yes, twice differentiable: the cotangent, broadcast.
 * @param n_dims  0: all dims.  @param dims  -ndim <= dims[i] < ndim, distinct.
 * @return new tensor; STN_ERR_ARGUMENT (dims), STN_ERR_MEMORY. */
STN_API stn_tensor *stn_sum(stn_tensor *input, int n_dims, const int *dims, int keepdim);

/** A larger tensor on the same memory: dims of size 1 are repeated, new dims are added in front.
 *
 * Shapes:     (d0, …) -> `shape`, of at least as many dims, aligned at the last; -1 keeps a dim.
 * Placement:  Shards and Partial are kept; a Shard of a repeated dim becomes Replicate.
 * Collective: over the mesh where a repeated dim is sharded.
 * Gradient:   yes, twice differentiable: the cotangent, summed over repeated and new dims.
 * @return a view, which cannot be changed in place; STN_ERR_SHAPE, STN_ERR_ARGUMENT (ndim), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_expand(stn_tensor *input, int ndim, const int64_t *shape);

/** Softmax along `dim`: y[i] = exp(x[i] - m) / sum_j exp(x[j] - m), m = max_j x[j].
 *
 * Shapes:     (d0, …, dn-1) -> same shape and dtype.
 * Placement:  keeps x's. Sharded along `dim`: two all-reduces of numel / shape[dim] elements. Partial is reduced first.
 * Collective: over x's mesh where sharded along `dim` or Partial.
 * Gradient:   yes, twice differentiable.
 * @param dim  -ndim <= dim < ndim.
 * @return new tensor; STN_ERR_ARGUMENT (dim), STN_ERR_DTYPE (not floating), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: shifted softmax, Goodfellow, Bengio and Courville 2016, section 4.1. */
STN_API stn_tensor *stn_softmax(stn_tensor *input, int dim);

/* Products */

/** Matrix product, batched and broadcast as PyTorch's matmul: vectors are rows on the left, columns on the right.
 *
 * Shapes:     (…, m, k) x (…, k, n) -> (…, m, n). Dtypes are equal, floating or complex or integer.
 * Placement:  per axis: a batch dim, m or n sharded stays sharded; k sharded on both gives Partial(sum); Partial(sum) of one with
 *             the other Replicate is kept; what fits none of these is redistributed, the smaller operand first.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_matmul(stn_tensor *input, stn_tensor *other);

typedef enum stn_padding_mode {
    STN_PADDING_ZEROS,
    STN_PADDING_REFLECT,
    STN_PADDING_REPLICATE,
    STN_PADDING_CIRCULAR
} stn_padding_mode;

/** All zero but `size`: stride 1, no padding, dilation 1, one group, zeros. */
typedef struct stn_conv2d_attrs {
    size_t size;         /* sizeof(stn_conv2d_attrs) */
    int64_t stride[2];   /* 0: 1 */
    int64_t padding[2];  /* rows above and below, columns left and right */
    int64_t dilation[2]; /* 0: 1 */
    int64_t groups;      /* 0: 1 */
    int same;            /* 1: as much padding as keeps the size; stride must be 1, `padding` is not read */
    stn_padding_mode mode[2]; /* per dim: latitudes may replicate while longitudes wrap */
} stn_conv2d_attrs;

/** 2-d convolution (cross-correlation).
 *
 * Shapes:     input (n, c, h, w) or (c, h, w), weight (o, c / groups, kh, kw), bias (o) or NULL
 *             -> (n, o, h', w'), h' = floor((h + 2 p - d (kh - 1) - 1) / s) + 1. Dtypes are equal.
 * Placement:  n, h and w stay sharded, with rows and columns of neighbours' chunks fetched as halos, of any width, over any cut;
 *             o sharded in weight (and bias) stays sharded; c sharded in both gives Partial(sum); Partial(sum) as in matmul.
 *             The cut of h', w': balanced from balanced, else offset' = ceil(offset h' / h). Memory order: channels last.
 * Collective: over the mesh where halos or inputs have to move.
 * Gradient:   yes, twice differentiable.
 * @param attrs  NULL: defaults.
 * @return new tensor; STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_ARGUMENT (attrs), STN_ERR_MEMORY, STN_ERR_COMM. */
STN_API stn_tensor *stn_conv2d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv2d_attrs *attrs);

/* Shapes */

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

/* Lookup */

/** Rows of a table: y[i…, :] = weight[input[i…], :].
 *
 * Shapes:     input (i0, …) of i64 or i32, weight (v, d) -> (i0, …, d).
 * Placement:  input's Shards stay; d sharded stays sharded; where one axis has both, the smaller operand is gathered. v sharded: indices
 *             are routed to the owners of their rows, and the rows come back, one exchange each way. Partial(sum) of weight is
 *             kept where input is Replicate.
 * Collective: over the mesh where v is sharded; the host then waits once, since the amount of data depends on values.
 * Gradient:   of weight: rows of the cotangent added up by index, except at `padding_index`. Twice differentiable.
 * @param padding_index  NULL: none; else -v <= *padding_index < v.
 * @return new tensor; an index outside 0 … v-1 reads 0 and is STN_ERR_VALUE at the next agreement (stn_agree). */
STN_API stn_tensor *stn_embedding(stn_tensor *input, stn_tensor *weight, const int64_t *padding_index);

STN_END_DECLS
#endif
