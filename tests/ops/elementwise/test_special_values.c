/* Functions at zeros of both signs, at their corners, infinities, NaN, and the ends of each dtype: values against
 * the definitions in f64 with the C library's functions, gradients against PyTorch's conventions, in every floating
 * dtype. The sign of a zero is part of a value, not of a gradient. */
#include "ops/elements.h"
#include "ranks.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
static const double relative[] = {4e-6, 1e-12, 9e-3, 1.2e-3}, absolute[] = {1e-6, 1e-13, 1e-6, 1e-6};
static const double of_derivative[] = {1e-6, 1e-13, 1e-2, 1.5e-3}; /* which may be one of the rounded result */
static const double most[] = {FLT_MAX, DBL_MAX, 0x1.fep127, 65504}, least[] = {0x1p-149, 0x1p-1074, 0x1p-133, 0x1p-24};

enum { N_VALUES = 20 };

/* Longer than a vector, so that what is left over is not all. */
static void values_of(int dtype, double v[N_VALUES])
{
    const double values[N_VALUES] = {0,    -0.0, 1,  -1, 3,    -3,    6,   -6,   0.5,           -0.5,
                                     25,   -25,  INFINITY, -INFINITY, NAN, 0.25, most[dtype], -most[dtype], least[dtype], -least[dtype]};
    memcpy(v, values, sizeof values);
}

