/* The descriptors of unary functions: four for each row of unary_list.h. The backward op is linear in the cotangent,
 * so that its gradient with respect to the cotangent is the backward op again; its gradient with respect to its
 * other operand (the function's input or output) is the double backward op. */
#include "core/tensor/tensor.h"
#include "ops/elementwise/unary_rule.h"
#include "ops/elementwise/unary_third.h"
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <float.h>
#include <stddef.h>

/* Derivatives */

static const struct stni_pointwise_rule *rule_of(const stn_backward_call *call)
{
    return call->arg;
}

static stn_tensor *value_derivative(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *in[] = {grad, call->in[0] ? call->in[0] : call->out[0]};
    return stni_call(rule_of(call)->backward, 2, in, call->attrs);
}

static stn_tensor *backward_by_grad(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *in[] = {grad, stni_conjugate(call->in[1])};
    return stni_call(rule_of(call)->backward, 2, in, call->attrs);
}

static stn_tensor *backward_by_operand(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *in[] = {stni_conjugate(grad), call->in[0], call->in[1]};
    return stni_call(rule_of(call)->double_backward, 3, in, call->attrs);
}

/* The double backward op is linear in both cotangents: its gradient with respect to one of them is the op again. */
static stn_tensor *double_by_one(const stn_backward_call *call, stn_tensor *grad, int other)
{
    stn_tensor *in[] = {grad, stni_conjugate(call->in[other]), stni_conjugate(call->in[2])};
    return stni_call(rule_of(call)->double_backward, 3, in, call->attrs);
}

static stn_tensor *double_by_first(const stn_backward_call *call, stn_tensor *grad)
{
    return double_by_one(call, grad, 1);
}

static stn_tensor *double_by_second(const stn_backward_call *call, stn_tensor *grad)
{
    return double_by_one(call, grad, 0);
}

static stn_tensor *double_by_operand(const stn_backward_call *call, stn_tensor *grad)
{
    stn_tensor *cotangents = stn_mul(stni_conjugate(grad), stn_mul(call->in[0], call->in[1]));
    return rule_of(call)->third(cotangents, stni_conjugate(call->in[2]), call->attrs);
}

/* Attributes */

static void read_ab(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    const struct stni_unary_attrs *attrs = call->attrs;
    out->a = (stn_number){STN_NUMBER_FLOAT, 0, attrs->a};
    out->b = (stn_number){STN_NUMBER_FLOAT, 0, attrs->b};
}

/* The rows of the choices stand one after another, and each is three ops. */
static void read_choice(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    out->op += 3 * (unsigned)*(const int64_t *)call->attrs;
}

static void read_eps(const stn_op_call *call, struct stni_pointwise_numbers *out)
{
    const stn_number *eps = &((const struct stni_eps_attrs *)call->attrs)->eps;
    out->a = eps->kind == STN_NUMBER_NONE ? (stn_number){STN_NUMBER_FLOAT, 0, -1} : *eps;
}

static stn_status check_width(const stn_op_call *call)
{
    const double width = ((const struct stni_unary_attrs *)call->attrs)->a;
    if (width >= 0 && width <= DBL_MAX)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %g, wanted a finite number of 0 or more",
                       stn_op_descriptor(call->op)->attrs[0].name, width);
}

#define A(name) {name, STN_ATTR_FLOAT, offsetof(struct stni_unary_attrs, a), NULL}
#define B(name) {name, STN_ATTR_FLOAT, offsetof(struct stni_unary_attrs, b), NULL}
static const stn_attr_schema softplus_attrs[] = {A("beta"), B("threshold")}, elu_attrs[] = {A("alpha")},
                             celu_attrs[] = {A("alpha")}, leaky_relu_attrs[] = {A("negative_slope")},
                             hardtanh_attrs[] = {A("min_val"), B("max_val")}, hardshrink_attrs[] = {A("lambd")},
                             softshrink_attrs[] = {A("lambd")}, threshold_attrs[] = {A("threshold"), B("value")};
static const struct stni_unary_attrs softplus_defaults = {1, 20}, elu_defaults = {1, 0}, celu_defaults = {1, 0},
                                     leaky_relu_defaults = {0.01, 0}, hardtanh_defaults = {-1, 1},
                                     hardshrink_defaults = {0.5, 0}, softshrink_defaults = {0.5, 0},
                                     threshold_defaults = {0, 0};

static const char *const gelu_choices[] = {"none", "tanh", NULL};
static const stn_attr_schema gelu_attrs[] = {{"approximate", STN_ATTR_CHOICE, 0, gelu_choices}};

static const stn_attr_schema eps_schema[] = {{"eps", STN_ATTR_NUMBER, offsetof(struct stni_eps_attrs, eps), NULL}};

/* Descriptors */

static const stn_input_schema backward_inputs[] = {{.name = "grad"}, {.name = "operand"}};
static const stn_input_schema double_backward_inputs[] = {{.name = "grad_grad"}, {.name = "grad"}, {.name = "operand"}};

#define DTYPES_ANALYTIC STNI_FLOATING | STNI_COMPLEX
#define DTYPES_REAL STNI_FLOATING
#define DTYPES_FLOATS STNI_FLOATING
#define DTYPES_NUMBERS STNI_FLOATING | STNI_COMPLEX
#define DTYPES_REALS STNI_FLOATING

