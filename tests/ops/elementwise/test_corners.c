/* Gradients of pointwise ops of two operands where these are 0, equal, infinite, NaN, or larger than their squares may
 * be, and the derivatives of these gradients; the ends of logit. */
#include "harness.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>

static stn_status far_body(stn_context *context, void *arg)
{
    enum { POINTS = 3, ORIGIN = 2 };
    const struct random_shape shape = {1, {POINTS}};
    const double y[POINTS] = {3e25, 4e-25, 0}, x[POINTS] = {4e25, 3e-25, 0};
    const double want[2][POINTS] = {{1.6e-26, 1.2e24, 0}, {-1.2e-26, -1.6e24, 0}};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {against_one_local(context, STN_DTYPE_F32, &shape, y),
                        against_one_local(context, STN_DTYPE_F32, &shape, x)};
    stn_tensor *grad[2] = {NULL};
    double got[POINTS];
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
    stn_tensor *sum = stn_sum(stn_atan2(in[0], in[1]), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 2, in, 0, 0, grad), STN_OK);
    for (int i = 0; i < 2; i++) {
        test_read(grad[i], got, POINTS);
        for (int k = 0; k < ORIGIN; k++)
            CHECK_NEAR(got[k] / want[i][k], 1, 1e-6);
        CHECK(got[ORIGIN] == 0);
    }
    return stn_scope_end(context);
}

static stn_tensor *angle_of_parts(stn_tensor *a, stn_tensor *b) { return stn_angle(stn_complex(b, a)); }

/* A coordinate is so much larger than the other that its square over the other has no room in the dtype, or in f32. */
static stn_status steep_body(stn_context *context, void *arg)
{
    enum { POINTS = 6 };
    const struct random_shape shape = {1, {POINTS}};
    static const struct {
        stn_dtype dtype;
        double y[POINTS], x[POINTS], cotangent, tolerance;
    } rows[] = {
        {STN_DTYPE_F16, {300, 1, 60000, -0.0625, 2, 300}, {1, -300, 3000, 250, 0x1p-14, 300}, 512, 2e-3},
        {STN_DTYPE_BF16, {3, 2e20, 1, 5e-30, 4, 5e-30}, {3, -1, 3e25, 1e10, 1e-38, 1e-30}, 1e10, 2e-2},
        {STN_DTYPE_F32, {3e25, 1e20, 1, 1e30, 4e-25, 4}, {4e25, -1, -1e20, 1e-5, 3e-25, 1e-38}, 1e12, 1e-6},
        {STN_DTYPE_F64, {3e250, 1e200, 1, 1e300, 4e-250, 4}, {4e250, -1, -1e200, 1e-5, 3e-250, 1e-305}, 1e30, 1e-14}};
    (void)arg;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const int is_complex = rows[r].dtype == STN_DTYPE_F32 || rows[r].dtype == STN_DTYPE_F64;
        for (int k = 0; k <= is_complex; k++) {
            stn_scope_begin(context);
            stn_tensor *in[] = {against_one_local(context, STN_DTYPE_F64, &shape, rows[r].y),
                                against_one_local(context, STN_DTYPE_F64, &shape, rows[r].x)}, *grad[2] = {NULL};
            for (int i = 0; i < 2; i++)
                in[i] = stn_clone(stn_cast(in[i], rows[r].dtype));
            double a[POINTS], b[POINTS], got[2][POINTS];
            test_read(stn_cast(in[0], STN_DTYPE_F64), a, POINTS);
            test_read(stn_cast(in[1], STN_DTYPE_F64), b, POINTS);
            for (int i = 0; i < 2; i++)
                CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
            stn_tensor *y = k ? angle_of_parts(in[0], in[1]) : stn_atan2(in[0], in[1]);
            stn_tensor *cotangent =
                stn_mul_number(stn_cast(stn_ne_number(stn_detach(in[0]), 12345), rows[r].dtype), rows[r].cotangent);
            CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 2, in, 0, 0, grad), STN_OK);
            for (int i = 0; i < 2; i++)
                test_read(stn_cast(grad[i], STN_DTYPE_F64), got[i], POINTS);
            for (int i = 0; i < POINTS; i++) {
                const double length = hypot(a[i], b[i]);
                const double want[] = {rows[r].cotangent / length * (b[i] / length),
                                       -rows[r].cotangent / length * (a[i] / length)};
                for (int j = 0; j < 2; j++)
                    if (!CHECK(fabs(got[j][i] - want[j]) <= rows[r].tolerance * fabs(want[j]) + 1e-37 ||
                               (fabs(want[j]) > 1e38 && isinf(got[j][i]))))
                        fprintf(stderr, "  of %g and %g in %s: got %g, wanted %g\n", a[i], b[i],
                                stn_dtype_name(rows[r].dtype), got[j][i], want[j]);
            }
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    }
    return STN_OK;
}

