/* gelu and its two derivatives, against the C library in f64, on cut tensors. */
#include "ranks.h"

#include <math.h>

enum { N = 41 };

static double spread(int64_t i)
{
    return 0.45 * (double)(i - N / 2) + 0.01; /* about -9 to 9 */
}

static double direction(int64_t i)
{
    return 0.3 + test_value(i);
}

static double exact(double x, stn_gelu_approximation approximation)
{
    if (approximation == STN_GELU_TANH)
        return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); /* (1 + tanh u) / 2 without cancellation */
    return 0.5 * x * erfc(-x / sqrt(2));
}

static double slope(double x, stn_gelu_approximation a)
{
    const double h = 1e-5;
    return (exact(x + h, a) - exact(x - h, a)) / (2 * h);
}

static double curvature(double x, stn_gelu_approximation a)
{
    const double h = 1e-4;
    return (exact(x + h, a) - 2 * exact(x, a) + exact(x - h, a)) / (h * h);
}

static stn_tensor *line(stn_context *context, stn_dtype dtype, double (*value)(int64_t))
{
    const int64_t shape[] = {N}, uneven[] = {7, 0, 34}, *const cut[] = {uneven};
    stn_placement shard = stn_shard(0);
    int p = stn_context_size(context);
    return test_tensor(context, test_mesh(context, p, 0), &shard, dtype, 1, shape, p == 3 ? cut : NULL, value);
}

static stn_status body(stn_context *context, void *arg)
{
    stn_gelu_approximation a = *(const stn_gelu_approximation *)arg;
    double y[N], g[N], gg[N];
    stn_scope_begin(context);
    stn_tensor *x = line(context, STN_DTYPE_F64, spread), *v = line(context, STN_DTYPE_F64, direction), *first, *second;
    stn_set_requires_grad(x, 1);
    stn_tensor *out = stn_gelu(x, a), *loss = stn_sum(out, 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 0, 1, &first), STN_OK);
    stn_tensor *along = stn_sum(stn_mul(first, v), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &along, NULL, 1, &x, 0, 0, &second), STN_OK);
    test_read(out, y, N);
    test_read(first, g, N);
    test_read(second, gg, N);
    for (int i = 0; i < N; i++) {
        CHECK_NEAR(y[i], exact(spread(i), a), 1e-13);
        CHECK(fabs(g[i] - slope(spread(i), a)) < 1e-9);
        CHECK(fabs(gg[i] - direction(i) * curvature(spread(i), a)) < 1e-6);
    }
    return stn_scope_end(context);
}

static void values_and_both_derivatives_are_those_of_the_c_library(void)
{
    static const stn_gelu_approximation both[] = {STN_GELU_ERF, STN_GELU_TANH};
    for (int i = 0; i < 2; i++) {
        test_ranks(1, body, (void *)&both[i]);
        test_ranks(3, body, (void *)&both[i]);
    }
}

static stn_status f32_body(stn_context *context, void *arg)
{
    double y[N];
    (void)arg;
    for (int a = STN_GELU_ERF; a <= STN_GELU_TANH; a++) {
        stn_scope_begin(context);
        test_read(stn_gelu(line(context, STN_DTYPE_F32, spread), (stn_gelu_approximation)a), y, N);
        for (int i = 0; i < N; i++)
            CHECK(fabs(y[i] - exact(spread(i), (stn_gelu_approximation)a)) < 3e-7 * (1 + fabs(spread(i))));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void f32_is_within_3e_7_of_the_argument(void)
{
    test_ranks(2, f32_body, NULL);
}

static double unusual(int64_t i)
{
    const double values[] = {NAN, INFINITY, 0, -100, 100};
    return values[i % 5];
}

static stn_status unusual_body(stn_context *context, void *arg)
{
    double y[N];
    (void)arg;
    stn_scope_begin(context);
    test_read(stn_gelu(line(context, STN_DTYPE_F32, unusual), STN_GELU_ERF), y, N);
    CHECK(isnan(y[0]));
    CHECK_NEAR(y[1], INFINITY, 0);
    CHECK_NEAR(y[2], 0, 0);
    CHECK(fabs(y[3]) < 1e-30);
    CHECK_NEAR(y[4], 100, 0);
    return stn_scope_end(context);
}

static void nan_infinity_and_the_tails_are_right(void)
{
    test_ranks(1, unusual_body, NULL);
}

static stn_status refused_body(stn_context *context, void *arg)
{
    const stn_spec *spec;
    const int64_t n = 3;
    char text[256];
    (void)arg;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *whole = stn_empty(context, spec);
    stn_spec_release(&spec);
    CHECK(stn_tensor_is_error(stn_gelu(whole, STN_GELU_ERF)));
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_DTYPE);
    CHECK(stn_tensor_is_error(stn_gelu(whole, (stn_gelu_approximation)7)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "gelu: approximation got 7, wanted STN_GELU_ERF or STN_GELU_TANH");
    stn_tensor_release(&whole);
    return STN_OK;
}

static void integers_and_unknown_approximations_are_refused(void)
{
    test_ranks(1, refused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"values_and_both_derivatives_are_those_of_the_c_library",
         values_and_both_derivatives_are_those_of_the_c_library},
        {"f32_is_within_3e_7_of_the_argument", f32_is_within_3e_7_of_the_argument},
        {"nan_infinity_and_the_tails_are_right", nan_infinity_and_the_tails_are_right},
        {"integers_and_unknown_approximations_are_refused", integers_and_unknown_approximations_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
