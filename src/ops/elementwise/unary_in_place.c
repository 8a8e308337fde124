/* Unary functions in place: the typed functions. */
#include "ops/elementwise/unary_rule.h"
#include "ops/common/call.h"

#include <shardtensor/ops_in_place.h>

stn_tensor *stn_square_(stn_tensor *input)
{
    return stni_call(STNI_OP_square_, 1, &input, NULL);
}

stn_tensor *stn_relu_(stn_tensor *input)
{
    return stni_call(STNI_OP_relu_, 1, &input, NULL);
}

stn_tensor *stn_exp_(stn_tensor *input)
{
    return stni_call(STNI_OP_exp_, 1, &input, NULL);
}

stn_tensor *stn_exp2_(stn_tensor *input)
{
    return stni_call(STNI_OP_exp2_, 1, &input, NULL);
}

stn_tensor *stn_expm1_(stn_tensor *input)
{
    return stni_call(STNI_OP_expm1_, 1, &input, NULL);
}

stn_tensor *stn_log_(stn_tensor *input)
{
    return stni_call(STNI_OP_log_, 1, &input, NULL);
}

stn_tensor *stn_log2_(stn_tensor *input)
{
    return stni_call(STNI_OP_log2_, 1, &input, NULL);
}

stn_tensor *stn_log1p_(stn_tensor *input)
{
    return stni_call(STNI_OP_log1p_, 1, &input, NULL);
}

stn_tensor *stn_sqrt_(stn_tensor *input)
{
    return stni_call(STNI_OP_sqrt_, 1, &input, NULL);
}

stn_tensor *stn_rsqrt_(stn_tensor *input)
{
    return stni_call(STNI_OP_rsqrt_, 1, &input, NULL);
}

stn_tensor *stn_reciprocal_(stn_tensor *input)
{
    return stni_call(STNI_OP_reciprocal_, 1, &input, NULL);
}

stn_tensor *stn_sinh_(stn_tensor *input)
{
    return stni_call(STNI_OP_sinh_, 1, &input, NULL);
}

stn_tensor *stn_cosh_(stn_tensor *input)
{
    return stni_call(STNI_OP_cosh_, 1, &input, NULL);
}

stn_tensor *stn_tanh_(stn_tensor *input)
{
    return stni_call(STNI_OP_tanh_, 1, &input, NULL);
}

stn_tensor *stn_sigmoid_(stn_tensor *input)
{
    return stni_call(STNI_OP_sigmoid_, 1, &input, NULL);
}

stn_tensor *stn_sin_(stn_tensor *input)
{
    return stni_call(STNI_OP_sin_, 1, &input, NULL);
}

stn_tensor *stn_cos_(stn_tensor *input)
{
    return stni_call(STNI_OP_cos_, 1, &input, NULL);
}

stn_tensor *stn_tan_(stn_tensor *input)
{
    return stni_call(STNI_OP_tan_, 1, &input, NULL);
}

stn_tensor *stn_asin_(stn_tensor *input)
{
    return stni_call(STNI_OP_asin_, 1, &input, NULL);
}

stn_tensor *stn_acos_(stn_tensor *input)
{
    return stni_call(STNI_OP_acos_, 1, &input, NULL);
}

stn_tensor *stn_atan_(stn_tensor *input)
{
    return stni_call(STNI_OP_atan_, 1, &input, NULL);
}

stn_tensor *stn_erf_(stn_tensor *input)
{
    return stni_call(STNI_OP_erf_, 1, &input, NULL);
}

stn_tensor *stn_erfc_(stn_tensor *input)
{
    return stni_call(STNI_OP_erfc_, 1, &input, NULL);
}

stn_tensor *stn_gelu_(stn_tensor *input, stn_gelu_approximation approximation)
{
    const int64_t attrs = approximation;
    if (approximation != STN_GELU_ERF && approximation != STN_GELU_TANH)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "gelu_: approximation got %d, wanted STN_GELU_ERF or STN_GELU_TANH", (int)approximation);
    return stni_call(STNI_OP_gelu_, 1, &input, &attrs);
}

stn_tensor *stn_silu_(stn_tensor *input)
{
    return stni_call(STNI_OP_silu_, 1, &input, NULL);
}

stn_tensor *stn_mish_(stn_tensor *input)
{
    return stni_call(STNI_OP_mish_, 1, &input, NULL);
}

stn_tensor *stn_softplus_(stn_tensor *input, double beta, double threshold)
{
    const struct stni_unary_attrs attrs = {beta, threshold};
    return stni_call(STNI_OP_softplus_, 1, &input, &attrs);
}

stn_tensor *stn_logsigmoid_(stn_tensor *input)
{
    return stni_call(STNI_OP_logsigmoid_, 1, &input, NULL);
}

stn_tensor *stn_elu_(stn_tensor *input, double alpha)
{
    const struct stni_unary_attrs attrs = {alpha, 0};
    return stni_call(STNI_OP_elu_, 1, &input, &attrs);
}

stn_tensor *stn_celu_(stn_tensor *input, double alpha)
{
    const struct stni_unary_attrs attrs = {alpha, 0};
    return stni_call(STNI_OP_celu_, 1, &input, &attrs);
}

stn_tensor *stn_selu_(stn_tensor *input)
{
    return stni_call(STNI_OP_selu_, 1, &input, NULL);
}

stn_tensor *stn_leaky_relu_(stn_tensor *input, double negative_slope)
{
    const struct stni_unary_attrs attrs = {negative_slope, 0};
    return stni_call(STNI_OP_leaky_relu_, 1, &input, &attrs);
}

stn_tensor *stn_relu6_(stn_tensor *input)
{
    return stni_call(STNI_OP_relu6_, 1, &input, NULL);
}

stn_tensor *stn_hardtanh_(stn_tensor *input, double min_val, double max_val)
{
    const struct stni_unary_attrs attrs = {min_val, max_val};
    return stni_call(STNI_OP_hardtanh_, 1, &input, &attrs);
}

stn_tensor *stn_hardsigmoid_(stn_tensor *input)
{
    return stni_call(STNI_OP_hardsigmoid_, 1, &input, NULL);
}

stn_tensor *stn_hardswish_(stn_tensor *input)
{
    return stni_call(STNI_OP_hardswish_, 1, &input, NULL);
}
