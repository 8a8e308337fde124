/* vector_norm and what is made of it: 16-bit floats, numbers whose squares no dtype holds, orders below 0, layouts
 * of every dtype, what moves. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
static const double roundings[] = {1e-6, 1e-14, 8e-3, 1e-3}; /* of a result */

static stn_tensor *filled(stn_context *context, stn_dtype dtype, int n, double value)
{
    const struct random_shape shape = {1, {n}};
    double *values = malloc((size_t)n * sizeof *values);
    for (int i = 0; i < n; i++)
        values[i] = value;
    stn_tensor *x = stn_cast(against_one_local(context, STN_DTYPE_F64, &shape, values), dtype);
    free(values);
    return x;
}

static double number(stn_tensor *x)
{
    double value = NAN;
    CHECK_STATUS(stn_item(x, &value), STN_OK);
    return value;
}

static double gradient(stn_tensor *(*norm)(stn_tensor *x, double ord), stn_tensor *x, double ord)
{
    stn_context *context = stn_tensor_context(x);
    stn_tensor *grad, *leaf = stn_detach(x);
    CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
    stn_tensor *y = norm(leaf, ord);
    CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &leaf, 0, 0, &grad), STN_OK);
    return number(stn_narrow(grad, 0, 0, 1));
}

static stn_tensor *norm_of(stn_tensor *x, double ord)
{
    return stn_vector_norm(x, ord, 0, NULL, 0);
}

static void check_norm(stn_context *context, stn_dtype dtype, double rounding, double value, double ord)
{
    enum { N = 4 };
    stn_tensor *x = filled(context, dtype, N, value);
    const double exact = number(stn_narrow(x, 0, 0, 1)), factor = pow(N, 1 / ord); /* of N equal numbers */
    CHECK_NEAR(number(norm_of(x, ord)), factor * fabs(exact), rounding);
    CHECK_NEAR(gradient(norm_of, x, ord), (exact < 0 ? -1 : 1) * factor / N, 4 * rounding);
    CHECK_NEAR(number(stn_narrow(stn_normalize(x, ord, 0, NULL, 0), 0, 0, 1)), (exact < 0 ? -1 : 1) / factor,
               2 * rounding);
}

/* Powers of 300 and of 1e-4 have no room in f16, nor squares of 1e30 in f32 and bf16. */
static stn_status powers_body(stn_context *context, void *arg)
{
    static const double values[] = {300, 1e-4, 8000, -41}, far[] = {1e30, 1e-30};
    (void)arg;
    stn_scope_begin(context);
    for (int d = 0; d < 4; d++) {
        for (int i = 0; i < 4; i++) {
            check_norm(context, dtypes[d], roundings[d], values[i], 2);
            check_norm(context, dtypes[d], roundings[d], values[i], 3);
            check_norm(context, dtypes[d], roundings[d], values[i], 1);
        }
        for (int i = 0; i < 2 && dtypes[d] != STN_DTYPE_F16; i++)
            check_norm(context, dtypes[d], roundings[d], far[i], 2);
    }
    return stn_scope_end(context);
}

static void powers_that_the_dtype_cannot_hold_give_norms_that_it_can(void)
{
    test_ranks(1, powers_body, NULL);
}

static stn_status cosine_body(stn_context *context, void *arg)
{
    static const double values[] = {300, 1e-4, 8000};
    (void)arg;
    stn_scope_begin(context);
    for (int d = 0; d < 4; d++) {
        for (int i = 0; i < 3; i++) {
            stn_tensor *x = filled(context, dtypes[d], 5, values[i]);
            CHECK_NEAR(number(stn_cosine_similarity(x, stn_neg(x), 0, 1e-8)), -1, 2 * roundings[d]);
            CHECK_I64(stn_tensor_dtype(stn_cosine_similarity(x, x, 0, 1e-8)), dtypes[d]);
        }
        stn_tensor *zeros = filled(context, dtypes[d], 3, 0); /* eps has no room in f16, but 0 / eps has */
        CHECK_NEAR(number(stn_narrow(stn_normalize(zeros, 2, 0, NULL, 1e-12), 0, 0, 1)), 0, 0);
        CHECK_NEAR(number(stn_logsumexp(filled(context, dtypes[d], 100000, 2), 0, NULL, 0)), 2 + log(100000),
                   roundings[d]);
    }
    return stn_scope_end(context);
}

