/* The cases C1 to C14 of docs/gradients.md, exactly, under both conventions (C12 comes with all_gather). */
#include "ranks.h"

#include <math.h>
#include <stdio.h>

/* t = reduce(f(a_r)), a_r = scale_r x_r; L_r = g(t), per rank. */
struct example {
    const char *id;
    stn_reduce_op op;
    stn_grad_convention convention;
    double x[2], scale[2]; /* a_r = scale[r] x[r] */
    int square_a;          /* reduce a_r^2 */
    int square_t;          /* L_r = t^2 */
    double weight[2];      /* times L_r; 0: the rank has no loss */
    double t, grad[2];
};

static const struct example examples[] = {
    {"C1 B", STN_SUM, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 0, {1, 1}, 5, {4, 6}},
    {"C1 A", STN_SUM, STN_GRAD_REPLICATED, {1, 1}, {2, 3}, 0, 0, {1, 1}, 5, {2, 3}},
    {"C2 B", STN_SUM, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 1, {1, 1}, 5, {40, 60}},
    {"C2 A", STN_SUM, STN_GRAD_REPLICATED, {1, 1}, {2, 3}, 0, 1, {1, 1}, 5, {20, 30}},
    {"C3", STN_SUM, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 0, {2, 3}, 5, {10, 15}},
    {"C4", STN_SUM, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 0, {0, 1}, 5, {2, 3}},
    {"C5", STN_PROD, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 0, {2, 3}, 6, {30, 30}},
    {"C6 B", STN_PROD, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 1, {1, 1}, 6, {144, 144}},
    {"C6 A", STN_PROD, STN_GRAD_REPLICATED, {1, 1}, {2, 3}, 0, 1, {1, 1}, 6, {72, 72}},
    {"C7 B", STN_PROD, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 1, 1, {1, 1}, 36, {10368, 10368}},
    {"C7 A", STN_PROD, STN_GRAD_REPLICATED, {1, 1}, {2, 3}, 1, 1, {1, 1}, 36, {5184, 5184}},
    {"C8", STN_MAX, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 0, {2, 3}, 3, {0, 15}},
    {"C9", STN_MIN, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 0, {2, 3}, 2, {10, 0}},
    {"C10", STN_AVG, STN_GRAD_PER_RANK, {1, 1}, {2, 3}, 0, 0, {2, 3}, 2.5, {5, 7.5}},
    {"C13", STN_PROD, STN_GRAD_PER_RANK, {0, 1}, {2, 3}, 0, 0, {2, 3}, 0, {30, 0}},
    {"C14", STN_PROD, STN_GRAD_PER_RANK, {0, 0}, {2, 3}, 0, 0, {2, 3}, 0, {0, 0}},
    {"tie", STN_MAX, STN_GRAD_PER_RANK, {3, 2}, {2, 3}, 0, 0, {2, 3}, 6, {5, 7.5}},
};

static stn_tensor *scalar(stn_context *context, double value)
{
    const stn_spec *spec;
    float x = (float)value;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 0, NULL, NULL, &spec), STN_OK);
    stn_tensor *t = stn_from_host(context, spec, &x);
    stn_spec_release(&spec);
    return t;
}

static double grad_value(stn_tensor *leaf)
{
    stn_tensor *grad = NULL;
    double value = 0;
    CHECK_STATUS(stn_grad_of(leaf, &grad), STN_OK);
    if (grad)
        CHECK_STATUS(stn_item(grad, &value), STN_OK);
    return value;
}

/* A row of the table in docs/gradients.md, with what both ranks found. */
static void print_row(stn_context *context, const struct example *e, double t, double grad)
{
    double grads[2] = {0};
    test_gather(context, &grad, 1, STN_DTYPE_F64, grads);
    if (stn_context_rank(context) == 0)
        printf("| %s | %g | %g, %g |\n", e->id, t, grads[0], grads[1]);
}

static stn_status example_body(stn_context *context, void *arg)
{
    const struct example *e = arg;
    int r = stn_context_rank(context);
    double t_value;
    stn_scope_begin(context);
    stn_tensor *x = scalar(context, e->x[r]);
    stn_set_requires_grad(x, 1);
    stn_tensor *a = stn_mul_number(x, e->scale[r]);
    if (e->square_a)
        a = stn_mul(a, a);
    stn_tensor *t = stn_dist_all_reduce(a, test_mesh(context, 2, 0), e->op, e->convention);
    stn_tensor *loss = stn_mul_number(e->square_t ? stn_mul(t, t) : t, e->weight[r]);
    CHECK_STATUS(stn_item(t, &t_value), STN_OK);
    CHECK_NEAR(t_value, e->t, 0);
    CHECK_STATUS(stn_backward_many(context, e->weight[r] != 0, &loss, NULL, 0), STN_OK);
    const double grad = grad_value(x);
    if (!CHECK_NEAR(grad, e->grad[r], 0))
        CHECK_STR("case", e->id);
    print_row(context, e, t_value, grad);
    return stn_scope_end(context);
}

