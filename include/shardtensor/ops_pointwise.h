/* Pointwise operations: element by element. Shapes broadcast as PyTorch's do; dtypes are promoted. */
#ifndef SHARDTENSOR_OPS_POINTWISE_H
#define SHARDTENSOR_OPS_POINTWISE_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/** input + other.
 *
 * Shapes:     broadcast (d0, …), (e0, …) -> the common shape. Dtype: promoted.
 * Placement:  Shard beats Replicate, among Shards the largest operand's; the split of the largest operand that is
 *             sharded there. Partial(sum) is kept on axes where both are Partial(sum), else reduced first.
 * Collective: over the mesh where an input has to move.
 * Gradient:   yes, twice differentiable: each input's is the cotangent, summed over the dims it was broadcast along.
 * @return new tensor; STN_ERR_SHAPE (do not broadcast), STN_ERR_ARGUMENT (meshes differ), STN_ERR_MEMORY, STN_ERR_COMM.
 * Source: numpy's broadcasting rules. */
STN_API stn_tensor *stn_add(stn_tensor *input, stn_tensor *other);

/** input + alpha * other. As stn_add. */
STN_API stn_tensor *stn_add_scaled(stn_tensor *input, stn_tensor *other, double alpha);

/** input + other, for a number. As stn_add; Partial is reduced first. A whole number leaves integers integers. */
STN_API stn_tensor *stn_add_number(stn_tensor *input, double other);

/** input += alpha * other, in place; `other` broadcasts to input's shape, input keeps its spec and dtype (beside a
 *  Partial(sum) input, `other` becomes pending too, which moves nothing).
 *  @return `input` itself, no reference added; STN_ERR_STATE (a leaf that requires grad while grad mode is on; views:
 *  ops_in_place.h). */
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

/** input - other. As stn_add, but not for bool.  @return as stn_add; STN_ERR_DTYPE (bool). */
STN_API stn_tensor *stn_sub(stn_tensor *input, stn_tensor *other);

/** input - alpha * other. As stn_sub. */
STN_API stn_tensor *stn_sub_scaled(stn_tensor *input, stn_tensor *other, double alpha);

/** input - other, for a number. As stn_sub; Partial is reduced first. */
STN_API stn_tensor *stn_sub_number(stn_tensor *input, double other);

/** input -= alpha * other, in place. As stn_add_. */
STN_API stn_tensor *stn_sub_(stn_tensor *input, stn_tensor *other, double alpha);

typedef enum stn_rounding {
    STN_ROUND_NONE,
    STN_ROUND_TRUNC, /* towards zero */
    STN_ROUND_FLOOR  /* down */
} stn_rounding;

/** input / other. As stn_add, but integers give f32, and Partial(sum) is kept where input is Partial and other is
 *  Replicate.
 *  Gradient: yes, twice differentiable.  @return as stn_add. */
STN_API stn_tensor *stn_div(stn_tensor *input, stn_tensor *other);

/** input / other, for a number. As stn_div; Partial(sum) is kept. */
STN_API stn_tensor *stn_div_number(stn_tensor *input, double other);

/** The quotient as a whole number: integers stay integers; divided by 0 they give 0 and STN_ERR_VALUE at the next
 *  agreement (stn_agree). Partial is reduced first.  Gradient: zero.  @return as stn_add; STN_ERR_DTYPE (bool,
 *  complex), STN_ERR_ARGUMENT (rounding). */
STN_API stn_tensor *stn_div_rounded(stn_tensor *input, stn_tensor *other, stn_rounding rounding);

/** input /= other, in place. As stn_add_; STN_ERR_DTYPE where input is of integers. */
STN_API stn_tensor *stn_div_(stn_tensor *input, stn_tensor *other);

/** input /= other, in place, for a number. As stn_div_. */
STN_API stn_tensor *stn_div_number_(stn_tensor *input, double other);

/** input to the power `exponent`. As stn_add, but Partial is reduced first; integers stay integers (a negative power of
 *  one that is not 1 or -1 is 0).  Gradient: yes, twice differentiable.  @return as stn_add; STN_ERR_DTYPE (bool). */
STN_API stn_tensor *stn_pow(stn_tensor *input, stn_tensor *exponent);

