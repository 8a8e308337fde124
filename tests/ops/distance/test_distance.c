/* cdist: metrics against a plain loop, gradients against differences and by layouts, zero distances, close rows,
 * what moves; cross, cosine_similarity and normalize: layouts, second derivatives, the part of eps. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double powers[] = {0, 0.5, 1, 1.5, 2, 3, INFINITY};
enum { N_POWERS = sizeof powers / sizeof *powers };

static stn_tensor *call_cdist(stn_tensor *const *in, const void *arg)
{
    return stn_cdist(in[0], in[1], *(const double *)arg);
}

static double plain_distance(const double *a, const double *b, int64_t m, double p)
{
    double sum = 0;
    for (int64_t k = 0; k < m; k++) {
        double d = fabs(a[k] - b[k]);
        sum = p == 0 ? sum + (d != 0) : isinf(p) ? fmax(sum, d) : sum + pow(d, p);
    }
    return p == 0 || isinf(p) ? sum : pow(sum, 1 / p);
}

/* More rows and elements than a tile has. */
static stn_status metrics_body(stn_context *context, void *arg)
{
    const struct random_shape shapes[] = {{3, {1, 67, 70}}, {3, {2, 35, 70}}};
    uint64_t state = 3;
    (void)arg;
    double *a = against_one_draw(&state, against_one_numel(&shapes[0])),
           *b = against_one_draw(&state, against_one_numel(&shapes[1]));
    double *want = malloc(2 * 67 * 35 * sizeof *want);
    b[7] = a[7];
    for (int i = 0; i < N_POWERS; i++) {
        stn_scope_begin(context);
        for (int n = 0; n < 2; n++)
            for (int r = 0; r < 67; r++)
                for (int c = 0; c < 35; c++)
                    want[(n * 67 + r) * 35 + c] = plain_distance(a + 70 * r, b + 70 * (35 * n + c), 70, powers[i]);
        against_one_compare(stn_cdist(against_one_local(context, STN_DTYPE_F64, &shapes[0], a),
                                      against_one_local(context, STN_DTYPE_F64, &shapes[1], b), powers[i]),
                            want, 1e-13);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    free(a), free(b), free(want);
    return STN_OK;
}

static void every_metric_is_that_of_a_plain_loop(void)
{
    test_ranks(1, metrics_body, NULL);
}

static stn_status distances_body(stn_context *context, void *arg)
{
    static const struct random_shape shapes[][2] = {{{2, {7, 5}}, {2, {4, 5}}},
                                                    {{3, {2, 3, 4}}, {3, {2, 5, 4}}},
                                                    {{4, {2, 1, 3, 2}}, {3, {3, 4, 2}}},
                                                    {{2, {0, 3}}, {2, {4, 3}}},
                                                    {{2, {3, 0}}, {2, {2, 0}}}};
    uint64_t state = 9;
    (void)arg;
    for (int i = 0; i < N_POWERS; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            double *v[] = {against_one_draw(&state, against_one_numel(&shapes[k][0])),
                           against_one_draw(&state, against_one_numel(&shapes[k][1]))};
            for (int64_t j = 0; j < against_one_numel(&shapes[k][1]); j++)
                v[1][j] += j % 2 ? 4 : -4; /* far from where differences change their sign, or distances are 0 */
            struct against_one_op op = {
                .call = call_cdist, .arg = &powers[i], .n_in = 2, .tolerance = 1e-12, .first_order = 1};
            for (int j = 0; j < 2; j++)
                op.in[j] = (struct against_one_input){STN_DTYPE_F64, shapes[k][j], v[j], 1u << STN_SUM};
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1)
                against_one_differences(context, &state, &op);
            free(v[0]), free(v[1]);
        }
    return STN_OK;
}

static void random_layouts_give_the_distances_of_one_process(void)
{
    test_worlds(distances_body, NULL);
}

/* Rows that are equal: no distance, no gradient, whatever p. Rows of large numbers that differ little: no digits are
 * lost. */