/* Definitions */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double normal(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
static double density(double x) { return exp(-0.5 * x * x) / sqrt(2 * M_PI); }
static double limit(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
static double zero(double x) { return (void)x, 0; }
static double minus_one(double x) { return (void)x, -1; }
static double inside(double x, double low, double high) { return x > low && x < high; }

static double square(double x) { return x * x; }
static double double_x(double x) { return 2 * x; }
static double negative(double x) { return -x; }
static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
static double exp2_derivative(double x) { return M_LN2 * exp2(x); }
static double log_derivative(double x) { return 1 / x; }
static double log2_derivative(double x) { return 1 / (x * M_LN2); }
static double log1p_derivative(double x) { return 1 / (1 + x); }
static double sqrt_derivative(double x) { return 1 / (2 * sqrt(x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double rsqrt_derivative(double x) { return -0.5 * rsqrt(x) * rsqrt(x) * rsqrt(x); }
static double reciprocal(double x) { return 1 / x; }
static double reciprocal_derivative(double x) { return -(1 / x) * (1 / x); }
static double log10_derivative(double x) { return M_LOG10E / x; }
static double asinh_derivative(double x) { return 1 / sqrt(x * x + 1); }
static double acosh_derivative(double x) { return 1 / sqrt(x * x - 1); } /* as PyTorch's, beyond the domain too */
static double atanh_derivative(double x) { return 1 / (1 - x * x); }
static double tanh_derivative(double x) { return 1 - tanh(x) * tanh(x); }
static double sigmoid_derivative(double x)
{
    return isnan(x) ? x : exp(-fabs(x)) / ((1 + exp(-fabs(x))) * (1 + exp(-fabs(x))));
}
static double cos_derivative(double x) { return -sin(x); }
static double tan_derivative(double x) { return 1 + tan(x) * tan(x); }
static double asin_derivative(double x) { return 1 / sqrt(1 - x * x); }
static double acos_derivative(double x) { return -1 / sqrt(1 - x * x); }
static double atan_derivative(double x) { return 1 / (1 + x * x); }
static double erf_derivative(double x) { return M_2_SQRTPI * exp(-x * x); }
static double erfc_derivative(double x) { return -erf_derivative(x); }
static double relu(double x) { return x < 0 ? 0 : x; }
static double relu_derivative(double x) { return x <= 0 ? 0 : 1; } /* 1 at NaN */
static double relu6(double x) { return limit(x, 0, 6); }
static double relu6_derivative(double x) { return inside(x, 0, 6); }
static double hardtanh(double x) { return limit(x, -1, 1); }
static double hardtanh_derivative(double x) { return inside(x, -1, 1); }
static double clamp_derivative(double x) { return inside(x, 0, 3); }
static double clamp(double x) { return limit(x, 0, 3); }
static double hardsigmoid(double x) { return limit(x / 6 + 0.5, 0, 1); }
static double hardsigmoid_derivative(double x) { return inside(x, -3, 3) / 6; }
static double hardswish(double x) { return x * hardsigmoid(x); }
static double hardswish_derivative(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5; } /* NaN at NaN */
static double leaky_relu(double x) { return x > 0 ? x : 0.01 * x; }
static double leaky_relu_derivative(double x) { return x > 0 ? 1 : 0.01; }
static double logit(double x) { return log(x / (1 - x)); }
static double logit_derivative(double x) { return x < 0 || x > 1 ? NAN : 1 / fabs(x * (1 - x)); }
static double softsign(double x) { return x / (1 + fabs(x)); }
static double softsign_derivative(double x) { return isinf(x) ? NAN : 1 / ((1 + fabs(x)) * (1 + fabs(x))); }
static double hardshrink(double x) { return fabs(x) <= 3 ? 0 : x; }
static double softshrink(double x) { return x > 3 ? x - 3 : x < -3 ? x + 3 : isnan(x) ? x : 0; }
static double shrink_derivative(double x) { return fabs(x) <= 3 ? 0 : 1; } /* 1 at NaN */
static double threshold(double x) { return x <= 3 ? -5 : x; }
static double threshold_derivative(double x) { return x <= 3 ? 0 : 1; } /* 1 at NaN */
static double elu(double x) { return x > 0 ? x : 1.5 * expm1(x); }
static double elu_derivative(double x) { return x > 0 ? 1 : 1.5 * exp(x); }
static double celu(double x) { return x > 0 ? x : 0.5 * expm1(x / 0.5); }
static double celu_derivative(double x) { return x > 0 ? 1 : exp(x / 0.5); }
static double selu(double x) { return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * expm1(x)); }
static double selu_derivative(double x) { return 1.0507009873554804934 * (x > 0 ? 1 : 1.6732632423543772848 * exp(x)); }
static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }
static double softplus_derivative(double x) { return x > 20 ? 1 : sigmoid(x); }
static double logsigmoid(double x) { return -(fmax(-x, 0) + log1p(exp(-fabs(x)))); }
static double logsigmoid_derivative(double x) { return sigmoid(-x); }
static double silu(double x) { return x * sigmoid(x); }
static double silu_derivative(double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }
static double mish_t(double x) { return tanh(x > 20 ? x : log1p(exp(x))); }
static double mish(double x) { return x * mish_t(x); }
static double mish_derivative(double x) { return mish_t(x) + x * sigmoid(x) * (1 - mish_t(x) * mish_t(x)); }
static double gelu(double x) { return x * normal(x); }
static double gelu_derivative(double x) { return normal(x) + x * density(x); }

static stn_tensor *op_gelu(stn_tensor *x) { return stn_gelu(x, STN_GELU_ERF); }
static stn_tensor *op_hardtanh(stn_tensor *x) { return stn_hardtanh(x, -1, 1); }
static stn_tensor *op_clamp(stn_tensor *x) { return stn_clamp(x, 0, 3); }
static stn_tensor *op_leaky_relu(stn_tensor *x) { return stn_leaky_relu(x, 0.01); }
static stn_tensor *op_logit(stn_tensor *x) { return stn_logit(x, NULL); }
static stn_tensor *op_hardshrink(stn_tensor *x) { return stn_hardshrink(x, 3); }
static stn_tensor *op_softshrink(stn_tensor *x) { return stn_softshrink(x, 3); }
static stn_tensor *op_threshold(stn_tensor *x) { return stn_threshold(x, 3, -5); }
static stn_tensor *op_elu(stn_tensor *x) { return stn_elu(x, 1.5); }
static stn_tensor *op_celu(stn_tensor *x) { return stn_celu(x, 0.5); }
static stn_tensor *op_softplus(stn_tensor *x) { return stn_softplus(x, 1, 20); }
static stn_tensor *op_round(stn_tensor *x) { return stn_round(x, 0); }

struct function {
    const char *name;
    stn_tensor *(*op)(stn_tensor *x);
    double (*value)(double x), (*slope)(double x);
};

static const struct function functions[] = {
    {"square", stn_square, square, double_x},
    {"neg", stn_neg, negative, minus_one},
    {"abs", stn_abs, fabs, sign},
    {"sign", stn_sign, sign, NULL},
    {"floor", stn_floor, floor, zero},
    {"ceil", stn_ceil, ceil, zero},
    {"trunc", stn_trunc, trunc, zero},
    {"round", op_round, rint, zero},
    {"exp", stn_exp, exp, exp},
    {"exp2", stn_exp2, exp2, exp2_derivative},
    {"expm1", stn_expm1, expm1, exp},
    {"log", stn_log, log, log_derivative},
    {"log2", stn_log2, log2, log2_derivative},
    {"log10", stn_log10, log10, log10_derivative},
    {"asinh", stn_asinh, asinh, asinh_derivative},
    {"acosh", stn_acosh, acosh, acosh_derivative},
    {"atanh", stn_atanh, atanh, atanh_derivative},
    {"log1p", stn_log1p, log1p, log1p_derivative},
    {"sqrt", stn_sqrt, sqrt, sqrt_derivative},
    {"rsqrt", stn_rsqrt, rsqrt, rsqrt_derivative},
    {"reciprocal", stn_reciprocal, reciprocal, reciprocal_derivative},
    {"sinh", stn_sinh, sinh, cosh},
    {"cosh", stn_cosh, cosh, sinh},
    {"tanh", stn_tanh, tanh, tanh_derivative},
    {"sigmoid", stn_sigmoid, sigmoid, sigmoid_derivative},
    {"sin", stn_sin, sin, cos},
    {"cos", stn_cos, cos, cos_derivative},
    {"tan", stn_tan, tan, tan_derivative},
    {"asin", stn_asin, asin, asin_derivative},
    {"acos", stn_acos, acos, acos_derivative},
    {"atan", stn_atan, atan, atan_derivative},
    {"erf", stn_erf, erf, erf_derivative},
    {"erfc", stn_erfc, erfc, erfc_derivative},
    {"relu", stn_relu, relu, relu_derivative},
    {"relu6", stn_relu6, relu6, relu6_derivative},
    {"hardtanh", op_hardtanh, hardtanh, hardtanh_derivative},
    {"clamp", op_clamp, clamp, clamp_derivative},
    {"hardsigmoid", stn_hardsigmoid, hardsigmoid, hardsigmoid_derivative},
    {"hardswish", stn_hardswish, hardswish, hardswish_derivative},
    {"leaky_relu", op_leaky_relu, leaky_relu, leaky_relu_derivative},
    {"logit", op_logit, logit, logit_derivative},
    {"softsign", stn_softsign, softsign, softsign_derivative},
    {"hardshrink", op_hardshrink, hardshrink, shrink_derivative},
    {"softshrink", op_softshrink, softshrink, shrink_derivative},
    {"threshold", op_threshold, threshold, threshold_derivative},
    {"elu", op_elu, elu, elu_derivative},
    {"celu", op_celu, celu, celu_derivative},
    {"selu", stn_selu, selu, selu_derivative},
    {"softplus", op_softplus, softplus, softplus_derivative},
    {"logsigmoid", stn_logsigmoid, logsigmoid, logsigmoid_derivative},
    {"silu", stn_silu, silu, silu_derivative},
    {"mish", stn_mish, mish, mish_derivative},
    {"gelu", op_gelu, gelu, gelu_derivative},
};

/* What a dtype makes of a number. */
static double rounded(stn_dtype dtype, double x)
{
    char element[16];
    element_set(dtype, element, 0, x);
    return creal(element_get(dtype, element, 0));
}

/* Zeros keep their signs. */
static stn_tensor *tensor_of(stn_context *context, stn_dtype dtype, int64_t n, const double *values)
{
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_detach(stn_cast(stn_from_host(context, spec, values), dtype));
    stn_spec_release(&spec);
    return tensor;
}

static int same(int dtype, double got, double want, int with_sign)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want) || want == 0)
        return got == want && (!with_sign || !signbit(got) == !signbit(want));
    const double bound = relative[dtype] * fabs(want) + (with_sign ? absolute : of_derivative)[dtype];
    return fabs(got - want) <= bound && (!with_sign || !signbit(got) == !signbit(want));
}

