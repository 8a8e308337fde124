/* Pointwise operations: element by element. Shapes broadcast as PyTorch's do; dtypes are promoted. */
#ifndef SHARDTENSOR_OPS_POINTWISE_H
#define SHARDTENSOR_OPS_POINTWISE_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

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

STN_END_DECLS
#endif