static void cases_are_exact_under_both_conventions(void)
{
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        test_ranks(2, example_body, (void *)&examples[i]);
}

/* C11: y_r = w X_r, mean = sum(y / 2), L_r = y_r - mean: the gradients of w vanish. */
static stn_status difference_from_mean_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *w = scalar(context, 1);
    stn_set_requires_grad(w, 1);
    stn_tensor *y = stn_mul_number(w, stn_context_rank(context) ? 200 : 100);
    stn_tensor *mean =
        stn_dist_all_reduce(stn_mul_number(y, 0.5), test_mesh(context, 2, 0), STN_SUM, STN_GRAD_PER_RANK);
    double value, mean_value;
    stn_tensor *loss = stn_add_scaled(y, mean, -1);
    CHECK_STATUS(stn_item(mean, &mean_value), STN_OK);
    CHECK_NEAR(mean_value, 150, 0);
    CHECK_STATUS(stn_item(loss, &value), STN_OK);
    CHECK_NEAR(value, stn_context_rank(context) ? 50 : -50, 0);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    value = grad_value(w);
    CHECK_NEAR(value, 0, 0);
    print_row(context, &(const struct example){.id = "C11"}, mean_value, value);
    return stn_scope_end(context);
}

static void difference_from_the_mean_has_no_gradient(void)
{
    test_ranks(2, difference_from_mean_body, NULL);
}

/* Two collectives in a row on different meshes, a third that only rank 2 depends on, losses on some ranks only:
 * nobody waits for ever. */
static stn_status chain_body(stn_context *context, void *arg)
{
    int r = stn_context_rank(context), pair[] = {0, 2}, two = 2;
    const stn_mesh *all = test_mesh(context, 3, 0), *some;
    (void)arg;
    CHECK_STATUS(stn_mesh_create(context, 1, &two, NULL, pair, &some), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = scalar(context, r + 1);
    if (r != 1)
        stn_set_requires_grad(x, 1);
    stn_tensor *s = stn_dist_all_reduce(x, all, STN_SUM, STN_GRAD_PER_RANK);          /* 6 everywhere */
    stn_tensor *u = stn_dist_all_reduce(stn_mul(s, s), some, STN_SUM, STN_GRAD_PER_RANK); /* 72 on 0 and 2, 36 on 1 */
    stn_tensor *unused = stn_dist_all_reduce(scalar(context, r), all, STN_SUM, STN_GRAD_PER_RANK);
    CHECK(!stn_tensor_is_error(unused));
    double value;
    CHECK_STATUS(stn_item(u, &value), STN_OK);
    CHECK_NEAR(value, r == 1 ? 36 : 72, 0);
    CHECK_STATUS(stn_backward_many(context, r == 2, &u, NULL, 0), STN_OK);
    /* L = u_2 = s_0^2 + s_2^2, s = x_0 + x_1 + x_2: dL/dx = 2 s_0 + 2 s_2 = 24. */
    if (r != 1)
        CHECK_NEAR(grad_value(x), 24, 0);
    return stn_scope_end(context);
}

static void chains_over_several_meshes_run_where_any_rank_needs_them(void)
{
    test_ranks(3, chain_body, NULL);
}

static stn_status nan_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = scalar(context, stn_context_rank(context) ? NAN : 1);
    stn_set_requires_grad(x, 1);
    stn_tensor *t = stn_dist_all_reduce(x, test_mesh(context, 2, 0), STN_MAX, STN_GRAD_PER_RANK);
    CHECK_STATUS(stn_backward(t), STN_OK);
    CHECK(isnan(grad_value(x)));
    return stn_scope_end(context);
}

static void a_nan_anywhere_gives_nan(void)
{
    test_ranks(2, nan_body, NULL);
}

static stn_status mismatch_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_placement shard[] = {stn_shard(0)};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_spec *spec;
    int64_t n = 5;
    CHECK_STATUS(stn_spec_create(context, mesh, shard, STN_DTYPE_F32, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *x = stn_empty(context, spec);
    stn_spec_release(&spec);
    CHECK(stn_tensor_is_error(stn_dist_all_reduce(x, mesh, STN_SUM, STN_GRAD_PER_RANK)));
    CHECK_STATUS(stn_scope_end(context), STN_ERR_LAYOUT);
    return STN_OK;
}

static void a_sharded_tensor_is_refused(void)
{
    test_ranks(2, mismatch_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"cases_are_exact_under_both_conventions", cases_are_exact_under_both_conventions},
        {"difference_from_the_mean_has_no_gradient", difference_from_the_mean_has_no_gradient},
        {"chains_over_several_meshes_run_where_any_rank_needs_them",
         chains_over_several_meshes_run_where_any_rank_needs_them},
        {"a_nan_anywhere_gives_nan", a_nan_anywhere_gives_nan},
        {"a_sharded_tensor_is_refused", a_sharded_tensor_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
