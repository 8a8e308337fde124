/* The typed functions of unary functions without attributes, from exp to erfc, and those in place. exponential.h,
 * trigonometry.h and unary_list.h describe them. */
#include "ops/common/call.h"

#include <shardtensor/ops_in_place.h>

stn_tensor *stn_square(stn_tensor *input)
{
    return stni_call(STNI_OP_square, 1, &input, NULL);
}

stn_tensor *stn_square_(stn_tensor *input)
{
    return stni_call(STNI_OP_square_, 1, &input, NULL);
}

stn_tensor *stn_exp(stn_tensor *input)
{
    return stni_call(STNI_OP_exp, 1, &input, NULL);
}

stn_tensor *stn_exp_(stn_tensor *input)
{
    return stni_call(STNI_OP_exp_, 1, &input, NULL);
}

stn_tensor *stn_exp2(stn_tensor *input)
{
    return stni_call(STNI_OP_exp2, 1, &input, NULL);
}

stn_tensor *stn_exp2_(stn_tensor *input)
{
    return stni_call(STNI_OP_exp2_, 1, &input, NULL);
}

stn_tensor *stn_expm1(stn_tensor *input)
{
    return stni_call(STNI_OP_expm1, 1, &input, NULL);
}

stn_tensor *stn_expm1_(stn_tensor *input)
{
    return stni_call(STNI_OP_expm1_, 1, &input, NULL);
}

stn_tensor *stn_log(stn_tensor *input)
{
    return stni_call(STNI_OP_log, 1, &input, NULL);
}

stn_tensor *stn_log_(stn_tensor *input)
{
    return stni_call(STNI_OP_log_, 1, &input, NULL);
}

stn_tensor *stn_log2(stn_tensor *input)
{
    return stni_call(STNI_OP_log2, 1, &input, NULL);
}

stn_tensor *stn_log2_(stn_tensor *input)
{
    return stni_call(STNI_OP_log2_, 1, &input, NULL);
}

stn_tensor *stn_log10(stn_tensor *input)
{
    return stni_call(STNI_OP_log10, 1, &input, NULL);
}

stn_tensor *stn_log10_(stn_tensor *input)
{
    return stni_call(STNI_OP_log10_, 1, &input, NULL);
}

stn_tensor *stn_log1p(stn_tensor *input)
{
    return stni_call(STNI_OP_log1p, 1, &input, NULL);
}

stn_tensor *stn_log1p_(stn_tensor *input)
{
    return stni_call(STNI_OP_log1p_, 1, &input, NULL);
}

stn_tensor *stn_sqrt(stn_tensor *input)
{
    return stni_call(STNI_OP_sqrt, 1, &input, NULL);
}

stn_tensor *stn_sqrt_(stn_tensor *input)
{
    return stni_call(STNI_OP_sqrt_, 1, &input, NULL);
}

stn_tensor *stn_rsqrt(stn_tensor *input)
{
    return stni_call(STNI_OP_rsqrt, 1, &input, NULL);
}

stn_tensor *stn_rsqrt_(stn_tensor *input)
{
    return stni_call(STNI_OP_rsqrt_, 1, &input, NULL);
}

stn_tensor *stn_reciprocal(stn_tensor *input)
{
    return stni_call(STNI_OP_reciprocal, 1, &input, NULL);
}

stn_tensor *stn_reciprocal_(stn_tensor *input)
{
    return stni_call(STNI_OP_reciprocal_, 1, &input, NULL);
}

stn_tensor *stn_sinh(stn_tensor *input)
{
    return stni_call(STNI_OP_sinh, 1, &input, NULL);
}

stn_tensor *stn_sinh_(stn_tensor *input)
{
    return stni_call(STNI_OP_sinh_, 1, &input, NULL);
}

stn_tensor *stn_cosh(stn_tensor *input)
{
    return stni_call(STNI_OP_cosh, 1, &input, NULL);
}