static stn_status close_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {2, {2, 2}};
    const double a[] = {1, 2, 4096, 8192}, b[] = {1, 2, 4096.25, 8192}, none[] = {0, 0, 0, 0};
    (void)arg;
    for (int i = 0; i < N_POWERS; i++) {
        stn_scope_begin(context);
        stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &shape, a),
                   *y = against_one_local(context, STN_DTYPE_F32, &shape, b), *grad;
        double got[4];
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *same = stn_cdist(x, x, powers[i]), *apart = stn_cdist(x, y, powers[i]);
        test_read(apart, got, 4);
        CHECK_NEAR(got[3], powers[i] == 0 ? 1 : 0.25, 1e-6);
        stn_tensor *ones = stn_add_number(stn_mul_number(stn_detach(same), 0), 1),
                   *diagonal = stn_tril(stn_triu(ones, 0), 0);
        CHECK_STATUS(stn_grad(context, 1, &same, &diagonal, 1, &x, 0, 0, &grad), STN_OK);
        against_one_compare(grad, none, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void equal_rows_have_no_gradient_and_close_ones_keep_their_distance(void)
{
    test_ranks(1, close_body, NULL);
}

/* NaN is no number that differs from others: its row has no distance and no gradient that is a number, whatever p. */
static stn_status nan_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {2, {2, 3}};
    const double a[] = {1, (double)NAN, 3, 4, 5, 6}, b[] = {1, 1, 1, 4, 5, 7};
    (void)arg;
    for (int i = 0; i < N_POWERS; i++)
        for (int f64 = 0; f64 < 2; f64++) {
            const stn_dtype dtype = f64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
            double got[4], g[6];
            stn_scope_begin(context);
            stn_tensor *x = against_one_local(context, dtype, &shape, a), *grad;
            stn_tensor *y = against_one_local(context, dtype, &shape, b);
            CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
            stn_tensor *d = stn_cdist(x, y, powers[i]), *sum = stn_sum(d, 0, NULL, 0);
            test_read(d, got, 4);
            CHECK(isnan(got[0]) && isnan(got[1]) && got[3] == 1);
            CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 0, 0, &grad), STN_OK);
            test_read(grad, g, 6);
            CHECK(isnan(g[1]) == (powers[i] != 0) && isfinite(g[3]) && isfinite(g[5]));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void nan_stays_in_every_metric(void)
{
    test_ranks(1, nan_body, NULL);
}

