/* Gradients of pointwise ops and the derivatives of those gradients, against central differences in f64: every unary
 * function, and the ops of several operands; of some also in drawn layouts. */
#include "harness.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 11 };

/* The operands' values are center + spread * (-1 … 1). */
struct unary {
    const char *name;
    stn_tensor *(*function)(stn_tensor *input);
    double center, spread;
};

static stn_tensor *gelu_erf(stn_tensor *x) { return stn_gelu(x, STN_GELU_ERF); }
static stn_tensor *gelu_tanh(stn_tensor *x) { return stn_gelu(x, STN_GELU_TANH); }
static stn_tensor *softplus(stn_tensor *x) { return stn_softplus(x, 1.5, 2); }
static stn_tensor *elu(stn_tensor *x) { return stn_elu(x, 1.3); }
static stn_tensor *celu(stn_tensor *x) { return stn_celu(x, 0.7); }
static stn_tensor *leaky_relu(stn_tensor *x) { return stn_leaky_relu(x, 0.2); }
static stn_tensor *hardtanh(stn_tensor *x) { return stn_hardtanh(x, -0.5, 0.6); }
static stn_tensor *hardshrink(stn_tensor *x) { return stn_hardshrink(x, 0.4); }
static stn_tensor *softshrink(stn_tensor *x) { return stn_softshrink(x, 0.4); }
static stn_tensor *threshold(stn_tensor *x) { return stn_threshold(x, 0.15, -2); }
static stn_tensor *logit(stn_tensor *x) { return stn_logit(x, NULL); }
static stn_tensor *high_logit(stn_tensor *x)
{
    return logit(stn_add_number(stn_mul_number(x, 0.1), 0.85));
}
static stn_tensor *limited_logit(stn_tensor *x) { return stn_logit(x, (const double[]){0.25}); }
static stn_tensor *clamp(stn_tensor *x) { return stn_clamp(x, -0.5, 0.6); }
static stn_tensor *cubed(stn_tensor *x) { return stn_pow_number(x, 3); }
static stn_tensor *power(stn_tensor *x) { return stn_pow_number(x, -1.5); }
static stn_tensor *squared(stn_tensor *x) { return stn_pow_number(x, 2); }
static stn_tensor *rooted(stn_tensor *x) { return stn_pow_number(x, 0.5); }
static stn_tensor *inverted(stn_tensor *x) { return stn_pow_number(x, -1); }
static stn_tensor *root_inverted(stn_tensor *x) { return stn_pow_number(x, -0.5); }
static stn_tensor *itself(stn_tensor *x) { return stn_pow_number(stn_pow_number(x, 2), 1); }
static stn_tensor *divided(stn_tensor *x) { return stn_square(stn_div_number(x, 3)); }
static stn_tensor *taken_from(stn_tensor *x) { return stn_square(stn_sub_number(x, 3)); }
static stn_tensor *rest(stn_tensor *x) { return stn_square(stn_fmod_number(x, 0.9)); }
static stn_tensor *turned(stn_tensor *x)
{
    return stn_real(stn_mul(stn_polar(x, stn_square(x)), stn_complex(stn_square(x), x)));
}
static stn_tensor *complex_tanh(stn_tensor *x) { return stn_imag(stn_tanh(stn_complex(x, stn_square(x)))); }
static stn_tensor *complex_exp(stn_tensor *x)
{
    return stn_real(stn_exp(stn_mul(stn_complex(x, x), stn_complex(x, stn_square(x)))));
}
/* On the left, where a root of z^2 - 1 would be the wrong one for acosh. */
static stn_tensor *complex_inverses(stn_tensor *x)
{
    stn_tensor *z = stn_complex(stn_mul_number(x, -2), stn_add_number(x, -0.3));
    return stn_add(stn_imag(stn_mul(stn_asinh(z), stn_acosh(z))), stn_real(stn_atanh(stn_log10(z))));
}
static stn_tensor *complex_sqrt(stn_tensor *x) { return stn_real(stn_sqrt(stn_log(stn_complex(x, stn_square(x))))); }

