/* Pointwise ops in place: each is the function of ops_pointwise.h without the underscore, and what that says of dtypes
 * and arguments holds. fill_ and copy_ have none, and say it themselves.
 *
 * Shapes:     the other operands broadcast to input's shape; input keeps its shape and dtype. What is computed in a
 *             wider one of the same category (an f32 beside an f64, an i32 beside an i64) is rounded to it once (an
 *             f64 to 16 bits by way of f32, as casts are), integers keep the low bits.
 * Placement:  input keeps its spec; the others are brought to it. Where input is Partial, the op must be linear in it.
 * Collective: over the mesh where another operand must move.
 * Gradient:   as that of the function: what backward reads of the old values is kept before they are changed.
 * Views:      slices (narrow, split and their like), single elements of a dim (select, unbind; but of the last dim
 *             where that is sharded), transposes, permutations, and views that only add or drop dims of size 1
 *             without moving data, share memory on every rank: changed in place they change what they show, and all
 *             other such views of it. All other views are views apart, with memory of their own in some layout or on
 *             some rank: neither they nor, while they live, what they show is changed in place. So are what
 *             stn_from_local makes of a local tensor, also of one over a caller's memory (stn_wrap), and what
 *             stn_to_local gives. In grad mode no view is changed, nor what has views, where one of them or an
 *             operand requires grad. An operand that overlaps what is changed is read as it was.
 * @return `input` itself, no reference added; STN_ERR_STATE (a leaf that requires grad while grad mode is on; a view
 *         apart, or seen by one; a view, or viewed, where a gradient would have to follow), on every rank alike; also
 *         of a caller's memory that has elements in several places (stn_wrap, a stride of 0). STN_ERR_DTYPE (integers
 *         for a floating result, real numbers for a complex one), STN_ERR_SHAPE (the result's is not input's),
 *         STN_ERR_PARTIAL (a pending reduction in which the op is not linear), STN_ERR_MEMORY, STN_ERR_COMM. */
#ifndef SHARDTENSOR_OPS_IN_PLACE_H
#define SHARDTENSOR_OPS_IN_PLACE_H

#include <shardtensor/ops_pointwise.h>

STN_BEGIN_DECLS

/* add_, sub_, mul_, div_ and lerp_ stand in ops_pointwise.h beside their functions. */

/** input = input to the power `exponent`. As stn_pow. */
STN_API stn_tensor *stn_pow_(stn_tensor *input, stn_tensor *exponent);

/** input = input to the power of a number. As stn_pow. */
STN_API stn_tensor *stn_pow_number_(stn_tensor *input, double exponent);

/** input = floor(input / other). As stn_floor_divide. */
STN_API stn_tensor *stn_floor_divide_(stn_tensor *input, stn_tensor *other);

/** input = floor(input / other), for a number. As stn_floor_divide. */
STN_API stn_tensor *stn_floor_divide_number_(stn_tensor *input, double other);

/** input = the rest of input / other with the sign of input. As stn_fmod. */
STN_API stn_tensor *stn_fmod_(stn_tensor *input, stn_tensor *other);

/** input = the rest of input / other with the sign of input, for a number. As stn_fmod. */
STN_API stn_tensor *stn_fmod_number_(stn_tensor *input, double other);

/** input = the rest of input / other with the sign of other. As stn_remainder. */
STN_API stn_tensor *stn_remainder_(stn_tensor *input, stn_tensor *other);

/** input = the rest of input / other with the sign of other, for a number. As stn_remainder. */
STN_API stn_tensor *stn_remainder_number_(stn_tensor *input, double other);

/** input += value * tensor1 * tensor2. As stn_addcmul. */
STN_API stn_tensor *stn_addcmul_(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value);

/** input += value * tensor1 / tensor2. As stn_addcdiv. */
STN_API stn_tensor *stn_addcdiv_(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value);

/** input = input within bounds. As stn_clamp. */
STN_API stn_tensor *stn_clamp_(stn_tensor *input, double min, double max);

/** input = input within bounds that are tensors; NULL: none. As stn_clamp_tensor. */
STN_API stn_tensor *stn_clamp_tensor_(stn_tensor *input, stn_tensor *min, stn_tensor *max);

/** input = `value` where `mask`. As stn_masked_fill. */
STN_API stn_tensor *stn_masked_fill_(stn_tensor *input, stn_tensor *mask, double value);

/** Every element becomes `value`: a whole number for integers that the dtype has (stn_full), 0 or not for bool.
 *  Placement: a pending sum takes 0 alone (STN_ERR_PARTIAL). Gradient: none reaches the old values. */
STN_API stn_tensor *stn_fill_(stn_tensor *input, double value);

