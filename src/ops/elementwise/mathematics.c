/* The typed functions of unary functions without attributes, from exp to erfc. exponential.h, trigonometry.h, activation.h and unary_list.h describe
 * them. */
#include "ops/common/call.h"

#include <shardtensor/ops_pointwise.h>

stn_tensor *stn_square(stn_tensor *input)
{
    return stni_call(STNI_OP_square, 1, &input, NULL);
}

stn_tensor *stn_exp(stn_tensor *input)
{
    return stni_call(STNI_OP_exp, 1, &input, NULL);
}

stn_tensor *stn_exp2(stn_tensor *input)
{
    return stni_call(STNI_OP_exp2, 1, &input, NULL);
}

stn_tensor *stn_expm1(stn_tensor *input)
{
    return stni_call(STNI_OP_expm1, 1, &input, NULL);
}

stn_tensor *stn_log(stn_tensor *input)
{
    return stni_call(STNI_OP_log, 1, &input, NULL);
}

stn_tensor *stn_log2(stn_tensor *input)
{
    return stni_call(STNI_OP_log2, 1, &input, NULL);
}

stn_tensor *stn_log1p(stn_tensor *input)
{
    return stni_call(STNI_OP_log1p, 1, &input, NULL);
}

stn_tensor *stn_sqrt(stn_tensor *input)
{
    return stni_call(STNI_OP_sqrt, 1, &input, NULL);
}

stn_tensor *stn_rsqrt(stn_tensor *input)
{
    return stni_call(STNI_OP_rsqrt, 1, &input, NULL);
}

stn_tensor *stn_reciprocal(stn_tensor *input)
{
    return stni_call(STNI_OP_reciprocal, 1, &input, NULL);
}

stn_tensor *stn_sinh(stn_tensor *input)
{
    return stni_call(STNI_OP_sinh, 1, &input, NULL);
}

stn_tensor *stn_cosh(stn_tensor *input)
{
    return stni_call(STNI_OP_cosh, 1, &input, NULL);
}

stn_tensor *stn_tanh(stn_tensor *input)
{
    return stni_call(STNI_OP_tanh, 1, &input, NULL);
}

stn_tensor *stn_sigmoid(stn_tensor *input)
{
    return stni_call(STNI_OP_sigmoid, 1, &input, NULL);
}

stn_tensor *stn_sin(stn_tensor *input)
{
    return stni_call(STNI_OP_sin, 1, &input, NULL);
}

stn_tensor *stn_cos(stn_tensor *input)
{
    return stni_call(STNI_OP_cos, 1, &input, NULL);
}

stn_tensor *stn_tan(stn_tensor *input)
{
    return stni_call(STNI_OP_tan, 1, &input, NULL);
}

stn_tensor *stn_asin(stn_tensor *input)
{
    return stni_call(STNI_OP_asin, 1, &input, NULL);
}

stn_tensor *stn_acos(stn_tensor *input)
{
    return stni_call(STNI_OP_acos, 1, &input, NULL);
}

stn_tensor *stn_atan(stn_tensor *input)
{
    return stni_call(STNI_OP_atan, 1, &input, NULL);
}

stn_tensor *stn_erf(stn_tensor *input)
{
    return stni_call(STNI_OP_erf, 1, &input, NULL);
}

stn_tensor *stn_erfc(stn_tensor *input)
{
    return stni_call(STNI_OP_erfc, 1, &input, NULL);
}