static void angles_of_steep_points_have_their_derivatives(void)
{
    test_ranks(1, steep_body, NULL);
}

/* Of lengths whose squares f32 does not have, and of none. */
static void angles_of_far_and_near_points_have_their_derivatives(void)
{
    test_ranks(1, far_body, NULL);
}

/* The gradients of `y` with respect to two leaves, and the derivatives of the sum of the first one with respect to
 * the leaves and the cotangent. */
static void read_again(stn_context *context, stn_tensor *y, stn_tensor *const leaf[2], int n, double *got)
{
    stn_tensor *grad[2] = {NULL}, *again[3] = {NULL};
    stn_tensor *cotangent = stn_cast(stn_ne_number(stn_detach(leaf[0]), 12345), STN_DTYPE_F64);
    CHECK_STATUS(stn_set_requires_grad(cotangent, 1), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 2, leaf, 1, 1, grad), STN_OK);
    stn_tensor *sum = stn_sum(grad[0], 0, NULL, 0), *all[] = {leaf[0], leaf[1], cotangent};
    CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 3, all, 0, 0, again), STN_OK);
    for (int k = 0; k < 2; k++)
        test_read(stn_detach(grad[k]), got + k * n, n);
    for (int k = 0; k < 3; k++)
        test_read(again[k], got + (2 + k) * n, n);
}