/** input[i] = src[i], converted as stn_cast does.
 *
 * Shapes:     src broadcasts to input's shape; input keeps shape and dtype.
 * Placement:  src, in any layout of the same mesh, is brought to input's. Where input is a pending sum src becomes one,
 *             which moves nothing.
 * Collective: over the mesh where src must move.
 * Gradient:   of src, twice differentiable; none reaches the old values.
 * @return `input` itself, no reference added; errors as all of this page. */
STN_API stn_tensor *stn_copy_(stn_tensor *input, stn_tensor *src);

/** input = -input. As stn_neg. */
STN_API stn_tensor *stn_neg_(stn_tensor *input);

/** input = |input|, of real dtypes. As stn_abs. */
STN_API stn_tensor *stn_abs_(stn_tensor *input);

/** input = -1, 0 or 1. As stn_sign. */
STN_API stn_tensor *stn_sign_(stn_tensor *input);

/** input = input rounded down. As stn_floor. */
STN_API stn_tensor *stn_floor_(stn_tensor *input);

/** input = input rounded up. As stn_ceil. */
STN_API stn_tensor *stn_ceil_(stn_tensor *input);

/** input = input rounded towards zero. As stn_trunc. */
STN_API stn_tensor *stn_trunc_(stn_tensor *input);

/** input = input rounded to the nearest. As stn_round. */
STN_API stn_tensor *stn_round_(stn_tensor *input, int decimals);

/** input = input with numbers for NaN and infinities. As stn_nan_to_num. */
STN_API stn_tensor *stn_nan_to_num_(stn_tensor *input, double nan, const double *posinf, const double *neginf);

/** input *= log(other), 0 where input is 0. As stn_xlogy. */
STN_API stn_tensor *stn_xlogy_(stn_tensor *input, stn_tensor *other);

/** stn_xlogy_ of a number. */
STN_API stn_tensor *stn_xlogy_number_(stn_tensor *input, double other);

/** input = its size with the sign of other. As stn_copysign. */
STN_API stn_tensor *stn_copysign_(stn_tensor *input, stn_tensor *other);

/** stn_copysign_ of a number. */
STN_API stn_tensor *stn_copysign_number_(stn_tensor *input, double other);

/** input &= other, of integers and bool. As stn_bitwise_and. */
STN_API stn_tensor *stn_bitwise_and_(stn_tensor *input, stn_tensor *other);

/** stn_bitwise_and_ with a number. */
STN_API stn_tensor *stn_bitwise_and_number_(stn_tensor *input, int64_t other);

/** input |= other, of integers and bool. As stn_bitwise_or. */
STN_API stn_tensor *stn_bitwise_or_(stn_tensor *input, stn_tensor *other);

/** stn_bitwise_or_ with a number. */
STN_API stn_tensor *stn_bitwise_or_number_(stn_tensor *input, int64_t other);

/** input ^= other, of integers and bool. As stn_bitwise_xor. */
STN_API stn_tensor *stn_bitwise_xor_(stn_tensor *input, stn_tensor *other);

/** stn_bitwise_xor_ with a number. */
STN_API stn_tensor *stn_bitwise_xor_number_(stn_tensor *input, int64_t other);

/** input = ~input, of integers and bool. As stn_bitwise_not. */
STN_API stn_tensor *stn_bitwise_not_(stn_tensor *input);

/** input *= input. As stn_square. */
STN_API stn_tensor *stn_square_(stn_tensor *input);

/** input = e^input. As stn_exp. */
STN_API stn_tensor *stn_exp_(stn_tensor *input);

/** input = 2^input. As stn_exp2. */
STN_API stn_tensor *stn_exp2_(stn_tensor *input);

/** input = e^input - 1. As stn_expm1. */
STN_API stn_tensor *stn_expm1_(stn_tensor *input);

/** input = log(input). As stn_log. */
STN_API stn_tensor *stn_log_(stn_tensor *input);

/** input = log2(input). As stn_log2. */
STN_API stn_tensor *stn_log2_(stn_tensor *input);

/** input = log10(input). As stn_log10. */
STN_API stn_tensor *stn_log10_(stn_tensor *input);

/** input = log(1 + input). As stn_log1p. */
STN_API stn_tensor *stn_log1p_(stn_tensor *input);

/** input = sqrt(input). As stn_sqrt. */
STN_API stn_tensor *stn_sqrt_(stn_tensor *input);

/** input = 1 / sqrt(input). As stn_rsqrt. */
STN_API stn_tensor *stn_rsqrt_(stn_tensor *input);

/** input = 1 / input. As stn_reciprocal. */
STN_API stn_tensor *stn_reciprocal_(stn_tensor *input);