static const struct unary unary_ops[] = {
    {"exp", stn_exp, 0, 1},
    {"exp2", stn_exp2, 0, 1},
    {"expm1", stn_expm1, 0, 1},
    {"log", stn_log, 2, 1},
    {"log2", stn_log2, 2, 1},
    {"log1p", stn_log1p, 1, 1},
    {"sqrt", stn_sqrt, 2, 1},
    {"rsqrt", stn_rsqrt, 2, 1},
    {"reciprocal", stn_reciprocal, -2, 1},
    {"sinh", stn_sinh, 0, 1},
    {"cosh", stn_cosh, 0, 1},
    {"tanh", stn_tanh, 0, 2},
    {"sigmoid", stn_sigmoid, 0, 2},
    {"sin", stn_sin, 0, 3},
    {"cos", stn_cos, 0, 3},
    {"tan", stn_tan, 0, 1},
    {"asin", stn_asin, 0, 0.7},
    {"acos", stn_acos, 0, 0.7},
    {"atan", stn_atan, 0, 2},
    {"erf", stn_erf, 0, 1},
    {"erfc", stn_erfc, 0, 1},
    {"square", stn_square, 0, 1},
    {"neg", stn_neg, 0, 1},
    {"abs", stn_abs, 0, 1},
    {"relu", stn_relu, 0, 1},
    {"silu", stn_silu, 0, 2},
    {"mish", stn_mish, 0, 2},
    {"gelu erf", gelu_erf, 0, 2},
    {"gelu tanh", gelu_tanh, 0, 2},
    {"softplus", softplus, 0.5, 2},
    {"elu", elu, 0, 1},
    {"celu", celu, 0, 1},
    {"selu", stn_selu, 0, 1},
    {"relu6", stn_relu6, 3, 6},
    {"leaky_relu", leaky_relu, 0, 1},
    {"logsigmoid", stn_logsigmoid, 0, 2},
    {"hardtanh", hardtanh, 0, 1},
    {"hardsigmoid", stn_hardsigmoid, 0, 5},
    {"hardswish", stn_hardswish, 0, 5},
    {"clamp", clamp, 0, 1},
    {"pow 3", cubed, 0, 1},
    {"pow -1.5", power, 2, 1},
    {"pow 2", squared, 0, 1},
    {"pow 0.5", rooted, 2, 1},
    {"div number", divided, 0, 1},
    {"sub number", taken_from, 0, 1},
    {"fmod number", rest, 0, 2},
    {"polar, complex", turned, 0, 1},
    {"complex tanh", complex_tanh, 0, 1},
    {"complex exp", complex_exp, 0, 1},
    {"complex sqrt log", complex_sqrt, 2, 0.5},
    {"pow -1", inverted, -2, 1},
    {"pow -0.5", root_inverted, 2, 1},
    {"pow 1", itself, 0, 1},
    {"log10", stn_log10, 2, 1},
    {"softsign", stn_softsign, 1.5, 1},
    {"softsign of negative", stn_softsign, -1.5, 1},
    {"logit", logit, 0.5, 0.2},
    {"logit of high numbers", high_logit, 0, 1},
    {"limited logit", limited_logit, 0.5, 0.4},
    {"hardshrink", hardshrink, 0, 1},
    {"softshrink", softshrink, 0, 1},
    {"threshold", threshold, 0, 1},
    {"asinh", stn_asinh, 0, 2},
    {"acosh", stn_acosh, 3, 1.5},
    {"atanh", stn_atanh, 0, 0.7},
    {"complex inverses", complex_inverses, 1.2, 0.5},
};

static stn_tensor *call_unary(stn_tensor *const *in, const void *arg)
{
    return ((const struct unary *)arg)->function(in[0]);
}