static void check_all(const struct function *f, int dtype, const char *what, const double *x, const double *got,
                      double (*want)(double), int with_sign)
{
    for (int i = 0; i < N_VALUES; i++) {
        const double wanted = rounded(dtypes[dtype], want(x[i]));
        if (!CHECK(same(dtype, got[i], wanted, with_sign)))
            fprintf(stderr, "  %s of %s, %s at %g: got %g, wanted %g\n", f->name, stn_dtype_name(dtypes[dtype]), what,
                    x[i], got[i], wanted);
    }
}

static stn_status functions_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int d = 0; d < 4; d++) {
        double x[N_VALUES], got[N_VALUES];
        values_of(d, x);
        for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
            const struct function *f = &functions[k];
            stn_scope_begin(context);
            stn_tensor *leaf = tensor_of(context, dtypes[d], N_VALUES, x), *grad;
            CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
            stn_tensor *y = f->op(leaf), *ones = stn_cast(stn_ne_number(stn_detach(leaf), 12345), dtypes[d]);
            test_read(stn_cast(stn_detach(y), STN_DTYPE_F64), got, N_VALUES);
            check_all(f, d, "value", x, got, f->value, 1);
            if (f->slope) {
                CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &leaf, 0, 0, &grad), STN_OK);
                if (grad)
                    test_read(stn_cast(grad, STN_DTYPE_F64), got, N_VALUES);
                if (grad)
                    check_all(f, d, "gradient", x, got, f->slope, 0);
            }
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    }
    return STN_OK;
}

