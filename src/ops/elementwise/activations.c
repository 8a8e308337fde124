/* The typed functions of the activations of activation.h, and those in place. */
#include "ops/elementwise/unary_rule.h"
#include "ops/common/call.h"

#include <shardtensor/ops_in_place.h>

static stn_tensor *call_gelu(enum stni_op_index op, stn_tensor *input, stn_gelu_approximation approximation)
{
    const int64_t attrs = approximation;
    if (approximation != STN_GELU_ERF && approximation != STN_GELU_TANH)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: approximation got %d, wanted STN_GELU_ERF or STN_GELU_TANH",
                              stni_op_table[op]->name, (int)approximation);
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stn_gelu(stn_tensor *input, stn_gelu_approximation approximation)
{
    return call_gelu(STNI_OP_gelu, input, approximation);
}

stn_tensor *stn_gelu_(stn_tensor *input, stn_gelu_approximation approximation)
{
    return call_gelu(STNI_OP_gelu_, input, approximation);
}

stn_tensor *stn_relu(stn_tensor *input)
{
    return stni_call(STNI_OP_relu, 1, &input, NULL);
}

stn_tensor *stn_relu_(stn_tensor *input)
{
    return stni_call(STNI_OP_relu_, 1, &input, NULL);
}

stn_tensor *stn_silu(stn_tensor *input)
{
    return stni_call(STNI_OP_silu, 1, &input, NULL);
}

stn_tensor *stn_silu_(stn_tensor *input)
{
    return stni_call(STNI_OP_silu_, 1, &input, NULL);
}

stn_tensor *stn_mish(stn_tensor *input)
{
    return stni_call(STNI_OP_mish, 1, &input, NULL);
}

stn_tensor *stn_mish_(stn_tensor *input)
{
    return stni_call(STNI_OP_mish_, 1, &input, NULL);
}

stn_tensor *stn_logsigmoid(stn_tensor *input)
{
    return stni_call(STNI_OP_logsigmoid, 1, &input, NULL);
}

stn_tensor *stn_logsigmoid_(stn_tensor *input)
{
    return stni_call(STNI_OP_logsigmoid_, 1, &input, NULL);
}

stn_tensor *stn_selu(stn_tensor *input)
{
    return stni_call(STNI_OP_selu, 1, &input, NULL);
}

stn_tensor *stn_selu_(stn_tensor *input)
{
    return stni_call(STNI_OP_selu_, 1, &input, NULL);
}

stn_tensor *stn_relu6(stn_tensor *input)
{
    return stni_call(STNI_OP_relu6, 1, &input, NULL);
}

stn_tensor *stn_relu6_(stn_tensor *input)
{
    return stni_call(STNI_OP_relu6_, 1, &input, NULL);
}

stn_tensor *stn_hardsigmoid(stn_tensor *input)
{
    return stni_call(STNI_OP_hardsigmoid, 1, &input, NULL);
}

stn_tensor *stn_hardsigmoid_(stn_tensor *input)
{
    return stni_call(STNI_OP_hardsigmoid_, 1, &input, NULL);
}

stn_tensor *stn_hardswish(stn_tensor *input)
{
    return stni_call(STNI_OP_hardswish, 1, &input, NULL);
}

stn_tensor *stn_hardswish_(stn_tensor *input)
{
    return stni_call(STNI_OP_hardswish_, 1, &input, NULL);
}

stn_tensor *stn_softsign(stn_tensor *input)
{
    return stni_call(STNI_OP_softsign, 1, &input, NULL);
}

stn_tensor *stn_softsign_(stn_tensor *input)
{
    return stni_call(STNI_OP_softsign_, 1, &input, NULL);
}

stn_tensor *stn_softplus(stn_tensor *input, double beta, double threshold)
{
    const struct stni_unary_attrs attrs = {beta, threshold};
    return stni_call(STNI_OP_softplus, 1, &input, &attrs);
}