/* The least order has one root that is finite and not 0: of one element that differs. */
static stn_status least_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {2, {3, 2}};
    const double a[] = {1, 2, 1, 2, 1, 2}, b[] = {1, 2, 1, 3, 4, 3}, want[] = {0, 1, INFINITY};
    (void)arg;
    for (int f64 = 0; f64 < 2; f64++) {
        const stn_dtype dtype = f64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
        double got[9];
        stn_scope_begin(context);
        stn_tensor *x = against_one_local(context, dtype, &shape, a), *y = against_one_local(context, dtype, &shape, b);
        test_read(stn_cdist(x, y, 4.9e-324), got, 9);
        for (int j = 0; j < 3; j++)
            CHECK(got[j] == want[j]);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void the_least_order_is_not_0(void)
{
    test_ranks(1, least_body, NULL);
}

static stn_status moves_body(stn_context *context, void *arg)
{
    const int64_t a[] = {8, 6}, b[] = {4, 6};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const struct {
        stn_placement a, b, want;
        int64_t bytes; /* from each rank */
    } cases[] = {
        {stn_shard(0), stn_replicate(), stn_shard(0), 0},
        {stn_replicate(), stn_shard(0), stn_shard(1), 0},
        {stn_shard(1), stn_replicate(), stn_shard(0), 4 * 3 * 8}, /* features to rows */
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, mesh, &cases[i].a, STN_DTYPE_F64, 2, a, NULL, test_value),
                   *y = test_tensor(context, mesh, &cases[i].b, STN_DTYPE_F64, 2, b, NULL, test_value);
        stn_context_stats_reset(context);
        stn_tensor *d = stn_cdist(x, y, 2);
        stn_context_stats(context, &stats);
        stn_placement have = stn_spec_placement(stn_tensor_spec(d), 0);
        CHECK(have.kind == cases[i].want.kind && have.dim == cases[i].want.dim);
        CHECK_I64(stats.bytes_sent, cases[i].bytes);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void rows_stay_cut_and_features_take_one_exchange(void)
{
    test_ranks(2, moves_body, NULL);
}

static stn_tensor *call_cross(stn_tensor *const *in, const void *arg) { return stn_cross(in[0], in[1], arg); }
static stn_tensor *call_cosine(stn_tensor *const *in, const void *arg)
{
    return stn_cosine_similarity(in[0], in[1], *(const int *)arg, 1e-8);
}
static stn_tensor *call_normalize(stn_tensor *const *in, const void *arg)
{
    return stn_normalize(in[0], 3, 2, arg, 1e-12);
}

static stn_status others_body(stn_context *context, void *arg)
{
    static const int minus_two = -2, one = 1, dims[] = {0, -1};
    static const struct {
        stn_tensor *(*call)(stn_tensor *const *, const void *);
        const void *arg;
        int n_in;
        struct random_shape in[2];
    } ops[] = {
        {call_cross, NULL, 2, {{2, {4, 3}}, {2, {4, 3}}}},
        {call_cross, &minus_two, 2, {{3, {3, 3, 5}}, {3, {1, 3, 5}}}},
        {call_cosine, &one, 2, {{3, {4, 3, 2}}, {3, {4, 3, 2}}}},
        {call_cosine, &one, 2, {{3, {4, 3, 2}}, {2, {3, 1}}}},
        {call_normalize, dims, 1, {{3, {4, 3, 5}}}},
    };
    uint64_t state = 21;
    (void)arg;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct against_one_op op = {.call = ops[i].call, .arg = ops[i].arg, .n_in = ops[i].n_in, .tolerance = 1e-11};
        double *v[2] = {NULL};
        for (int k = 0; k < op.n_in; k++) {
            v[k] = against_one_draw(&state, against_one_numel(&ops[i].in[k]));
            op.in[k] = (struct against_one_input){STN_DTYPE_F64, ops[i].in[k], v[k], 1u << STN_SUM};
        }
        against_one_check(context, &state, random_mesh(&state, context), &op);
        if (stn_context_size(context) == 1)
            against_one_differences(context, &state, &op);
        free(v[0]), free(v[1]);
    }
    return STN_OK;
}

static void random_layouts_give_the_rest_of_one_process_too(void)
{
    test_worlds(others_body, NULL);
}

static stn_status eps_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {2, {2, 2}};
    const double x[] = {3e-3, 4e-3, 3, 4}, y[] = {6, 8, 0, 0}, cosine[] = {0.5, 0}, normal[] = {0.3, 0.4, 0.6, 0.8};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *a = against_one_local(context, STN_DTYPE_F64, &shape, x),
               *b = against_one_local(context, STN_DTYPE_F64, &shape, y);
    const int dim = -1;
    against_one_compare(stn_cosine_similarity(a, b, -1, 1e-2), cosine, 1e-15);
    against_one_compare(stn_normalize(a, 2, 1, &dim, 1e-2), normal, 1e-15);
    return stn_scope_end(context);
}

static void short_vectors_are_divided_by_eps(void)
{
    test_ranks(1, eps_body, NULL);
}

/* What is pending is reduced once, though a product and a norm read it; a product of sharded vectors stays pending. */
static stn_status cosine_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int64_t shape[] = {6, 4};
    const struct {
        stn_placement x1, x2, want;
        int64_t collectives;
    } cases[] = {
        {stn_partial(STN_SUM), stn_replicate(), stn_replicate(), 1},
        {stn_partial(STN_SUM), stn_partial(STN_SUM), stn_replicate(), 2},
        {stn_shard(1), stn_shard(1), stn_partial(STN_SUM), 2},
        {stn_shard(0), stn_shard(0), stn_shard(0), 0},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        stn_tensor *x1 = test_tensor(context, mesh, &cases[i].x1, STN_DTYPE_F64, 2, shape, NULL, test_value),
                   *x2 = test_tensor(context, mesh, &cases[i].x2, STN_DTYPE_F64, 2, shape, NULL, test_value);
        stn_context_stats_reset(context);
        stn_tensor *cosine = stn_cosine_similarity(x1, x2, 1, 1e-8);
        stn_context_stats(context, &stats);
        CHECK_I64(stn_spec_placement(stn_tensor_spec(cosine), 0).kind, cases[i].want.kind);
        CHECK_I64(stats.collectives, cases[i].collectives);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void cosines_reduce_each_vector_once(void)
{
    test_ranks(2, cosine_body, NULL);
}

static stn_status uneven_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int64_t uneven[] = {4, 1}, *sizes[STN_MAX_NDIM] = {uneven};
    const stn_spec_options cut = {.size = sizeof cut, .sizes = sizes};
    const stn_placement shard = stn_shard(0), replicate = stn_replicate();
    const stn_spec *cut_spec, *whole_spec;
    (void)arg;
    CHECK_STATUS(stn_spec_create(context, mesh, &shard, STN_DTYPE_F32, 3, (int64_t[]){5, 2, 3}, &cut, &cut_spec),
                 STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &replicate, STN_DTYPE_F32, 3, (int64_t[]){5, 2, 3}, NULL, &whole_spec),
                 STN_OK);
    stn_scope_begin(context);
    stn_tensor *a = stn_zeros(context, whole_spec), *b = stn_zeros(context, cut_spec);
    CHECK_I64(stn_tensor_local_shape(stn_cdist(a, b, 2))[0], uneven[stn_context_rank(context)]);
    CHECK_I64(stn_tensor_local_shape(stn_cdist(b, a, 2))[0], uneven[stn_context_rank(context)]);
    stn_spec_release(&cut_spec);
    stn_spec_release(&whole_spec);
    return stn_scope_end(context);
}