static void functions_and_gradients_at_special_values_are_those_of_pytorch(void)
{
    test_ranks(1, functions_body, NULL);
}

/* Pairs: the quotient rounded down, the rests, the larger and the smaller. */
static stn_status pairs_body(stn_context *context, void *arg)
{
    static const struct { double x, y, floor_divide, fmod, remainder, maximum, minimum; } pairs[] = {
        {-1, -INFINITY, 0, -1, -1, -1, -INFINITY},
        {1, -INFINITY, -1, 1, -INFINITY, 1, -INFINITY},
        {-1, INFINITY, -1, -1, INFINITY, INFINITY, -1},
        {1, INFINITY, 0, 1, 1, INFINITY, 1},
        {-0.0, 5, -0.0, -0.0, -0.0, 5, -0.0},
        {0, -5, -0.0, 0, 0, 0, -5},
        {3, 5, 0, 3, 3, 5, 3},
        {-7, 2, -4, -1, 1, 2, -7},
        {7, -2, -4, 1, -1, 7, -2},
        {1, 0, INFINITY, NAN, NAN, 1, 0},
        {-1, 0, -INFINITY, NAN, NAN, 0, -1},
        {INFINITY, 2, NAN, NAN, NAN, INFINITY, 2},
        {NAN, 2, NAN, NAN, NAN, NAN, NAN},
        {2, NAN, NAN, NAN, NAN, NAN, NAN},
    };
    enum { N = sizeof pairs / sizeof *pairs };
    double x[N], y[N], got[5][N];
    (void)arg;
    for (int i = 0; i < N; i++) {
        x[i] = pairs[i].x;
        y[i] = pairs[i].y;
    }
    for (int d = 0; d < 4; d++) {
        stn_scope_begin(context);
        stn_tensor *a = tensor_of(context, dtypes[d], N, x);
        stn_tensor *b = tensor_of(context, dtypes[d], N, y);
        test_read(stn_cast(stn_floor_divide(a, b), STN_DTYPE_F64), got[0], N);
        test_read(stn_cast(stn_fmod(a, b), STN_DTYPE_F64), got[1], N);
        test_read(stn_cast(stn_remainder(a, b), STN_DTYPE_F64), got[2], N);
        test_read(stn_cast(stn_maximum(a, b), STN_DTYPE_F64), got[3], N);
        test_read(stn_cast(stn_minimum(a, b), STN_DTYPE_F64), got[4], N);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        for (int i = 0; i < N; i++) {
            const double want[] = {pairs[i].floor_divide, pairs[i].fmod, pairs[i].remainder, pairs[i].maximum,
                                   pairs[i].minimum};
            for (int k = 0; k < 5; k++)
                if (!CHECK(same(d, got[k][i], want[k], 1)))
                    fprintf(stderr, "  %d of %g and %g, %s: got %g, wanted %g\n", k, x[i], y[i],
                            stn_dtype_name(dtypes[d]), got[k][i], want[k]);
        }
    }
    return STN_OK;
}