stn_tensor *stn_softplus_(stn_tensor *input, double beta, double threshold)
{
    const struct stni_unary_attrs attrs = {beta, threshold};
    return stni_call(STNI_OP_softplus_, 1, &input, &attrs);
}

stn_tensor *stn_elu(stn_tensor *input, double alpha)
{
    const struct stni_unary_attrs attrs = {alpha, 0};
    return stni_call(STNI_OP_elu, 1, &input, &attrs);
}

stn_tensor *stn_elu_(stn_tensor *input, double alpha)
{
    const struct stni_unary_attrs attrs = {alpha, 0};
    return stni_call(STNI_OP_elu_, 1, &input, &attrs);
}

stn_tensor *stn_celu(stn_tensor *input, double alpha)
{
    const struct stni_unary_attrs attrs = {alpha, 0};
    return stni_call(STNI_OP_celu, 1, &input, &attrs);
}

stn_tensor *stn_celu_(stn_tensor *input, double alpha)
{
    const struct stni_unary_attrs attrs = {alpha, 0};
    return stni_call(STNI_OP_celu_, 1, &input, &attrs);
}

stn_tensor *stn_leaky_relu(stn_tensor *input, double negative_slope)
{
    const struct stni_unary_attrs attrs = {negative_slope, 0};
    return stni_call(STNI_OP_leaky_relu, 1, &input, &attrs);
}

stn_tensor *stn_leaky_relu_(stn_tensor *input, double negative_slope)
{
    const struct stni_unary_attrs attrs = {negative_slope, 0};
    return stni_call(STNI_OP_leaky_relu_, 1, &input, &attrs);
}

stn_tensor *stn_hardtanh(stn_tensor *input, double min_val, double max_val)
{
    const struct stni_unary_attrs attrs = {min_val, max_val};
    return stni_call(STNI_OP_hardtanh, 1, &input, &attrs);
}

stn_tensor *stn_hardtanh_(stn_tensor *input, double min_val, double max_val)
{
    const struct stni_unary_attrs attrs = {min_val, max_val};
    return stni_call(STNI_OP_hardtanh_, 1, &input, &attrs);
}

stn_tensor *stn_hardshrink(stn_tensor *input, double lambd)
{
    const struct stni_unary_attrs attrs = {lambd, 0};
    return stni_call(STNI_OP_hardshrink, 1, &input, &attrs);
}

stn_tensor *stn_hardshrink_(stn_tensor *input, double lambd)
{
    const struct stni_unary_attrs attrs = {lambd, 0};
    return stni_call(STNI_OP_hardshrink_, 1, &input, &attrs);
}

stn_tensor *stn_softshrink(stn_tensor *input, double lambd)
{
    const struct stni_unary_attrs attrs = {lambd, 0};
    return stni_call(STNI_OP_softshrink, 1, &input, &attrs);
}

stn_tensor *stn_softshrink_(stn_tensor *input, double lambd)
{
    const struct stni_unary_attrs attrs = {lambd, 0};
    return stni_call(STNI_OP_softshrink_, 1, &input, &attrs);
}

stn_tensor *stn_threshold(stn_tensor *input, double threshold, double value)
{
    const struct stni_unary_attrs attrs = {threshold, value};
    return stni_call(STNI_OP_threshold, 1, &input, &attrs);
}

stn_tensor *stn_threshold_(stn_tensor *input, double threshold, double value)
{
    const struct stni_unary_attrs attrs = {threshold, value};
    return stni_call(STNI_OP_threshold_, 1, &input, &attrs);
}

static stn_tensor *call_logit(enum stni_op_index op, stn_tensor *input, const double *eps)
{
    struct stni_eps_attrs attrs = {{STN_NUMBER_NONE, 0, 0}};
    if (eps)
        attrs.eps = (stn_number){STN_NUMBER_FLOAT, 0, *eps};
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stn_logit(stn_tensor *input, const double *eps)
{
    return call_logit(STNI_OP_logit, input, eps);
}

stn_tensor *stn_logit_(stn_tensor *input, const double *eps)
{
    return call_logit(STNI_OP_logit_, input, eps);
}