/** input to the power of a number. As stn_pow. */
STN_API stn_tensor *stn_pow_number(stn_tensor *input, double exponent);

/** input + weight * (end - input). As stn_add, of floating and complex dtypes; Partial(sum) is kept where input and end
 *  are both Partial(sum) and weight is a number or Replicate.  Gradient: yes, twice differentiable. */
STN_API stn_tensor *stn_lerp(stn_tensor *input, stn_tensor *end, stn_tensor *weight);

/** stn_lerp with one weight for all elements. */
STN_API stn_tensor *stn_lerp_number(stn_tensor *input, stn_tensor *end, double weight);

/** The same in place: how a running mean is updated. As stn_add_. */
STN_API stn_tensor *stn_lerp_(stn_tensor *input, stn_tensor *end, stn_tensor *weight);

/** stn_lerp_ with one weight for all elements. */
STN_API stn_tensor *stn_lerp_number_(stn_tensor *input, stn_tensor *end, double weight);

/** The complex conjugate; the input's values where it is not complex. Keeps Partial(sum). Gradient: yes. */
STN_API stn_tensor *stn_conj(stn_tensor *input);

/** The same values in memory of their own: dense in the spec's memory order.
 *
 * Shapes, placement: kept, pending reductions of any kind too. Local.
 * Gradient:   yes, twice differentiable. After stn_detach there is none.
 * @return new tensor; STN_ERR_MEMORY. */
STN_API stn_tensor *stn_clone(stn_tensor *input);

/** The same values in another dtype; from complex to real, the real parts.
 *
 * Shapes:     kept. To a 16-bit float: rounds to nearest even. To an integer: towards zero. To bool: x != 0.
 * Placement:  kept. Partial(sum) is kept where each element is converted exactly and stays linear: to a wider float,
 *             real to complex, complex to real; else it is reduced first.
 * Collective: over the mesh where Partial is reduced.
 * Gradient:   yes, twice differentiable: the cotangent, cast back.
 * @return new tensor, or one more handle on `input` where it has that dtype; STN_ERR_ARGUMENT (dtype), STN_ERR_MEMORY,
 * STN_ERR_COMM. */
STN_API stn_tensor *stn_cast(stn_tensor *input, stn_dtype dtype);

/** The quotient rounded down, as stn_div_rounded; of integers divided by 0 as there. Partial is reduced first.
 *  Gradient: zero.  @return as stn_add; STN_ERR_DTYPE (bool, complex). */
STN_API stn_tensor *stn_floor_divide(stn_tensor *input, stn_tensor *other);

/** The rest of a division with the sign of the dividend: input - other * trunc(input / other). As stn_floor_divide, but
 *  Gradient: yes, twice differentiable. */
STN_API stn_tensor *stn_fmod(stn_tensor *input, stn_tensor *other);

/** The rest of a division with the sign of the divisor: input - other * floor(input / other). As stn_fmod. */
STN_API stn_tensor *stn_remainder(stn_tensor *input, stn_tensor *other);

/** stn_floor_divide by a number. */
STN_API stn_tensor *stn_floor_divide_number(stn_tensor *input, double other);

/** stn_fmod by a number. */
STN_API stn_tensor *stn_fmod_number(stn_tensor *input, double other);

/** stn_remainder by a number. */
STN_API stn_tensor *stn_remainder_number(stn_tensor *input, double other);

/** input + value * tensor1 * tensor2. As stn_add; Partial(sum) is kept where input and one of the two are Partial(sum)
 *  and the other is Replicate.  Gradient: yes, twice differentiable. */
STN_API stn_tensor *stn_addcmul(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value);

/** input + value * tensor1 / tensor2, of floating and complex dtypes. As stn_add; Partial(sum) is kept where input and
 *  tensor1 are Partial(sum) and tensor2 is Replicate.  Gradient: yes, twice differentiable. */
STN_API stn_tensor *stn_addcdiv(stn_tensor *input, stn_tensor *tensor1, stn_tensor *tensor2, double value);

/** The angle of the point (other, input), -pi to pi. As stn_add, of floating dtypes, and of integers, which give f32;
 *  Partial is reduced first.  Gradient: yes, twice differentiable. */