static void quotients_rests_and_extremes_of_special_values_are_those_of_pytorch(void)
{
    test_ranks(1, pairs_body, NULL);
}

static const double grid[] = {-1, 0, 1, 2, (double)NAN, INFINITY, -INFINITY};
enum { GRID = sizeof grid / sizeof *grid, CUBE = GRID * GRID * GRID };

/* What PyTorch gives to an input and two bounds that are tensors: it compares, so that NaN is outside of nothing. */
static void shares_of_three(double x, double low, double high, double share[3])
{
    const int tie = low < high;
    share[0] = x < low || x > high ? 0 : (x == low || x == high) && tie ? 0.5 : 1;
    share[1] = x < low && low <= high ? 1 : x == low && tie ? 0.5 : 0;
    share[2] = low > high || (x > high && !isnan(low)) ? 1 : x == high && tie ? 0.5 : 0;
}

/* Of one bound: as of maximum and minimum, whose operands both have all where one is NaN. */
static void shares_of_two(double x, double bound, int is_min, double share[2])
{
    const double more = is_min ? x : bound, less = is_min ? bound : x;
    share[0] = more < less ? 0 : more == less ? 0.5 : 1;
    share[1] = less < more ? 0 : more == less ? 0.5 : 1;
}

/* `bounds`: 1, the lower, 2, the upper, 3, both. */
static void check_clamp(stn_context *context, int dtype, int bounds)
{
    double v[3][CUBE], got[3][CUBE], second[CUBE];
    stn_tensor *in[3], *leaf[3], *grad[3], *again;
    for (int i = 0; i < CUBE; i++)
        v[0][i] = grid[i / GRID / GRID], v[1][i] = grid[i / GRID % GRID], v[2][i] = grid[i % GRID];
    stn_scope_begin(context);
    int n = 0;
    for (int k = 0; k < 3; k++) {
        in[k] = k == 0 || (bounds >> (k - 1) & 1) ? tensor_of(context, dtypes[dtype], CUBE, v[k]) : NULL;
        if (in[k]) {
            CHECK_STATUS(stn_set_requires_grad(in[k], 1), STN_OK);
            leaf[n++] = in[k];
        }
    }
    stn_tensor *y = stn_clamp_tensor(in[0], in[1], in[2]);
    stn_tensor *cotangent = stn_cast(stn_ne_number(stn_detach(in[0]), 12345), dtypes[dtype]);
    CHECK_STATUS(stn_set_requires_grad(cotangent, 1), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, n, leaf, 1, 1, grad), STN_OK);
    for (int k = 0; k < n; k++)
        test_read(stn_cast(grad[k], STN_DTYPE_F64), got[k], CUBE);
    CHECK_STATUS(stn_grad(context, 1, &grad[0], &cotangent, 1, &cotangent, 0, 0, &again), STN_OK);
    test_read(stn_cast(again, STN_DTYPE_F64), second, CUBE);
    for (int i = 0; i < CUBE; i++) {
        double share[3];
        if (bounds == 3)
            shares_of_three(v[0][i], v[1][i], v[2][i], share);
        else
            shares_of_two(v[0][i], v[bounds][i], bounds == 1, share);
        for (int k = 0; k < n; k++)
            if (!CHECK(got[k][i] == share[k]))
                fprintf(stderr, "  clamp of %g, %g, %g, operand %d of bounds %d: got %g, wanted %g\n", v[0][i], v[1][i],
                        v[2][i], k, bounds, got[k][i], share[k]);
        CHECK(second[i] == share[0]);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status clamp_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int d = 0; d < 4; d++)
        for (int bounds = 1; bounds <= 3; bounds++)
            check_clamp(context, d, bounds);
    return STN_OK;
}