/** input = sinh(input). As stn_sinh. */
STN_API stn_tensor *stn_sinh_(stn_tensor *input);

/** input = cosh(input). As stn_cosh. */
STN_API stn_tensor *stn_cosh_(stn_tensor *input);

/** input = tanh(input). As stn_tanh. */
STN_API stn_tensor *stn_tanh_(stn_tensor *input);

/** input = asinh(input). As stn_asinh. */
STN_API stn_tensor *stn_asinh_(stn_tensor *input);

/** input = acosh(input). As stn_acosh. */
STN_API stn_tensor *stn_acosh_(stn_tensor *input);

/** input = atanh(input). As stn_atanh. */
STN_API stn_tensor *stn_atanh_(stn_tensor *input);

/** input = 1 / (1 + e^-input). As stn_sigmoid. */
STN_API stn_tensor *stn_sigmoid_(stn_tensor *input);

/** input = sin(input). As stn_sin. */
STN_API stn_tensor *stn_sin_(stn_tensor *input);

/** input = cos(input). As stn_cos. */
STN_API stn_tensor *stn_cos_(stn_tensor *input);

/** input = tan(input). As stn_tan. */
STN_API stn_tensor *stn_tan_(stn_tensor *input);

/** input = asin(input). As stn_asin. */
STN_API stn_tensor *stn_asin_(stn_tensor *input);

/** input = acos(input). As stn_acos. */
STN_API stn_tensor *stn_acos_(stn_tensor *input);

/** input = atan(input). As stn_atan. */
STN_API stn_tensor *stn_atan_(stn_tensor *input);

/** input = erf(input). As stn_erf. */
STN_API stn_tensor *stn_erf_(stn_tensor *input);

/** input = erfc(input). As stn_erfc. */
STN_API stn_tensor *stn_erfc_(stn_tensor *input);

/** input = gelu(input). As stn_gelu. */
STN_API stn_tensor *stn_gelu_(stn_tensor *input, stn_gelu_approximation approximation);

/** input = max(input, 0). As stn_relu. */
STN_API stn_tensor *stn_relu_(stn_tensor *input);

/** input = logit(input). As stn_logit. */
STN_API stn_tensor *stn_logit_(stn_tensor *input, const double *eps);

/** input *= sigmoid(input). As stn_silu. */
STN_API stn_tensor *stn_silu_(stn_tensor *input);

/** input *= tanh(log(1 + e^input)). As stn_mish. */
STN_API stn_tensor *stn_mish_(stn_tensor *input);

/** input = log(1 + e^(beta input)) / beta. As stn_softplus. */
STN_API stn_tensor *stn_softplus_(stn_tensor *input, double beta, double threshold);

/** input = log(sigmoid(input)). As stn_logsigmoid. */
STN_API stn_tensor *stn_logsigmoid_(stn_tensor *input);

/** input = elu(input). As stn_elu. */
STN_API stn_tensor *stn_elu_(stn_tensor *input, double alpha);

/** input = celu(input). As stn_celu. */
STN_API stn_tensor *stn_celu_(stn_tensor *input, double alpha);

/** input = selu(input). As stn_selu. */
STN_API stn_tensor *stn_selu_(stn_tensor *input);

/** input = input where positive, else negative_slope input. As stn_leaky_relu. */
STN_API stn_tensor *stn_leaky_relu_(stn_tensor *input, double negative_slope);

/** input = input within 0 and 6. As stn_relu6. */
STN_API stn_tensor *stn_relu6_(stn_tensor *input);

/** input = input within min_val and max_val. As stn_hardtanh. */
STN_API stn_tensor *stn_hardtanh_(stn_tensor *input, double min_val, double max_val);

/** input = input / 6 + 1 / 2 within 0 and 1. As stn_hardsigmoid. */
STN_API stn_tensor *stn_hardsigmoid_(stn_tensor *input);

/** input *= hardsigmoid(input). As stn_hardswish. */
STN_API stn_tensor *stn_hardswish_(stn_tensor *input);

/** input /= 1 + |input|. As stn_softsign. */
STN_API stn_tensor *stn_softsign_(stn_tensor *input);

/** input = 0 from -lambd to lambd. As stn_hardshrink. */
STN_API stn_tensor *stn_hardshrink_(stn_tensor *input, double lambd);

/** input = 0 from -lambd to lambd, beyond it moved towards 0 by lambd. As stn_softshrink. */
STN_API stn_tensor *stn_softshrink_(stn_tensor *input, double lambd);

/** input = value where it is not above threshold. As stn_threshold. */
STN_API stn_tensor *stn_threshold_(stn_tensor *input, double threshold, double value);

STN_END_DECLS
#endif