static stn_tensor *sub(stn_tensor *const *in, const void *arg) { return (void)arg, stn_sub_scaled(in[0], in[1], 2.5); }
static stn_tensor *division(stn_tensor *const *in, const void *arg) { return (void)arg, stn_div(in[0], in[1]); }
static stn_tensor *powers(stn_tensor *const *in, const void *arg) { return (void)arg, stn_pow(in[0], in[1]); }
static stn_tensor *larger(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_square(stn_maximum(in[0], in[1]));
}
static stn_tensor *smaller(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_square(stn_minimum(in[0], in[1]));
}
static stn_tensor *angles(stn_tensor *const *in, const void *arg) { return (void)arg, stn_atan2(in[0], in[1]); }
static stn_tensor *directions(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_angle(stn_complex(in[0], in[1]));
}
static stn_tensor *cubes(stn_tensor *const *in, const void *arg) { return (void)arg, stn_pow_number(in[0], 3); }
static stn_tensor *inverse_squares(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_pow_number(in[0], -2);
}
static stn_tensor *distances(stn_tensor *const *in, const void *arg) { return (void)arg, stn_hypot(in[0], in[1]); }
static stn_tensor *logs_of_sums(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_logaddexp(in[0], stn_square(in[1]));
}
static stn_tensor *entropies(stn_tensor *const *in, const void *arg) { return (void)arg, stn_xlogy(in[0], in[1]); }
static stn_tensor *of_logarithm(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_square(stn_xlogy_number(in[0], 2.5));
}
static stn_tensor *of_sign(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_square(stn_add_number(stn_copysign(in[0], stn_detach(stn_sub_number(in[0], 2))), 1));
}
static stn_tensor *rests(stn_tensor *const *in, const void *arg) { return (void)arg, stn_remainder(in[0], in[1]); }
static stn_tensor *between(stn_tensor *const *in, const void *arg) { return (void)arg, stn_lerp(in[0], in[1], in[2]); }
static stn_tensor *product(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_addcmul(in[0], in[1], in[2], 0.7);
}
static stn_tensor *quotient(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_addcdiv(in[0], in[1], in[2], 0.7);
}
static stn_tensor *bounded(stn_tensor *const *in, const void *arg)
{
    return (void)arg, stn_square(stn_clamp_tensor(in[0], in[1], in[2]));
}
static stn_tensor *chosen(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    stn_tensor *condition = stn_gt_number(in[0], 1.8);
    return stn_square(stn_masked_fill(stn_where(condition, in[0], in[1]), stn_gt_number(in[1], 2.3), 0.4));
}

/* One weight for each of dim 1. */
static stn_tensor *learned(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    stn_tensor *x = stn_tensor_ndim(in[0]) == 1 ? stn_view(in[0], 2, (int64_t[]){1, -1}) : in[0];
    return stn_square(stn_prelu(stn_sub_number(x, 2), in[1]));
}
static stn_tensor *gated(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_glu(stn_cat(2, (stn_tensor *[]){in[0], in[0]}, 0), 0);
}

static const struct {
    const char *name;
    stn_tensor *(*call)(stn_tensor *const *in, const void *arg);
    int n;
} other_ops[] = {
    {"sub", sub, 2},       {"div", division, 2},       {"pow", powers, 2},    {"maximum", larger, 2},   {"minimum", smaller, 2},
    {"atan2", angles, 2},  {"hypot", distances, 2},    {"remainder", rests, 2}, {"lerp", between, 3},   {"addcmul", product, 3},
    {"addcdiv", quotient, 3}, {"clamp tensors", bounded, 3}, {"where, masked_fill", chosen, 2},
    {"prelu", learned, 2}, {"glu", gated, 1}, {"angle", directions, 2}, {"cube", cubes, 1},
    {"inverse_square", inverse_squares, 1}, {"logaddexp", logs_of_sums, 2}, {"xlogy", entropies, 2},
    {"xlogy number", of_logarithm, 1}, {"copysign", of_sign, 1},
};

static void check_op(stn_context *context, uint64_t *state, struct against_one_op *op, double center, double spread)
{
    double *values[AGAINST_ONE_MAX_INPUTS];
    for (int i = 0; i < op->n_in; i++) {
        values[i] = against_one_draw(state, N);
        for (int j = 0; j < N; j++)
            values[i][j] = center + spread * values[i][j];
        op->in[i] = (struct against_one_input){STN_DTYPE_F64, {1, {N}}, values[i], 0};
    }
    against_one_differences(context, state, op);
    for (int i = 0; i < op->n_in; i++)
        free(values[i]);
}