static void clamp_shares_cotangents_with_its_bounds_as_pytorch_does(void)
{
    test_ranks(1, clamp_body, NULL);
}

/* Cotangents of 0 beside what is not finite. */
static stn_status prelu_body(stn_context *context, void *arg)
{
    static const double x[] = {2, INFINITY, -2, 0}, weights[] = {INFINITY, (double)NAN, 0.5};
    (void)arg;
    for (int d = 0; d < 4; d++)
        for (int w = 0; w < 3; w++) {
            double y[4], by_x[4], by_w;
            stn_scope_begin(context);
            stn_tensor *weight = tensor_of(context, dtypes[d], 1, &weights[w]), *grad[2];
            stn_tensor *leaf[] = {tensor_of(context, dtypes[d], 4, x), weight};
            for (int k = 0; k < 2; k++)
                CHECK_STATUS(stn_set_requires_grad(leaf[k], 1), STN_OK);
            stn_tensor *out = stn_prelu(leaf[0], leaf[1]), *sum = stn_sum(stn_narrow(out, 0, 0, 3), 0, NULL, 0);
            CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 2, leaf, 0, 0, grad), STN_OK);
            test_read(stn_cast(stn_detach(out), STN_DTYPE_F64), y, 4);
            test_read(stn_cast(grad[0], STN_DTYPE_F64), by_x, 4);
            test_read(stn_cast(grad[1], STN_DTYPE_F64), &by_w, 1);
            CHECK(y[0] == 2 && y[1] == INFINITY && same(d, y[2], -2 * weights[w], 1));
            CHECK(by_x[0] == 1 && by_x[1] == 1 && same(d, by_x[2], weights[w], 1) && by_w == -2);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void what_prelu_does_not_weigh_is_not_weighed_in_its_gradients(void)
{
    test_ranks(1, prelu_body, NULL);
}

/* value * tensor1 first, which has room where the product of the tensors has none; powers that have rows of their own;
 * the product of glu in 16 bits, rounded once. */