static void the_cut_is_that_of_the_one_that_is_cut(void)
{
    test_ranks(2, uneven_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const struct random_shape s23 = {2, {2, 3}}, s24 = {2, {2, 4}};
    const double zeros[8] = {0};
    const int one = 1;
    char text[512];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *a = against_one_local(context, STN_DTYPE_F32, &s23, zeros),
               *b = against_one_local(context, STN_DTYPE_F32, &s24, zeros),
               *c = against_one_local(context, STN_DTYPE_F64, &s23, zeros);
#define REFUSED(expression, status, message)                                  \
    CHECK(stn_tensor_is_error(expression));                                   \
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), status); \
    CHECK_STR(text, message)
    REFUSED(stn_cdist(a, b, 2), STN_ERR_SHAPE,
            "cdist: got shapes (2, 3) and (2, 4), wanted (…, rows, m) and (…, rows, m) whose batches broadcast");
    REFUSED(stn_cdist(a, c, 2), STN_ERR_DTYPE, "cdist: got dtypes f32 and f64, wanted one floating dtype");
    REFUSED(stn_cdist(a, a, -1), STN_ERR_ARGUMENT, "cdist: 'p' got -1, wanted at least 0");
    REFUSED(stn_cross(b, b, &one), STN_ERR_SHAPE,
            "cross: 'input' got shape (2, 4), wanted 2 dims with 3 elements in dim 1");
    REFUSED(stn_cross(b, b, NULL), STN_ERR_SHAPE, "cross: 'input' got shape (2, 4), wanted a dim of size 3");
    stn_tensor *grad, *d;
    CHECK_STATUS(stn_set_requires_grad(a, 1), STN_OK);
    d = stn_cdist(a, stn_detach(a), 2);
    CHECK(stn_grad(context, 1, &d, &d, 1, &a, 1, 1, &grad) != STN_OK);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_UNSUPPORTED);
    CHECK(strstr(text, "cdist") != NULL);
    return stn_scope_end(context);
}

static void bad_arguments_are_named(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_metric_is_that_of_a_plain_loop", every_metric_is_that_of_a_plain_loop},
        {"random_layouts_give_the_distances_of_one_process", random_layouts_give_the_distances_of_one_process},
        {"equal_rows_have_no_gradient_and_close_ones_keep_their_distance",
         equal_rows_have_no_gradient_and_close_ones_keep_their_distance},
        {"nan_stays_in_every_metric", nan_stays_in_every_metric},
        {"the_least_order_is_not_0", the_least_order_is_not_0},
        {"rows_stay_cut_and_features_take_one_exchange", rows_stay_cut_and_features_take_one_exchange},
        {"random_layouts_give_the_rest_of_one_process_too", random_layouts_give_the_rest_of_one_process_too},
        {"cosines_reduce_each_vector_once", cosines_reduce_each_vector_once},
        {"short_vectors_are_divided_by_eps", short_vectors_are_divided_by_eps},
        {"the_cut_is_that_of_the_one_that_is_cut", the_cut_is_that_of_the_one_that_is_cut},
        {"bad_arguments_are_named", bad_arguments_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