stn_tensor *stn_cosh_(stn_tensor *input)
{
    return stni_call(STNI_OP_cosh_, 1, &input, NULL);
}

stn_tensor *stn_tanh(stn_tensor *input)
{
    return stni_call(STNI_OP_tanh, 1, &input, NULL);
}

stn_tensor *stn_tanh_(stn_tensor *input)
{
    return stni_call(STNI_OP_tanh_, 1, &input, NULL);
}

stn_tensor *stn_asinh(stn_tensor *input)
{
    return stni_call(STNI_OP_asinh, 1, &input, NULL);
}

stn_tensor *stn_asinh_(stn_tensor *input)
{
    return stni_call(STNI_OP_asinh_, 1, &input, NULL);
}

stn_tensor *stn_acosh(stn_tensor *input)
{
    return stni_call(STNI_OP_acosh, 1, &input, NULL);
}

stn_tensor *stn_acosh_(stn_tensor *input)
{
    return stni_call(STNI_OP_acosh_, 1, &input, NULL);
}

stn_tensor *stn_atanh(stn_tensor *input)
{
    return stni_call(STNI_OP_atanh, 1, &input, NULL);
}

stn_tensor *stn_atanh_(stn_tensor *input)
{
    return stni_call(STNI_OP_atanh_, 1, &input, NULL);
}

stn_tensor *stn_sigmoid(stn_tensor *input)
{
    return stni_call(STNI_OP_sigmoid, 1, &input, NULL);
}

stn_tensor *stn_sigmoid_(stn_tensor *input)
{
    return stni_call(STNI_OP_sigmoid_, 1, &input, NULL);
}

stn_tensor *stn_sin(stn_tensor *input)
{
    return stni_call(STNI_OP_sin, 1, &input, NULL);
}

stn_tensor *stn_sin_(stn_tensor *input)
{
    return stni_call(STNI_OP_sin_, 1, &input, NULL);
}

stn_tensor *stn_cos(stn_tensor *input)
{
    return stni_call(STNI_OP_cos, 1, &input, NULL);
}

stn_tensor *stn_cos_(stn_tensor *input)
{
    return stni_call(STNI_OP_cos_, 1, &input, NULL);
}

stn_tensor *stn_tan(stn_tensor *input)
{
    return stni_call(STNI_OP_tan, 1, &input, NULL);
}

stn_tensor *stn_tan_(stn_tensor *input)
{
    return stni_call(STNI_OP_tan_, 1, &input, NULL);
}

stn_tensor *stn_asin(stn_tensor *input)
{
    return stni_call(STNI_OP_asin, 1, &input, NULL);
}

stn_tensor *stn_asin_(stn_tensor *input)
{
    return stni_call(STNI_OP_asin_, 1, &input, NULL);
}

stn_tensor *stn_acos(stn_tensor *input)
{
    return stni_call(STNI_OP_acos, 1, &input, NULL);
}

stn_tensor *stn_acos_(stn_tensor *input)
{
    return stni_call(STNI_OP_acos_, 1, &input, NULL);
}

stn_tensor *stn_atan(stn_tensor *input)
{
    return stni_call(STNI_OP_atan, 1, &input, NULL);
}

stn_tensor *stn_atan_(stn_tensor *input)
{
    return stni_call(STNI_OP_atan_, 1, &input, NULL);
}

stn_tensor *stn_erf(stn_tensor *input)
{
    return stni_call(STNI_OP_erf, 1, &input, NULL);
}

stn_tensor *stn_erf_(stn_tensor *input)
{
    return stni_call(STNI_OP_erf_, 1, &input, NULL);
}

stn_tensor *stn_erfc(stn_tensor *input)
{
    return stni_call(STNI_OP_erfc, 1, &input, NULL);
}

stn_tensor *stn_erfc_(stn_tensor *input)
{
    return stni_call(STNI_OP_erfc_, 1, &input, NULL);
}