STN_API stn_tensor *stn_atan2(stn_tensor *input, stn_tensor *other);

/** The distance of the point (other, input) from the origin. As stn_atan2, of floating dtypes only. */
STN_API stn_tensor *stn_hypot(stn_tensor *input, stn_tensor *other);

/** log(e^input + e^other), which overflows nowhere. As stn_hypot.
 *  Gradient: yes, twice differentiable; NaN to both where they are the same infinity, as PyTorch's. */
STN_API stn_tensor *stn_logaddexp(stn_tensor *input, stn_tensor *other);

/** input * log(other); where input is 0 it is 0, unless other is NaN. As stn_atan2.
 *  Gradient: yes, twice differentiable; none to input where it is 0 and other is 0 or less. */
STN_API stn_tensor *stn_xlogy(stn_tensor *input, stn_tensor *other);

/** stn_xlogy of a number. */
STN_API stn_tensor *stn_xlogy_number(stn_tensor *input, double other);

/** The size of input with the sign of other, of which zeros and NaN have one too. As stn_atan2.
 *  Gradient: to input, twice differentiable: the product of both signs; 0 at 0, NaN at infinities, as PyTorch's. */
STN_API stn_tensor *stn_copysign(stn_tensor *input, stn_tensor *other);

/** stn_copysign of a number. */
STN_API stn_tensor *stn_copysign_number(stn_tensor *input, double other);

/** real + i imag. As stn_add; f32 gives c64, f64 gives c128, others are STN_ERR_DTYPE. Partial(sum) is kept where real
 *  and imag are Partial(sum).  Gradient: yes, twice differentiable. */
STN_API stn_tensor *stn_complex(stn_tensor *real, stn_tensor *imag);

/** abs e^(i angle). As stn_complex; Partial(sum) is kept where abs is Partial(sum) and angle is Replicate. */
STN_API stn_tensor *stn_polar(stn_tensor *abs, stn_tensor *angle);

/* Choices */

/** input where `condition`, else other. As stn_add; the condition is bool and decides nothing about the dtype.
 *  Partial(sum) is kept where input and other are both Partial(sum) and condition is Replicate.  @return as stn_add;
 *  STN_ERR_DTYPE (condition not bool). */
STN_API stn_tensor *stn_where(stn_tensor *condition, stn_tensor *input, stn_tensor *other);

/** `value` where `mask`, else input; of input's dtype, which has the number (stn_full). As stn_where; Partial(sum) is
 *  kept where value is 0 and mask Replicate. */
STN_API stn_tensor *stn_masked_fill(stn_tensor *input, stn_tensor *mask, double value);

/** The greater of two. As stn_add, but not for complex numbers; Partial is reduced first; NaN wins.
 *  Gradient: yes, twice differentiable: to the one that is chosen; half to each where they are equal. */
STN_API stn_tensor *stn_maximum(stn_tensor *input, stn_tensor *other);

/** The lesser of two. As stn_maximum. */
STN_API stn_tensor *stn_minimum(stn_tensor *input, stn_tensor *other);

/** input within bounds; an infinite bound bounds nothing. As stn_maximum. Where min > max the result is max.
 *  Gradient: yes, twice differentiable: to input where it is strictly within bounds, else to the bound, where that is
 *  a tensor. An input that equals such a bound shares the cotangent with it by halves; where both bounds equal it,
 *  input has all.
 *  @return as stn_add; STN_ERR_ARGUMENT (no bound), STN_ERR_DTYPE (bool, complex). */
STN_API stn_tensor *stn_clamp(stn_tensor *input, double min, double max);

/** The same with tensors as bounds; NULL: none. */
STN_API stn_tensor *stn_clamp_tensor(stn_tensor *input, stn_tensor *min, stn_tensor *max);

/* Comparisons and logic: shapes broadcast, the result is bool, there is no gradient. Placement as stn_add; Partial is
 * reduced first. */

/** Whether input == other, compared in the promoted dtype.  @return as stn_add; STN_ERR_DTYPE (an order of complex
 *  numbers). */
STN_API stn_tensor *stn_eq(stn_tensor *input, stn_tensor *other);

/** Whether input != other. As stn_eq. */
STN_API stn_tensor *stn_ne(stn_tensor *input, stn_tensor *other);