static stn_status body(stn_context *context, void *arg)
{
    (void)arg;
    uint64_t state = 5;
    for (size_t k = 0; k < sizeof unary_ops / sizeof *unary_ops; k++) {
        struct against_one_op op = {.call = call_unary, .arg = &unary_ops[k], .n_in = 1};
        check_op(context, &state, &op, unary_ops[k].center, unary_ops[k].spread);
        if (!CHECK_STR(stn_context_error_text(context), ""))
            fprintf(stderr, "%s\n", unary_ops[k].name);
    }
    for (size_t k = 0; k < sizeof other_ops / sizeof *other_ops; k++) {
        struct against_one_op op = {.call = other_ops[k].call, .n_in = other_ops[k].n};
        check_op(context, &state, &op, 2, 1);
        if (!CHECK_STR(stn_context_error_text(context), ""))
            fprintf(stderr, "%s\n", other_ops[k].name);
    }
    return STN_OK;
}

static void both_derivatives_are_central_differences(void)
{
    test_ranks(1, body, NULL);
}

/* The same ops in drawn layouts: values and both derivatives are those of whole tensors. */
static stn_status layouts_body(stn_context *context, void *arg)
{
    const int *ranks = arg;
    const struct unary *const chosen_curves[] = {&unary_ops[11], &unary_ops[24], &unary_ops[25], &unary_ops[41]}; /* tanh, relu, silu, pow */
    const stn_mesh *mesh = test_mesh(context, ranks[0], ranks[1]);
    uint64_t state = 8;
    double *values[3] = {against_one_draw(&state, 20), against_one_draw(&state, 4), against_one_draw(&state, 5)};
    for (int k = 0; k < 20; k++)
        values[0][k] += 2, values[1][k % 4] += k < 4 ? 2 : 0, values[2][k % 5] += k < 5 ? 2 : 0;
    const struct against_one_input in[] = {{STN_DTYPE_F64, {2, {5, 4}}, values[0], 1u << STN_SUM},
                                           {STN_DTYPE_F64, {1, {4}}, values[1], 1u << STN_SUM},
                                           {STN_DTYPE_F64, {2, {5, 1}}, values[2], 1u << STN_SUM}};
    for (size_t k = 0; k < sizeof chosen_curves / sizeof *chosen_curves; k++)
        for (int round = 0; round < 4; round++) {
            const struct against_one_op op = {
                .call = call_unary, .arg = chosen_curves[k], .n_in = 1, .in = {in[0]}, .tolerance = 1e-12};
            against_one_check(context, &state, mesh, &op);
        }
    for (size_t k = 0; k < sizeof other_ops / sizeof *other_ops; k++)
        for (int round = 0; round < 4; round++) {
            const struct against_one_op op = {
                .call = other_ops[k].call, .n_in = other_ops[k].n, .in = {in[0], in[1], in[2]}, .tolerance = 1e-12};
            against_one_check(context, &state, mesh, &op);
        }
    for (int i = 0; i < 3; i++)
        free(values[i]);
    return STN_OK;
}

static void drawn_layouts_have_the_derivatives_of_whole_tensors(void)
{
    test_ranks(3, layouts_body, (int[]){3, 0});
    test_ranks(6, layouts_body, (int[]){2, 3});
}

/* The slope of a function, of which both derivatives are the function's second and third. */
static stn_tensor *call_slope(stn_tensor *const *in, const void *arg)
{
    stn_context *context = stn_tensor_context(in[0]);
    stn_tensor *x = in[0], *slope = NULL;
    if (!stn_requires_grad(x)) {
        x = stn_detach(x);
        stn_set_requires_grad(x, 1);
    }
    stn_tensor *y = ((const struct unary *)arg)->function(x), *sum = stn_sum(y, 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 1, 1, &slope), STN_OK);
    return slope;
}

/* Where these are not straight their slopes are constant. */
static int has_a_bend(const struct unary *op)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", op->name);
    return strstr(" neg abs relu relu6 leaky_relu hardtanh hardsigmoid hardswish hardshrink softshrink threshold clamp "
                  "square ", word) == NULL;
}