static void cosines_and_sums_of_exponentials_are_computed_wide(void)
{
    test_ranks(1, cosine_body, NULL);
}

static stn_status below_zero_body(stn_context *context, void *arg)
{
    const struct random_shape three = {1, {3}};
    const double infinite[] = {INFINITY, -INFINITY, INFINITY}, some[] = {INFINITY, 2, -2}, zero[] = {3, 0, 1},
                 unknown[] = {1, NAN, 0};
    (void)arg;
    stn_scope_begin(context);
    for (int d = 0; d < 4; d++)
        for (double ord = -3; ord < 0; ord += 1) {
            CHECK_NEAR(
                number(norm_of(stn_cast(against_one_local(context, STN_DTYPE_F32, &three, infinite), dtypes[d]), ord)),
                INFINITY, 0);
            CHECK_NEAR(
                number(norm_of(stn_cast(against_one_local(context, STN_DTYPE_F32, &three, some), dtypes[d]), ord)),
                pow(2 * pow(2, ord), 1 / ord), 4 * roundings[d]);
            CHECK_NEAR(
                number(norm_of(stn_cast(against_one_local(context, STN_DTYPE_F32, &three, zero), dtypes[d]), ord)), 0,
                0);
            CHECK(isnan(number(
                norm_of(stn_cast(against_one_local(context, STN_DTYPE_F32, &three, unknown), dtypes[d]), -ord))));
        }
    return stn_scope_end(context);
}

static void orders_below_0_of_infinities_alone_are_infinite(void)
{
    test_ranks(1, below_zero_body, NULL);
}

/* The gradient of each of three numbers. */
static void check_gradients(stn_context *context, const double *x, double ord, const double *expected)
{
    const struct random_shape three = {1, {3}};
    stn_tensor *grad, *leaf = against_one_local(context, STN_DTYPE_F64, &three, x);
    CHECK_STATUS(stn_set_requires_grad(leaf, 1), STN_OK);
    stn_tensor *y = norm_of(leaf, ord);
    CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &leaf, 0, 0, &grad), STN_OK);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(number(stn_narrow(grad, 0, i, 1)), expected[i], 1e-12);
}

/* As PyTorch has it: (sum |x|^p)^(1/p - 1) |x|^(p - 1) where x is not 0. */
static stn_status zeros_body(stn_context *context, void *arg)
{
    const double x[] = {4, 0, -9}, zeros[] = {0, 0, 0};
    const double half[] = {(2 + 3) / 2.0, 0, -(2 + 3) / 3.0};
    (void)arg;
    stn_scope_begin(context);
    check_gradients(context, x, 0.5, half);
    check_gradients(context, x, -1, zeros);
    check_gradients(context, x, -2.5, zeros);
    for (double ord = -2.25; ord < 4; ord += 0.5)
        check_gradients(context, zeros, ord, zeros);
    return stn_scope_end(context);
}

static void numbers_that_are_zero_have_the_gradient_zero(void)
{
    test_ranks(1, zeros_body, NULL);
}

struct norm {
    double ord; /* 0: cosine similarity of x and its square */
    stn_dtype dtype;
    int dim, normalises;
};