/** Whether input < other. As stn_eq. */
STN_API stn_tensor *stn_lt(stn_tensor *input, stn_tensor *other);

/** Whether input <= other. As stn_eq. */
STN_API stn_tensor *stn_le(stn_tensor *input, stn_tensor *other);

/** Whether input > other. As stn_eq. */
STN_API stn_tensor *stn_gt(stn_tensor *input, stn_tensor *other);

/** Whether input >= other. As stn_eq. */
STN_API stn_tensor *stn_ge(stn_tensor *input, stn_tensor *other);

/** Whether input == other, for a number. As stn_eq. */
STN_API stn_tensor *stn_eq_number(stn_tensor *input, double other);

/** Whether input != other, for a number. As stn_eq. */
STN_API stn_tensor *stn_ne_number(stn_tensor *input, double other);

/** Whether input < other, for a number. As stn_eq. */
STN_API stn_tensor *stn_lt_number(stn_tensor *input, double other);

/** Whether input <= other, for a number. As stn_eq. */
STN_API stn_tensor *stn_le_number(stn_tensor *input, double other);

/** Whether input > other, for a number. As stn_eq. */
STN_API stn_tensor *stn_gt_number(stn_tensor *input, double other);

/** Whether input >= other, for a number. As stn_eq. */
STN_API stn_tensor *stn_ge_number(stn_tensor *input, double other);

/** Whether both are not 0, of any dtype.  @return as stn_add. */
STN_API stn_tensor *stn_logical_and(stn_tensor *input, stn_tensor *other);

/** Whether either is not 0. As stn_logical_and. */
STN_API stn_tensor *stn_logical_or(stn_tensor *input, stn_tensor *other);

/** Whether exactly one is not 0. As stn_logical_and. */
STN_API stn_tensor *stn_logical_xor(stn_tensor *input, stn_tensor *other);

/** Whether input is 0. As stn_logical_and. */
STN_API stn_tensor *stn_logical_not(stn_tensor *input);

/** Whether elements are NaN. */
STN_API stn_tensor *stn_isnan(stn_tensor *input);

/** Whether elements are infinite, of complex ones whether a part is. */
STN_API stn_tensor *stn_isinf(stn_tensor *input);

/** Whether elements are neither NaN nor infinite. */
STN_API stn_tensor *stn_isfinite(stn_tensor *input);

/* Bits of integers and bool. Shapes and placement as of comparisons, dtype promoted; there is no gradient. */

/** The bits that both have.  @return as stn_add; STN_ERR_DTYPE (floating, complex). */
STN_API stn_tensor *stn_bitwise_and(stn_tensor *input, stn_tensor *other);

/** The bits that input and a number have: bool gives i64, other dtypes stay. As stn_bitwise_and. */
STN_API stn_tensor *stn_bitwise_and_number(stn_tensor *input, int64_t other);

/** The bits that either has. As stn_bitwise_and. */
STN_API stn_tensor *stn_bitwise_or(stn_tensor *input, stn_tensor *other);

/** The bits that input or a number has. As stn_bitwise_and_number. */
STN_API stn_tensor *stn_bitwise_or_number(stn_tensor *input, int64_t other);

/** The bits that exactly one has. As stn_bitwise_and. */
STN_API stn_tensor *stn_bitwise_xor(stn_tensor *input, stn_tensor *other);

/** The bits that exactly one of input and a number has. As stn_bitwise_and_number. */
STN_API stn_tensor *stn_bitwise_xor_number(stn_tensor *input, int64_t other);

/** The bits that input has not; of bool the other truth. As stn_bitwise_and. */
STN_API stn_tensor *stn_bitwise_not(stn_tensor *input);

/* Functions of one operand, element by element.
 *
 * Shapes:     (d0, …) -> same shape, and dtype but where it says otherwise.
 * Placement:  keeps input's Shards. Partial is reduced first but where it says otherwise.
 * Collective: over the mesh where Partial is reduced.
 * Gradient:   yes, twice differentiable, but where it says otherwise.
 * @return new tensor; STN_ERR_DTYPE, STN_ERR_MEMORY, STN_ERR_COMM. */

/** -input; keeps Partial(sum). Not for bool. */
STN_API stn_tensor *stn_neg(stn_tensor *input);

