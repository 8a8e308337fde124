/* The functions that rows of arithmetic name, for the types of a column. Read by C for kernels of the CPU, and by
 * C++ for kernels of CUDA devices: what the languages spell in different ways stands in a header for each. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_FUNCTIONS_H
#define STNI_OPS_ELEMENTWISE_KERNELS_FUNCTIONS_H

#include "ops/elementwise/kernels/function_words.h"

/* An integer divided by 0 gives 0, as does its rest; by -1 it wraps. */
STNI_INLINE int64_t quotient_i64(int64_t x, int64_t y)
{
    return y == 0 ? 0 : y == -1 ? -x : x / y;
}

STNI_INLINE int64_t fmod_i64(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}

STNI_INLINE int64_t remainder_i64(int64_t x, int64_t y)
{
    int64_t rest = fmod_i64(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

STNI_INLINE int64_t floor_quotient_i64(int64_t x, int64_t y)
{
    return quotient_i64(x, y) - (fmod_i64(x, y) != 0 && (x < 0) != (y < 0));
}

/* By squaring; a negative exponent leaves of 1 and -1 what they are, of others 0. */
STNI_INLINE int64_t pow_i64(int64_t x, int64_t y)
{
    int64_t power = 1;
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    for (; y > 0; y >>= 1, x *= x)
        power *= y & 1 ? x : 1;
    return power;
}

#define T float
#define NAME(name) name##_f32
#define LIBM(name) name##f
#define LARGEST FLT_MAX
#define COMPLEX_NAME(name) name##_c64
#define COMPLEX_T COMPLEX_F32
#include "ops/elementwise/kernels/functions_tmpl.h"
#define T double
#define NAME(name) name##_f64
#define LIBM(name) name
#define LARGEST DBL_MAX
#define COMPLEX_NAME(name) name##_c128
#define COMPLEX_T COMPLEX_F64
#include "ops/elementwise/kernels/functions_tmpl.h"

#define COMPLEX_MUL(x, y) COMPLEX_ONLY(x, mul_c64, mul_c128)(x, y)

#define EXP(x) ANALYTIC(x, stni_exp_f32, stni_exp_f64, cexpf, cexp)(x)
#define EXP_ADDEND(x) FLOATING(x, stni_exp_addend_f32, stni_exp_addend_f64)(x)
#define EXP_NEGATIVE(x) FLOATING(x, stni_exp_negative_f32, stni_exp_negative_f64)(x)
#define EXP2(x) ANALYTIC(x, stni_exp2_f32, stni_exp2_f64, exp2_c64, exp2_c128)(x)
#define EXPM1(x) ANALYTIC(x, stni_expm1_f32, stni_expm1_f64, expm1_c64, expm1_c128)(x)
#define LOG(x) ANALYTIC(x, stni_log_f32, stni_log_f64, clogf, clog)(x)
#define LOG2(x) ANALYTIC(x, stni_log2_f32, stni_log2_f64, log2_c64, log2_c128)(x)
#define LOG10(x) ANALYTIC(x, stni_log10_f32, stni_log10_f64, log10_c64, log10_c128)(x)
#define LOG1P(x) ANALYTIC(x, stni_log1p_f32, stni_log1p_f64, log1p_c64, log1p_c128)(x)
#define LOG1P_UNIT(x) FLOATING(x, stni_log1p_unit_f32, stni_log1p_f64)(x)
#define SQUARE(x) FLOATING(x, stni_square_f32, stni_square_f64)(x)
#define SQRT(x) ANALYTIC(x, sqrtf, sqrt, csqrtf, csqrt)(x)
#define SINH(x) ANALYTIC(x, stni_sinh_f32, stni_sinh_f64, csinhf, csinh)(x)
#define COSH(x) ANALYTIC(x, stni_cosh_f32, stni_cosh_f64, ccoshf, ccosh)(x)
#define TANH(x) ANALYTIC(x, stni_tanh_f32, stni_tanh_f64, ctanhf, ctanh)(x)
#define ASINH(x) ANALYTIC(x, stni_asinh_f32, stni_asinh_f64, casinhf, casinh)(x)
#define ACOSH(x) ANALYTIC(x, stni_acosh_f32, stni_acosh_f64, cacoshf, cacosh)(x)
#define ATANH(x) ANALYTIC(x, stni_atanh_f32, stni_atanh_f64, catanhf, catanh)(x)
#define ACOSH_SLOPE(x) ANALYTIC(x, acosh_slope_f32, acosh_slope_f64, acosh_slope_c64, acosh_slope_c128)(x)
#define ACOSH_BEND(x) ANALYTIC(x, acosh_bend_f32, acosh_bend_f64, acosh_bend_c64, acosh_bend_c128)(x)
#define LOGIT(x) FLOATING(x, stni_logit_f32, stni_logit_f64)(x)
#define SIGMOID(x) ANALYTIC(x, stni_sigmoid_f32, stni_sigmoid_f64, sigmoid_c64, sigmoid_c128)(x)
/* trigonometry_block.c has its own. */
#define SIN_F32 sinf
#define COS_F32 cosf
#define TAN_F32 tanf
#define SIN_F64 sin
#define COS_F64 cos
#define TAN_F64 tan
#define SIN(x) ANALYTIC(x, SIN_F32, SIN_F64, csinf, csin)(x)
#define COS(x) ANALYTIC(x, COS_F32, COS_F64, ccosf, ccos)(x)
#define TAN(x) ANALYTIC(x, TAN_F32, TAN_F64, ctanf, ctan)(x)
#define ASIN(x) ANALYTIC(x, stni_asin_f32, stni_asin_f64, casinf, casin)(x)
#define ACOS(x) ANALYTIC(x, stni_acos_f32, stni_acos_f64, cacosf, cacos)(x)
#define ATAN(x) ANALYTIC(x, stni_atan_f32, stni_atan_f64, catanf, catan)(x)
#define ABS(x) ANALYTIC(x, fabsf, fabs, cabsf, cabs)(x)
#define POW(x, y) ANALYTIC_OR_INTEGER(x, stni_pow_f32, stni_pow_f64, cpowf, cpow, pow_i64)(x, y)

#define ATAN2(x, y) FLOATING(x, stni_atan2_f32, stni_atan2_f64)(x, y)
#define ANGLE_SLOPE(x, y, z) FLOATING(x, angle_slope_f32, angle_slope_f64)(x, y, z)
#define HYPOT(x, y) FLOATING(x, stni_hypot_f32, stni_hypot_f64)(x, y)
#define COPYSIGN(x, y) FLOATING(x, copysignf, copysign)(x, y)
#define FLOOR(x) FLOATING(x, floorf, floor)(x)
#define CEIL(x) FLOATING(x, ceilf, ceil)(x)
#define TRUNC(x) FLOATING(x, truncf, trunc)(x)
#define ROUND(x, a, b) FLOATING(x, round_f32, round_f64)(x, a, b)
#define LERP(x, y, z) FLOATING(x, lerp_f32, lerp_f64)(x, y, z)
#define MOST(x) FLOATING(x, most_f32, most_f64)(x)
#define IS_INFINITE(x) (ABS(x) > MOST(x))
#define FMOD(x, y) WITH_INTEGERS(x, fmodf, fmod, fmod_i64)(x, y)
#define REMAINDER(x, y) WITH_INTEGERS(x, remainder_f32, remainder_f64, remainder_i64)(x, y)
#define QUOTIENT(x, y) quotient_i64(x, y)
#define FLOOR_QUOTIENT(x, y) WITH_INTEGERS(x, floor_quotient_f32, floor_quotient_f64, floor_quotient_i64)(x, y)

/* NaN wins: the sum is NaN where neither comparison holds. Among equals it is x, so that a bound of 0 leaves -0 as
 * it is. */
#define MAXIMUM(x, y) ((x) < (y) ? (y) : (x) >= (y) ? (x) : (x) + (y))
#define MINIMUM(x, y) ((x) > (y) ? (y) : (x) <= (y) ? (x) : (x) + (y))
#define LIMIT(x, low, high) MINIMUM(MAXIMUM(x, low), high)
/* Equal operands may be infinite: these have no difference. */
#define LOGADDEXP(x, y) (MAXIMUM(x, y) + LOG1P_UNIT(EXP_NEGATIVE((x) == (y) ? 0 : -ABS((x) - (y)))))
/* Between constants. */
#define WITHIN(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))

#endif