/* Where a coordinate is 0, or both, and powers of 0. */
static stn_status zeros_body(stn_context *context, void *arg)
{
    enum { POINTS = 5, RESULTS = 5 };
    const struct random_shape shape = {1, {POINTS}};
    const double a[POINTS] = {0, -2, 0, 3, 0}, b[POINTS] = {2, 0, -4, 4, 0}, exponents[POINTS] = {1, 3, 2, 0, 4};
    stn_tensor *(*const of[])(stn_tensor *, stn_tensor *) = {stn_atan2, angle_of_parts};
    double got[RESULTS * POINTS];
    (void)arg;
    for (int k = 0; k < 3; k++) {
        stn_scope_begin(context);
        const double *const other = k < 2 ? b : exponents;
        stn_tensor *leaf[] = {against_one_local(context, STN_DTYPE_F64, &shape, a),
                              against_one_local(context, STN_DTYPE_F64, &shape, other)};
        for (int i = 0; i < 2; i++)
            CHECK_STATUS(stn_set_requires_grad(leaf[i], 1), STN_OK);
        stn_tensor *y = k < 2 ? of[k](leaf[0], leaf[1]) : stn_pow(stn_square(leaf[0]), leaf[1]), *plain[2] = {NULL};
        stn_tensor *sum = stn_sum(y, 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 2, leaf, 1, 0, plain), STN_OK);
        read_again(context, y, leaf, POINTS, got);
        for (int i = 0; i < 2; i++)
            against_one_compare(plain[i], got + i * POINTS, 1e-15);
        for (int i = 0; i < POINTS && k < 2; i++) {
            const double r = a[i] * a[i] + b[i] * b[i], over = r > 0 ? 1 / r : 0;
            const double want[RESULTS] = {b[i] * over, -a[i] * over, -2 * a[i] * b[i] * over * over,
                                          (a[i] * a[i] - b[i] * b[i]) * over * over, b[i] * over};
            for (int j = 0; j < RESULTS; j++)
                CHECK_NEAR(got[j * POINTS + i], want[j], 1e-12);
        }
        for (int i = 0; i < RESULTS * POINTS; i++)
            CHECK(isfinite(got[i]));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void gradients_at_zeros_are_differentiated_again(void)
{
    test_ranks(1, zeros_body, NULL);
}

static stn_status nan_body(stn_context *context, void *arg)
{
    enum { PAIRS = 5 };
    const struct random_shape shape = {1, {PAIRS}};
    const double x[PAIRS] = {1, 2, 3, NAN, 3}, y[PAIRS] = {2, 1, 3, 3, NAN};
    const double want[2][2][PAIRS] = {{{0, 1, 0.5, 1, 1}, {1, 0, 0.5, 1, 1}}, {{1, 0, 0.5, 1, 1}, {0, 1, 0.5, 1, 1}}};
    (void)arg;
    for (int least = 0; least < 2; least++) {
        stn_scope_begin(context);
        stn_tensor *in[] = {against_one_local(context, STN_DTYPE_F64, &shape, x),
                            against_one_local(context, STN_DTYPE_F64, &shape, y)};
        stn_tensor *grad[2] = {NULL};
        for (int i = 0; i < 2; i++)
            CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
        stn_tensor *sum = stn_sum(least ? stn_minimum(in[0], in[1]) : stn_maximum(in[0], in[1]), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 2, in, 0, 0, grad), STN_OK);
        for (int i = 0; i < 2; i++)
            against_one_compare(grad[i], want[least][i], 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void extremes_of_equal_numbers_and_of_nan_pass_to_both(void)
{
    test_ranks(1, nan_body, NULL);
}

/* But for the last places, in which devices differ; zeros have signs. */
static int is_same(double got, double want)
{
    if (isnan(want) || isinf(want) || want == 0)
        return isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want);
    return fabs(got - want) <= 1e-14 * fabs(want);
}

/* Zeros keep their signs. */
static stn_tensor *vector(stn_context *context, int64_t n, const double *values)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *tensor = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return tensor;
}

/* One pair of operands: the value, the two gradients (zeros without signs), as PyTorch 2.15 gives them. */
struct corner {
    double x, y, value, by_x, by_y;
};

static void check_corners(stn_context *context, stn_tensor *(*op)(stn_tensor *, stn_tensor *), int n,
                          const struct corner *corners)
{
    enum { MOST = 16 };
    double x[MOST], y[MOST], value[MOST], got[2][MOST] = {{0}};
    for (int i = 0; i < n; i++)
        x[i] = corners[i].x, y[i] = corners[i].y;
    stn_scope_begin(context);
    stn_tensor *in[] = {vector(context, n, x), vector(context, n, y)}, *grad[2] = {NULL};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
    stn_tensor *out = op(in[0], in[1]), *ones = stn_cast(stn_ne_number(stn_detach(in[0]), 12345), STN_DTYPE_F64);
    test_read(stn_detach(out), value, n);
    CHECK_STATUS(stn_grad(context, 1, &out, &ones, 2, in, 0, 0, grad), STN_OK);
    for (int i = 0; i < 2; i++)
        if (grad[i])
            test_read(grad[i], got[i], n);
    for (int i = 0; i < n; i++)
        if (!CHECK(is_same(value[i], corners[i].value) && is_same(got[0][i] + 0.0, corners[i].by_x) &&
                   is_same(got[1][i] + 0.0, corners[i].by_y)))
            fprintf(stderr, "  of %g and %g: got %g, gradients %g and %g\n", x[i], y[i], value[i], got[0][i],
                    got[1][i]);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

#define CHECK_CORNERS(op, corners) check_corners(context, op, sizeof corners / sizeof *corners, corners)

static stn_status pairs_body(stn_context *context, void *arg)
{
    static const double inf = INFINITY, nan = (double)NAN, more = 1e308;
    const struct corner sums[] = {{inf, inf, inf, nan, nan}, {inf, -inf, inf, 1, 0}, {-inf, -inf, -inf, nan, nan},
                                  {-inf, 2, 2, 0, 1}, {nan, 1, nan, nan, nan}, {1, nan, nan, nan, nan},
                                  {0, 0, M_LN2, 0.5, 0.5}, {more, more, more, 0.5, 0.5}, {more, -more, more, 1, 0}};
    const struct corner products[] = {{0, 0, 0, 0, nan}, {0, nan, nan, nan, nan}, {0, inf, 0, inf, 0},
                                      {-0.0, -1, 0, 0, 0}, {nan, 0, nan, -inf, nan}, {1, 0, -inf, -inf, inf},
                                      {inf, 0, -inf, -inf, inf},
                                      {-1, 0, inf, -inf, -inf}, {2, -4, nan, nan, -0.5}, {0, 1, 0, 0, 0}};
    const struct corner signs[] = {{0, -0.0, -0.0, 0, 0}, {-0.0, 1, 0, 0, 0}, {1, -0.0, -1, -1, 0}, {-2, 0, 2, -1, 0},
                                   {-2, -nan, -2, 1, 0}, {nan, -1, nan, nan, 0}, {inf, -1, -inf, nan, 0},
                                   {3, -inf, -3, -1, 0}, {-3, -2, -3, 1, 0}};
    (void)arg;
    CHECK_CORNERS(stn_logaddexp, sums);
    CHECK_CORNERS(stn_xlogy, products);
    CHECK_CORNERS(stn_copysign, signs);
    return STN_OK;
}

static void pairs_of_zeros_infinities_and_nan_have_pytorchs_values_and_gradients(void)
{
    test_ranks(1, pairs_body, NULL);
}

/* A number in the place of the second operand; integers, which give f32. */
static stn_status numbers_body(stn_context *context, void *arg)
{
    enum { N = 3 };
    const struct random_shape shape = {1, {N}};
    const double v[N] = {0, -2, 3}, logs[N] = {0, -2 * log(5), 3 * log(5)}, signed_v[N] = {-0.0, -2, -3};
    double got[N];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &shape, v), *whole = stn_cast(x, STN_DTYPE_I32), *grad;
    against_one_compare(stn_xlogy_number(x, 5), logs, 1e-15);
    against_one_compare(stn_copysign_number(x, -0.0), signed_v, 0);
    CHECK_I64(stn_tensor_dtype(stn_xlogy_number(whole, 5)), STN_DTYPE_F32);
    CHECK_I64(stn_tensor_dtype(stn_copysign(whole, whole)), STN_DTYPE_F32);
    against_one_compare(stn_cast(stn_xlogy_number(whole, 5), STN_DTYPE_F64), logs, 1e-7);
    against_one_compare(stn_cast(stn_copysign_number(whole, -1), STN_DTYPE_F64), signed_v, 0);
    for (int k = 0; k < 2; k++) {
        const double number = k ? 0 : 5, slopes[2][N] = {{log(5), log(5), log(5)}, {0, -INFINITY, -INFINITY}};
        stn_tensor *leaf = stn_detach(x);
        CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
        stn_tensor *sum = stn_sum(stn_xlogy_number(leaf, number), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &leaf, 0, 0, &grad), STN_OK);
        test_read(grad, got, N);
        for (int i = 0; i < N; i++)
            CHECK(is_same(got[i] + 0.0, slopes[k][i]));
    }
    return stn_scope_end(context);
}