/** |input|; of complex numbers real, and then once differentiable. */
STN_API stn_tensor *stn_abs(stn_tensor *input);

/** -1, 0 or 1. Gradient: zero. Not for complex numbers. */
STN_API stn_tensor *stn_sign(stn_tensor *input);

/** Rounded down. Gradient: zero. Not for bool and complex numbers. */
STN_API stn_tensor *stn_floor(stn_tensor *input);

/** Rounded up. As stn_floor. */
STN_API stn_tensor *stn_ceil(stn_tensor *input);

/** Rounded towards zero. As stn_floor. */
STN_API stn_tensor *stn_trunc(stn_tensor *input);

/** Rounded to the nearest, half to even; `decimals` places after the point, before it where negative. As stn_floor. */
STN_API stn_tensor *stn_round(stn_tensor *input, int decimals);

/** `nan` for NaN, *posinf and *neginf for infinities (NULL: the largest and the least finite value of the dtype). Not
 *  for complex numbers.  Gradient: of what was not replaced. */
STN_API stn_tensor *stn_nan_to_num(stn_tensor *input, double nan, const double *posinf, const double *neginf);

/** The real part; keeps Partial(sum). Of real numbers the numbers themselves. */
STN_API stn_tensor *stn_real(stn_tensor *input);

/** The imaginary part, of complex numbers only. As stn_real. */
STN_API stn_tensor *stn_imag(stn_tensor *input);

/** The angle in the complex plane, -pi to pi; 0 or pi for real numbers. Real. Partial is reduced first. */
STN_API stn_tensor *stn_angle(stn_tensor *input);

/** input times itself. Not for bool. */
STN_API stn_tensor *stn_square(stn_tensor *input);

/* Integers and bool give f32. */

/** e^x. */
STN_API stn_tensor *stn_exp(stn_tensor *input);

/** 2^x. */
STN_API stn_tensor *stn_exp2(stn_tensor *input);

/** e^x - 1, exact near 0. */
STN_API stn_tensor *stn_expm1(stn_tensor *input);

/** The natural logarithm. */
STN_API stn_tensor *stn_log(stn_tensor *input);

/** The logarithm to base 2. */
STN_API stn_tensor *stn_log2(stn_tensor *input);

/** The logarithm to base 10. */
STN_API stn_tensor *stn_log10(stn_tensor *input);

/** log(1 + x), exact near 0. */
STN_API stn_tensor *stn_log1p(stn_tensor *input);

/** The square root; NaN below 0. */
STN_API stn_tensor *stn_sqrt(stn_tensor *input);

/** 1 / sqrt(x). */
STN_API stn_tensor *stn_rsqrt(stn_tensor *input);

/** 1 / x. */
STN_API stn_tensor *stn_reciprocal(stn_tensor *input);

/** Hyperbolic sine. */
STN_API stn_tensor *stn_sinh(stn_tensor *input);

/** Hyperbolic cosine. */
STN_API stn_tensor *stn_cosh(stn_tensor *input);

/** Hyperbolic tangent. */
STN_API stn_tensor *stn_tanh(stn_tensor *input);

/** Inverse hyperbolic sine. */
STN_API stn_tensor *stn_asinh(stn_tensor *input);

/** Inverse hyperbolic cosine, 0 or more; NaN below 1. */
STN_API stn_tensor *stn_acosh(stn_tensor *input);

/** Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond. */
STN_API stn_tensor *stn_atanh(stn_tensor *input);

/** 1 / (1 + e^-x). */
STN_API stn_tensor *stn_sigmoid(stn_tensor *input);

/** log(x / (1 - x)) of x within eps and 1 - eps; eps NULL: NaN beyond 0 and 1. Not of complex numbers. */
STN_API stn_tensor *stn_logit(stn_tensor *input, const double *eps);

/** Sine, of radians. */
STN_API stn_tensor *stn_sin(stn_tensor *input);

/** Cosine, of radians. */
STN_API stn_tensor *stn_cos(stn_tensor *input);

/** Tangent, of radians. */
STN_API stn_tensor *stn_tan(stn_tensor *input);

/** Arc sine, -pi/2 to pi/2. */
STN_API stn_tensor *stn_asin(stn_tensor *input);

