/* Pointwise ops in place: each is the function of ops_pointwise.h without the underscore, and what that says of dtypes and arguments holds. fill_ and
 * copy_ have none, and say it themselves.
 *
 * Shapes:     the other operands broadcast to input's shape; input keeps its shape and dtype.
 * Placement:  input keeps its spec; the others are brought to it. Where input is Partial, the op must be linear in it.
 * Collective: over the mesh where another operand must move.
 * Gradient:   as that of the function: what backward reads of the old values is kept before they are changed.
 * @return `input` itself, no reference added; STN_ERR_STATE (a leaf that requires grad while grad mode is on; a view, or viewed),
 *         STN_ERR_DTYPE, STN_ERR_SHAPE (the result's is not input's), STN_ERR_LAYOUT (Partial), STN_ERR_MEMORY, STN_ERR_COMM. */
#ifndef SHARDTENSOR_OPS_IN_PLACE_H
#define SHARDTENSOR_OPS_IN_PLACE_H

#include <shardtensor/ops_pointwise.h>

STN_BEGIN_DECLS

/* add_, sub_, mul_, div_ and lerp_ stand in ops_pointwise.h beside their functions. */

STN_API stn_tensor *stn_pow_(stn_tensor *input, stn_tensor *exponent);
STN_API stn_tensor *stn_pow_number_(stn_tensor *input, double exponent);
STN_API stn_tensor *stn_floor_divide_(stn_tensor *input, stn_tensor *other);
STN_API stn_tensor *stn_floor_divide_number_(stn_tensor *input, double other);
STN_API stn_tensor *stn_fmod_(stn_tensor *input, stn_tensor *other);
STN_API stn_tensor *stn_fmod_number_(stn_tensor *input, double other);
STN_API stn_tensor *stn_remainder_(stn_tensor *input, stn_tensor *other);
STN_API stn_tensor *stn_remainder_number_(stn_tensor *input, double other);
STN_API stn_tensor *stn_addcmul_(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value);
STN_API stn_tensor *stn_addcdiv_(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value);
STN_API stn_tensor *stn_clamp_(stn_tensor *input, double min, double max);
STN_API stn_tensor *stn_clamp_tensor_(stn_tensor *input, stn_tensor *min, stn_tensor *max);
STN_API stn_tensor *stn_masked_fill_(stn_tensor *input, stn_tensor *mask, double value);

/** Every element becomes `value`: a whole number for integers, 0 or not for bool.
 *  Placement: a Partial input takes 0 alone (STN_ERR_LAYOUT). Gradient: none reaches the old values. */
STN_API stn_tensor *stn_fill_(stn_tensor *input, double value);

/** input[i] = src[i], converted as stn_cast does.
 *
 * Shapes:     src broadcasts to input's shape; input keeps shape and dtype.
 * Placement:  src, in any layout of the same mesh, is brought to input's. Where input is a pending sum src becomes one, which moves nothing.
 * Collective: over the mesh where src must move.
 * Gradient:   of src, twice differentiable; none reaches the old values.
 * @return `input` itself, no reference added; errors as all of this page. */
STN_API stn_tensor *stn_copy_(stn_tensor *input, stn_tensor *src);

STN_API stn_tensor *stn_neg_(stn_tensor *input);
STN_API stn_tensor *stn_abs_(stn_tensor *input);
STN_API stn_tensor *stn_sign_(stn_tensor *input);
STN_API stn_tensor *stn_floor_(stn_tensor *input);
STN_API stn_tensor *stn_ceil_(stn_tensor *input);
STN_API stn_tensor *stn_trunc_(stn_tensor *input);
STN_API stn_tensor *stn_round_(stn_tensor *input, int decimals);
STN_API stn_tensor *stn_nan_to_num_(stn_tensor *input, double nan, const double *posinf, const double *neginf);

STN_API stn_tensor *stn_square_(stn_tensor *input);
STN_API stn_tensor *stn_exp_(stn_tensor *input);
STN_API stn_tensor *stn_exp2_(stn_tensor *input);
STN_API stn_tensor *stn_expm1_(stn_tensor *input);
STN_API stn_tensor *stn_log_(stn_tensor *input);
STN_API stn_tensor *stn_log2_(stn_tensor *input);
STN_API stn_tensor *stn_log1p_(stn_tensor *input);
STN_API stn_tensor *stn_sqrt_(stn_tensor *input);
STN_API stn_tensor *stn_rsqrt_(stn_tensor *input);
STN_API stn_tensor *stn_reciprocal_(stn_tensor *input);
STN_API stn_tensor *stn_sinh_(stn_tensor *input);
STN_API stn_tensor *stn_cosh_(stn_tensor *input);
STN_API stn_tensor *stn_tanh_(stn_tensor *input);
STN_API stn_tensor *stn_sigmoid_(stn_tensor *input);
STN_API stn_tensor *stn_sin_(stn_tensor *input);
STN_API stn_tensor *stn_cos_(stn_tensor *input);
STN_API stn_tensor *stn_tan_(stn_tensor *input);
STN_API stn_tensor *stn_asin_(stn_tensor *input);
STN_API stn_tensor *stn_acos_(stn_tensor *input);
STN_API stn_tensor *stn_atan_(stn_tensor *input);
STN_API stn_tensor *stn_erf_(stn_tensor *input);
STN_API stn_tensor *stn_erfc_(stn_tensor *input);

STN_API stn_tensor *stn_gelu_(stn_tensor *input, stn_gelu_approximation approximation);
STN_API stn_tensor *stn_relu_(stn_tensor *input);
STN_API stn_tensor *stn_silu_(stn_tensor *input);
STN_API stn_tensor *stn_mish_(stn_tensor *input);
STN_API stn_tensor *stn_softplus_(stn_tensor *input, double beta, double threshold);
STN_API stn_tensor *stn_logsigmoid_(stn_tensor *input);
STN_API stn_tensor *stn_elu_(stn_tensor *input, double alpha);
STN_API stn_tensor *stn_celu_(stn_tensor *input, double alpha);
STN_API stn_tensor *stn_selu_(stn_tensor *input);
STN_API stn_tensor *stn_leaky_relu_(stn_tensor *input, double negative_slope);
STN_API stn_tensor *stn_relu6_(stn_tensor *input);
STN_API stn_tensor *stn_hardtanh_(stn_tensor *input, double min_val, double max_val);
STN_API stn_tensor *stn_hardsigmoid_(stn_tensor *input);
STN_API stn_tensor *stn_hardswish_(stn_tensor *input);

STN_END_DECLS
#endif