static stn_tensor *call_norm(stn_tensor *const *in, const void *arg)
{
    const struct norm *n = arg;
    stn_tensor *x = stn_cast(in[0], n->dtype), *y;
    if (n->ord == 0)
        y = stn_cosine_similarity(x, stn_mul(x, x), n->dim, 1e-8);
    else
        y = n->normalises ? stn_normalize(x, n->ord, 1, &n->dim, 1e-12)
                          : stn_vector_norm(x, n->ord, n->dim < 0 ? 0 : 1, &n->dim, 0);
    return stn_cast(y, STN_DTYPE_F64);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    static const double orders[] = {2, 1, 3, -1, 0};
    static const double tolerances[] = {2e-6, 1e-11, 3e-2, 4e-3};
    const struct random_shape shape = {3, {4, 5, 3}};
    uint64_t state = 29;
    (void)arg;
    for (int t = 0; t < 4 * 5 * 2 * 2; t++) {
        const int d = t / 20;
        const struct norm n = {orders[t % 5], dtypes[d], orders[t % 5] == 0 ? 1 : t / 10 % 2 - (t / 5 % 2 ? 0 : 1),
                               t / 5 % 2};
        struct against_one_op op = {.call = call_norm,
                                    .arg = &n,
                                    .n_in = 1,
                                    .tolerance = tolerances[d],
                                    .first_order = dtypes[d] != STN_DTYPE_F64};
        double *x = against_one_draw(&state, against_one_numel(&shape));
        for (int64_t k = 0; k < against_one_numel(&shape); k++)
            x[k] += x[k] < 0 ? -0.5 : 0.5; /* |x|^p bends at 0 */
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, x, 1u << STN_SUM};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(x);
    }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives_in_every_dtype(void)
{
    test_worlds(layouts_body, NULL);
}

/* Beside NaN a norm is NaN, and so are its gradients of orders other than 1 and the infinite ones, as in PyTorch. */
static stn_status nan_body(stn_context *context, void *arg)
{
    static const double orders[] = {3, 1.5, 0.5, -1, 2, 1}, values[] = {1, (double)NAN, -2};
    const struct random_shape shape = {1, {3}};
    (void)arg;
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < 6; i++) {
            double got[3];
            stn_scope_begin(context);
            stn_tensor *x = against_one_local(context, dtypes[d], &shape, values), *grad;
            CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
            stn_tensor *y = norm_of(x, orders[i]);
            CHECK(isnan(number(y)));
            CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &x, 0, 0, &grad), STN_OK);
            test_read(grad, got, 3);
            for (int k = 0; k < 3; k++)
                CHECK(orders[i] == 1 ? got[k] == (k == 0) - (k == 2) : isnan(got[k]));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void gradients_beside_nan_are_nan(void)
{
    test_ranks(1, nan_body, NULL);
}

/* One number of f64 for each result that ranks share, and no copy of the input. */
static stn_status moves_body(stn_context *context, void *arg)
{
    enum { ROWS = 3000, COLS = 7, RESULTS = 1 << 14 };
    const int64_t shape[] = {ROWS, COLS};
    const stn_placement rows = stn_shard(0);
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 3, 0), &rows, STN_DTYPE_F32, 2, shape, NULL, test_value);
    const int64_t before = (stn_context_stats(context, &stats), (int64_t)stats.live_bytes);
    stn_context_stats_reset(context);
    stn_tensor *y = stn_vector_norm(x, 2, 1, (int[]){0}, 0);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.collectives, 1);
    CHECK((int64_t)stats.peak_bytes - before < RESULTS);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_REPLICATE);
    stn_context_stats_reset(context);
    y = stn_vector_norm(x, 3, 1, (int[]){0}, 0); /* whose sum is read twice */
    stn_context_stats(context, &stats);
    CHECK_I64(stats.collectives, 1);
    return stn_scope_end(context);
}

static void squares_are_added_without_a_copy_and_joined_in_one_collective(void)
{
    test_ranks(3, moves_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"powers_that_the_dtype_cannot_hold_give_norms_that_it_can",
         powers_that_the_dtype_cannot_hold_give_norms_that_it_can},
        {"cosines_and_sums_of_exponentials_are_computed_wide", cosines_and_sums_of_exponentials_are_computed_wide},
        {"orders_below_0_of_infinities_alone_are_infinite", orders_below_0_of_infinities_alone_are_infinite},
        {"gradients_beside_nan_are_nan", gradients_beside_nan_are_nan},
        {"numbers_that_are_zero_have_the_gradient_zero", numbers_that_are_zero_have_the_gradient_zero},
        {"random_layouts_give_what_one_process_gives_in_every_dtype",
         random_layouts_give_what_one_process_gives_in_every_dtype},
        {"squares_are_added_without_a_copy_and_joined_in_one_collective",
         squares_are_added_without_a_copy_and_joined_in_one_collective},
    };
    return TEST_MAIN(argc, argv, cases);
}
