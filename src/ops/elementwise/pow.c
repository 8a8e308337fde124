/* pow: input to the power of a tensor or a number. */
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"
#include "ops/common/promote.h"

#include <shardtensor/ops_in_place.h>

#include <stddef.h>

struct pow_attrs {
    stn_number exponent;
};

stn_tensor *stn_pow(stn_tensor *input, stn_tensor *exponent)
{
    return stni_call(STNI_OP_pow, 2, (stn_tensor *[]){input, exponent}, NULL);
}

stn_tensor *stn_pow_number(stn_tensor *input, double exponent)
{
    const struct pow_attrs attrs = {stni_number(exponent)};
    return stni_call(STNI_OP_pow, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

stn_tensor *stn_pow_(stn_tensor *input, stn_tensor *exponent)
{
    return stni_call(STNI_OP_pow_, 2, (stn_tensor *[]){input, exponent}, NULL);
}

stn_tensor *stn_pow_number_(stn_tensor *input, double exponent)
{
    const struct pow_attrs attrs = {stni_number(exponent)};
    return stni_call(STNI_OP_pow_, 2, (stn_tensor *[]){input, NULL}, &attrs);
}

/* Squares, cubes, roots and reciprocals have rows of their own, which are quicker; of which dtypes. Roots differ from
 * powers at -0 and -infinity: PyTorch has them for all dtypes but f16. */
static const struct {
    double exponent;
    enum stni_pointwise_op op;
    uint32_t dtypes;
} rows[] = {
    {2, STNI_POINTWISE_square, UINT32_MAX},
    {3, STNI_POINTWISE_cube, UINT32_MAX},
    {0.5, STNI_POINTWISE_sqrt, UINT32_MAX & ~(1u << STN_DTYPE_F16)},
    {-0.5, STNI_POINTWISE_rsqrt, UINT32_MAX & ~(1u << STN_DTYPE_F16)},
    {-1, STNI_POINTWISE_reciprocal, STNI_FLOATING},
    {-2, STNI_POINTWISE_inverse_square, STNI_FLOATING},
};

static void read_numbers(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    const stn_number *exponent = &((const struct pow_attrs *)call->attrs)->exponent;
    out->operand[1] = *exponent;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && exponent->kind != STN_NUMBER_NONE; i++)
        if (exponent->f == rows[i].exponent && (rows[i].dtypes >> stn_spec_dtype(call->in_spec[0]) & 1))
            out->op = rows[i].op;
}

/* n x^(n - 1), and 0 where n is 0, whatever x is. Narrow integers may have no n - 1. */
static stn_tensor *input_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *x = call->in[0], *n = call->in[1];
    if (!n) {
        double number = ((const struct pow_attrs *)call->attrs)->exponent.f;
        if (number == 0)
            return NULL;
        if (number == 1)
            return stn_mul_number(grad, 1);
        if (number == 2)
            return stn_mul(grad, stni_conjugate(stn_mul_number(x, 2)));
        if (number == -2) /* a division takes less time than a power */
            return stn_mul(grad, stni_conjugate(stn_mul_number(stn_div(stn_pow_number(x, -2), x), -2)));
        return stn_mul(grad, stni_conjugate(stn_mul_number(stn_pow_number(x, number - 1), number)));
    }
    stn_tensor *less = stn_sub_number(stn_cast(n, stn_tensor_dtype(grad)), 1);
    stn_tensor *derivative = stn_mul(n, stn_pow(x, less));
    return stn_masked_fill(stn_mul(grad, stni_conjugate(derivative)), stn_eq_number(n, 0), 0);
}

/* x^n log x, and 0 where x is 0 and the power is not infinite, without its logarithm, which would make NaN of a further
 * derivative. The logarithm is one of the result's dtype, as x was taken. */
static stn_tensor *exponent_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *x = call->in[0], *n = call->in[1], *none = stn_eq_number(x, 0);
    if (!(STNI_COMPLEX >> stn_tensor_dtype(n) & 1))
        none = stn_logical_and(none, stn_ge_number(n, 0));
    stn_tensor *log = stn_log(stn_masked_fill(stn_cast(x, stn_tensor_dtype(grad)), none, 1));
    return stn_masked_fill(stn_mul(grad, stni_conjugate(stn_mul(call->out[0], log))), none, 0);
}

static const stn_input_schema inputs[] = {{"input", 0, 0}, {"exponent", 1, 0}};
static const stn_attr_schema attrs_schema[] = {
    {"exponent", STN_ATTR_NUMBER, offsetof(struct pow_attrs, exponent), NULL}};

static const struct stni_pointwise_rule rule = {
    .op = STNI_POINTWISE_pow, .dtypes = STNI_FLOATING | STNI_INTEGER | STNI_COMPLEX, .numbers = read_numbers,
    .derivative = {{input_derivative, STNI_READS_IN(0) | STNI_READS_IN(1)},
                   {exponent_derivative, STNI_READS_IN(0) | STNI_READS_IN(1) | STNI_READS_OUT}},
};

const stn_op_desc stni_op_pow = {
    .size = sizeof(stn_op_desc), .name = "pow", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct pow_attrs),
    STNI_POINTWISE(&rule),
};
const stn_op_desc stni_op_pow_ = {
    .size = sizeof(stn_op_desc), .name = "pow_", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct pow_attrs),
    STNI_POINTWISE(&rule), .flags = STN_OP_IN_PLACE,
};