/** Arc cosine, 0 to pi. */
STN_API stn_tensor *stn_acos(stn_tensor *input);

/** Arc tangent, -pi/2 to pi/2. */
STN_API stn_tensor *stn_atan(stn_tensor *input);

/** The error function; not of complex numbers. */
STN_API stn_tensor *stn_erf(stn_tensor *input);

/** 1 - erf(x), exact where that is small; not of complex numbers. */
STN_API stn_tensor *stn_erfc(stn_tensor *input);

/* Activations, of floating dtypes; relu and threshold of integers too. */

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

/** max(x, 0). */
STN_API stn_tensor *stn_relu(stn_tensor *input);

/** x sigmoid(x). Source: Elfwing, Uchibe and Doya 2017. */
STN_API stn_tensor *stn_silu(stn_tensor *input);

/** x tanh(log(1 + e^x)). Source: Misra 2019. */
STN_API stn_tensor *stn_mish(stn_tensor *input);

/** log(sigmoid(x)). */
STN_API stn_tensor *stn_logsigmoid(stn_tensor *input);

/** The self-normalising stn_elu: scale 1.0507, alpha 1.6733. Source: Klambauer et al. 2017. */
STN_API stn_tensor *stn_selu(stn_tensor *input);

/** x within 0 and 6. */
STN_API stn_tensor *stn_relu6(stn_tensor *input);

/** x / 6 + 1 / 2 within 0 and 1. */
STN_API stn_tensor *stn_hardsigmoid(stn_tensor *input);

/** x hardsigmoid(x). Source: Howard et al. 2019. */
STN_API stn_tensor *stn_hardswish(stn_tensor *input);

/** x / (1 + |x|), NaN of infinities as PyTorch's; integers and bool give f32. */
STN_API stn_tensor *stn_softsign(stn_tensor *input);

/** log(1 + e^(beta x)) / beta; x where beta x exceeds the threshold. PyTorch's defaults: 1, 20. */
STN_API stn_tensor *stn_softplus(stn_tensor *input, double beta, double threshold);

/** x where positive, else alpha (e^x - 1). PyTorch's default: 1. */
STN_API stn_tensor *stn_elu(stn_tensor *input, double alpha);

/** max(x, 0) + min(0, alpha (e^(x / alpha) - 1)). PyTorch's default: 1. */
STN_API stn_tensor *stn_celu(stn_tensor *input, double alpha);

/** x where positive, else negative_slope x. PyTorch's default: 0.01. */
STN_API stn_tensor *stn_leaky_relu(stn_tensor *input, double negative_slope);

/** x within min_val and max_val. PyTorch's defaults: -1, 1. */
STN_API stn_tensor *stn_hardtanh(stn_tensor *input, double min_val, double max_val);

/** 0 from -lambd to lambd, else x. PyTorch's default: 0.5. */
STN_API stn_tensor *stn_hardshrink(stn_tensor *input, double lambd);

/** 0 from -lambd to lambd, else x moved towards 0 by lambd. PyTorch's default: 0.5.
 *  @return as stn_relu; STN_ERR_ARGUMENT (lambd below 0, infinite or NaN). */
STN_API stn_tensor *stn_softshrink(stn_tensor *input, double lambd);

/** x above `threshold`, else `value`; NaN stays. Of integers too, with whole numbers. */
STN_API stn_tensor *stn_threshold(stn_tensor *input, double threshold, double value);

/** x where positive, else weight x: one weight for all, or one for each size of dim 1. Gradient: to both.
 *  @return as stn_relu; STN_ERR_SHAPE (weight), STN_ERR_DTYPE (they differ). Source: He et al. 2015. */
STN_API stn_tensor *stn_prelu(stn_tensor *input, stn_tensor *weight);

/** The first half of `dim` times the sigmoid of the second. Where `dim` is sharded, its halves lie as results of
 *  stn_narrow.
 *  @return as stn_relu, with half the size along dim; STN_ERR_ARGUMENT (dim), STN_ERR_SHAPE (its size is odd).
 *  Source: Dauphin et al. 2017. */
STN_API stn_tensor *stn_glu(stn_tensor *input, int dim);

STN_END_DECLS
#endif