static stn_status slopes_body(stn_context *context, void *arg)
{
    (void)arg;
    uint64_t state = 9;
    for (size_t k = 0; k < sizeof unary_ops / sizeof *unary_ops; k++) {
        struct against_one_op op = {.call = call_slope, .arg = &unary_ops[k], .n_in = 1};
        if (!has_a_bend(&unary_ops[k]))
            continue;
        check_op(context, &state, &op, unary_ops[k].center, unary_ops[k].spread / 4); /* where differences tell */
        if (!CHECK_STR(stn_context_error_text(context), ""))
            fprintf(stderr, "%s\n", unary_ops[k].name);
    }
    return STN_OK;
}

static void third_derivatives_are_central_differences(void)
{
    test_ranks(1, slopes_body, NULL);
}

static double some(int64_t i)
{
    return 0.3 + test_value(i);
}

/* A unary function and its backward on cut tensors: one op each, nothing sent. */
static stn_status local_body(stn_context *context, void *arg)
{
    (void)arg;
    const int64_t n = 1001;
    stn_placement shard = stn_shard(0);
    stn_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), &shard, STN_DTYPE_F32, 1, &n, NULL, some), *g;
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_silu(x), *cotangent = stn_detach(x);
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &x, 1, 0, &g), STN_OK);
    stn_context_stats(context, &before);
    y = stn_silu(x);
    stn_context_stats(context, &after);
    CHECK_I64(after.dispatches - before.dispatches, 1);
    CHECK_I64(after.kernels - before.kernels, 1);
    CHECK_I64(after.messages - before.messages, 0);
    before = after;
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &x, 0, 0, &g), STN_OK);
    stn_context_stats(context, &after);
    CHECK_I64(after.dispatches - before.dispatches, 1);
    CHECK(after.bytes_sent - before.bytes_sent < n); /* the agreement on the graph, some words, and no element */
    CHECK(stn_tensor_spec(g) == stn_tensor_spec(x));
    return stn_scope_end(context);
}

static void a_curve_and_its_backward_are_one_op_each_and_send_nothing(void)
{
    test_ranks(2, local_body, NULL);
}

static stn_tensor *huber(stn_tensor *x)
{
    return stn_huber_loss(x, stn_mul_number(stn_detach(x), 0), NULL, STN_REDUCE_SUM, 2);
}

/* Where two branches of a function meet the second derivative is that of the straight one, 0, as in PyTorch. */
static stn_status corners_body(stn_context *context, void *arg)
{
    static const struct {
        stn_tensor *(*function)(stn_tensor *input);
        double at;
    } corners[] = {{elu, 0}, {celu, 0}, {stn_selu, 0}, {softplus, 2 / 1.5}, {huber, 2}, {huber, -2}};
    const struct random_shape shape = {1, {1}};
    double got;
    (void)arg;
    for (size_t k = 0; k < sizeof corners / sizeof *corners; k++) {
        stn_scope_begin(context);
        stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &shape, &corners[k].at), *grad, *again;
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *y = stn_sum(corners[k].function(x), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &x, 1, 1, &grad), STN_OK);
        y = stn_sum(grad, 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &x, 0, 0, &again), STN_OK);
        test_read(again, &got, 1);
        CHECK_NEAR(got, 0, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void second_derivatives_at_corners_are_those_of_pytorch(void)
{
    test_ranks(1, corners_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"both_derivatives_are_central_differences", both_derivatives_are_central_differences},
        {"drawn_layouts_have_the_derivatives_of_whole_tensors", drawn_layouts_have_the_derivatives_of_whole_tensors},
        {"third_derivatives_are_central_differences", third_derivatives_are_central_differences},
        {"second_derivatives_at_corners_are_those_of_pytorch", second_derivatives_at_corners_are_those_of_pytorch},
        {"a_curve_and_its_backward_are_one_op_each_and_send_nothing",
         a_curve_and_its_backward_are_one_op_each_and_send_nothing},
    };
    return TEST_MAIN(argc, argv, cases);
}