static stn_status orders_body(stn_context *context, void *arg)
{
    static const double zero = 0, large = 1e25, small = 1e-30, other = 1e20, halves[] = {0.5009765625, 0.300048828125};
    static const double ends[] = {-INFINITY, -0.0, 0, INFINITY, -2}, exponents[] = {0.5, -0.5, 3, -2, -1, 2};
    double got[5];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = tensor_of(context, STN_DTYPE_F32, 1, &zero), *l = tensor_of(context, STN_DTYPE_F32, 1, &large),
               *s = tensor_of(context, STN_DTYPE_F32, 1, &small), *o = tensor_of(context, STN_DTYPE_F32, 1, &other);
    test_read(stn_addcmul(x, l, l, 1e-20), got, 1);
    CHECK_NEAR(got[0], 1e30, 1e-6);
    test_read(stn_addcdiv(x, s, o, 1e30), got, 1);
    CHECK_NEAR(got[0], 1e-20, 1e-6);
    for (int d = 0; d < 4; d++)
        for (int e = 0; e < 6; e++) {
            const int by_root = dtypes[d] != STN_DTYPE_F16;
            stn_tensor *power = stn_pow_number(tensor_of(context, dtypes[d], 5, ends), exponents[e]);
            test_read(stn_cast(power, STN_DTYPE_F64), got, 5);
            for (int i = 0; i < 5; i++) {
                const double root = exponents[e] > 0 ? sqrt(ends[i]) : 1 / sqrt(ends[i]);
                const double want = fabs(exponents[e]) == 0.5 && by_root ? root : pow(ends[i], exponents[e]);
                if (!CHECK(same(d, got[i], want, 1)))
                    fprintf(stderr, "  %g to the power %g of %s: got %g, wanted %g\n", ends[i], exponents[e],
                            stn_dtype_name(dtypes[d]), got[i], want);
            }
        }
    test_read(stn_cast(stn_glu(tensor_of(context, STN_DTYPE_F16, 2, halves), 0), STN_DTYPE_F64), got, 1);
    CHECK(got[0] == rounded(STN_DTYPE_F16, halves[0] * sigmoid(halves[1])));
    return stn_scope_end(context);
}

/* glu of 16-bit floats, which is another op than that of others: its gradients, made in one pass and of ops that are
 * differentiated again, and the derivatives of these. */
static stn_status gated_body(stn_context *context, void *arg)
{
    enum { N = 12 };
    double v[N], got[3][3][N];
    static const stn_dtype kinds[] = {STN_DTYPE_F64, STN_DTYPE_F16, STN_DTYPE_BF16};
    (void)arg;
    for (int i = 0; i < N; i++)
        v[i] = (double)(i * 5 % N - 6) / 4;
    for (int k = 0; k < 3; k++) {
        stn_scope_begin(context);
        stn_tensor *x = tensor_of(context, kinds[k], N, v), *grad;
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *sum = stn_sum(stn_square(stn_glu(x, 0)), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 1, 0, &grad), STN_OK);
        test_read(stn_cast(grad, STN_DTYPE_F64), got[k][0], N);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 1, 1, &grad), STN_OK);
        test_read(stn_cast(stn_detach(grad), STN_DTYPE_F64), got[k][1], N);
        sum = stn_sum(stn_square(grad), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 0, 0, &grad), STN_OK);
        test_read(stn_cast(grad, STN_DTYPE_F64), got[k][2], N);
        for (int order = 0; order < 3; order++)
            for (int i = 0; i < N; i++)
                CHECK(fabs(got[k][order][i] - got[0][order][i]) < (kinds[k] == STN_DTYPE_F16 ? 0.01 : 0.08));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void gradients_of_glu_of_16_bits_are_those_of_64(void)
{
    test_ranks(1, gated_body, NULL);
}

static void products_are_taken_in_pytorchs_order(void)
{
    test_ranks(1, orders_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"functions_and_gradients_at_special_values_are_those_of_pytorch",
         functions_and_gradients_at_special_values_are_those_of_pytorch},
        {"quotients_rests_and_extremes_of_special_values_are_those_of_pytorch",
         quotients_rests_and_extremes_of_special_values_are_those_of_pytorch},
        {"clamp_shares_cotangents_with_its_bounds_as_pytorch_does",
         clamp_shares_cotangents_with_its_bounds_as_pytorch_does},
        {"what_prelu_does_not_weigh_is_not_weighed_in_its_gradients",
         what_prelu_does_not_weigh_is_not_weighed_in_its_gradients},
        {"gradients_of_glu_of_16_bits_are_those_of_64", gradients_of_glu_of_16_bits_are_those_of_64},
        {"products_are_taken_in_pytorchs_order", products_are_taken_in_pytorchs_order},
    };
    return TEST_MAIN(argc, argv, cases);
}