static void second_operands_may_be_numbers(void)
{
    test_ranks(1, numbers_body, NULL);
}

/* Within eps and 1 - eps, eps as in PyTorch: a negative one is none, beyond 1/2 the lower bound comes first. */
static stn_status logit_body(stn_context *context, void *arg)
{
    enum { N = 6, CASES = 4 };
    static const double v[N] = {-1, 0.05, 0.5, 0.95, 2, (double)NAN}, eps[CASES] = {0.1, 0, -1, 0.7};
    const double l = log(9), f = log(19), s = log(0.7 / 0.3), end = 1 / (0.05 * 0.95);
    const double want[CASES][N] = {{-l, -l, 0, l, l, NAN}, {-INFINITY, -f, 0, f, INFINITY, NAN},
                                   {NAN, -f, 0, f, NAN, NAN}, {s, s, s, -s, -s, NAN}};
    const double slopes[CASES][N] = {{0, 0, 4, 0, 0, NAN}, {0, end, 4, end, 0, NAN}, {NAN, end, 4, end, NAN, NAN},
                                     {0, 0, 0, 0, 0, NAN}};
    (void)arg;
    for (int k = 0; k < CASES; k++) {
        double got[2][N];
        stn_scope_begin(context);
        stn_tensor *x = vector(context, N, v), *grad;
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *y = stn_logit(x, &eps[k]), *ones = stn_cast(stn_ne_number(stn_detach(x), 12345), STN_DTYPE_F64);
        test_read(stn_detach(y), got[0], N);
        CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &x, 0, 0, &grad), STN_OK);
        test_read(grad, got[1], N);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < 2; j++) {
                const double wanted = j ? slopes[k][i] : want[k][i], g = got[j][i];
                if (!CHECK(is_same(g + 0.0, wanted)))
                    fprintf(stderr, "  logit of %g, eps %g, %d: got %g, wanted %g\n", v[i], eps[k], j, g, wanted);
            }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void logits_end_at_eps(void)
{
    test_ranks(1, logit_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"angles_of_steep_points_have_their_derivatives", angles_of_steep_points_have_their_derivatives},
        {"angles_of_far_and_near_points_have_their_derivatives", angles_of_far_and_near_points_have_their_derivatives},
        {"gradients_at_zeros_are_differentiated_again", gradients_at_zeros_are_differentiated_again},
        {"extremes_of_equal_numbers_and_of_nan_pass_to_both", extremes_of_equal_numbers_and_of_nan_pass_to_both},
        {"pairs_of_zeros_infinities_and_nan_have_pytorchs_values_and_gradients",
         pairs_of_zeros_infinities_and_nan_have_pytorchs_values_and_gradients},
        {"second_operands_may_be_numbers", second_operands_may_be_numbers},
        {"logits_end_at_eps", logits_end_at_eps},
    };
    return TEST_MAIN(argc, argv, cases);
}