#define VALUE_ANALYTIC .result = stni_dtype_floating, .dtypes = STNI_FLOATING | STNI_COMPLEX
#define VALUE_REAL .result = stni_dtype_floating, .dtypes = STNI_FLOATING
#define VALUE_FLOATS .dtypes = STNI_FLOATING
#define VALUE_NUMBERS .dtypes = STNI_FLOATING | STNI_INTEGER | STNI_COMPLEX
#define VALUE_REALS .dtypes = STNI_FLOATING | STNI_INTEGER

#define READS_IN STNI_READS_IN(0)
#define READS_OUT STNI_READS_OUT

#define ATTRS_NONE(name)
#define ATTRS_NUMBERS(name) STN_ATTRS(name##_attrs, struct stni_unary_attrs), .attrs_init = &name##_defaults,
#define ATTRS_WIDTH ATTRS_NUMBERS
#define ATTRS_NEEDED ATTRS_NUMBERS
#define ATTRS_EPS(name) STN_ATTRS(eps_schema, struct stni_eps_attrs),
#define ATTRS_CHOICE(name) STN_ATTRS(name##_attrs, int64_t),

/* Of the function and its form in place; gelu's is the only choice, threshold's the only numbers that are needed. */
#define SIGNATURE_NONE
#define SIGNATURE_NUMBERS
#define SIGNATURE_WIDTH
#define SIGNATURE_EPS
#define SIGNATURE_NEEDED .signature = "input, threshold, value",
#define SIGNATURE_CHOICE .signature = "input, *, approximate=",

#define FROM_NONE
#define FROM_NUMBERS .numbers = read_ab,
#define FROM_WIDTH .numbers = read_ab, .check = check_width,
#define FROM_EPS .numbers = read_eps,
#define FROM_NEEDED .numbers = read_ab,
#define FROM_CHOICE .numbers = read_choice,

#define BY_OPERAND_ZERO {NULL, STNI_READS_NOTHING}
#define BY_OPERAND_OPS {double_by_operand, STNI_READS_IN(0) | STNI_READS_IN(1) | STNI_READS_IN(2)}
#define THIRD_ZERO(name) NULL
#define THIRD_OPS(name) stni_third_##name
#define NEXT(name) .backward = STNI_OP_##name##_backward, .double_backward = STNI_OP_##name##_double_backward

#define DESCRIPTOR(name_, inputs, rule, flags_, ...)                                                                           \
    const stn_op_desc stni_op_##name_ = {                                                                                      \
        .size = sizeof(stn_op_desc), .name = #name_, STN_INPUTS(inputs), __VA_ARGS__ STNI_POINTWISE(&rule), .flags = flags_,   \
    };

/* Four ops of a row: the function, the same in place, and the two derivatives. */
#define DESCRIPTORS(unused, name_, class, reads, attributes, third_)                                                  \
    static const struct stni_pointwise_rule name_##_rule = {                                                          \
        .op = STNI_POINTWISE_##name_, VALUE_##class, FROM_##attributes NEXT(name_),                                   \
        .derivative = {{value_derivative, READS_##reads}},                                                            \
    };                                                                                                                \
    static const struct stni_pointwise_rule name_##_backward_rule = {                                                 \
        .op = STNI_POINTWISE_##name_##_backward, .dtypes = DTYPES_##class, .linear = {1},                             \
        FROM_##attributes NEXT(name_),                                                                                \
        .derivative = {{backward_by_grad, STNI_READS_IN(1)},                                                          \
                       {backward_by_operand, STNI_READS_IN(0) | STNI_READS_IN(1)}},                                   \
    };                                                                                                                \
    static const struct stni_pointwise_rule name_##_double_backward_rule = {                                          \
        .op = STNI_POINTWISE_##name_##_double_backward, .dtypes = DTYPES_##class, .linear = {1, 2},                   \
        FROM_##attributes NEXT(name_),                                                                                \
        .derivative = {{double_by_first, STNI_READS_IN(1) | STNI_READS_IN(2)},                                        \
                       {double_by_second, STNI_READS_IN(0) | STNI_READS_IN(2)}, BY_OPERAND_##third_},                 \
        .third = THIRD_##third_(name_),                                                                               \
    };                                                                                                                \
    DESCRIPTOR(name_, stni_unary_inputs, name_##_rule, 0, ATTRS_##attributes(name_) SIGNATURE_##attributes)           \
    DESCRIPTOR(name_##_, stni_unary_inputs, name_##_rule, STN_OP_IN_PLACE, ATTRS_##attributes(name_)                  \
               SIGNATURE_##attributes)                                                                                \
    DESCRIPTOR(name_##_backward, backward_inputs, name_##_backward_rule, STN_OP_INTERNAL, ATTRS_##attributes(name_))  \
    DESCRIPTOR(name_##_double_backward, double_backward_inputs, name_##_double_backward_rule, STN_OP_INTERNAL,        \
               ATTRS_##attributes(name_))

STNI_UNARY_LIST(DESCRIPTORS, )
