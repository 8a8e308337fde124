/* Global semantics: gradients of one logical loss are those of one process, whatever the layout (contracts 11, 12
 * and 15). */
#include "ranks.h"

#include <math.h>

enum { ROWS = 10, COLUMNS = 3, N = ROWS * COLUMNS };

static double weight(int64_t i)
{
    return 0.2 + cos(0.13 * (double)(i / COLUMNS)); /* one per row, like the cosine of a latitude */
}

/* Uneven cuts of 10 rows over up to 6 ranks, empty ones among them. */
static const int64_t cuts[7][6] = {{0}, {10}, {7, 3}, {4, 3, 3}, {4, 0, 5, 1}, {0}, {3, 0, 3, 1, 3, 0}};

static stn_tensor *rows(stn_context *context, double (*value)(int64_t))
{
    int p = stn_context_size(context);
    const int64_t shape[] = {ROWS, COLUMNS}, *const sizes[] = {cuts[p], NULL};
    stn_placement shard[] = {stn_shard(0)};
    return test_tensor(context, test_mesh(context, p, 0), shard, STN_DTYPE_F64, 2, shape, sizes, value);
}

static double total_weight(void)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += weight(i);
    return sum;
}

static double weighted_mean(void)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += weight(i) * test_value(i);
    return sum / total_weight();
}

static void check_grad(stn_tensor *x, const double *want)
{
    stn_tensor *grad;
    double got[N];
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    if (!CHECK_PTR(grad))
        return;
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(x));
    test_read(grad, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], want[i], 1e-12);
}

static stn_tensor *mean_of(stn_tensor *x, stn_tensor *w)
{
    return stn_mul_number(stn_sum(stn_mul(w, x), 0, NULL, 0), 1 / total_weight());
}

static stn_status as_loss_body(stn_context *context, void *arg)
{
    double want[N], value;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = rows(context, test_value), *w = rows(context, weight);
    stn_set_requires_grad(x, 1);
    stn_tensor *m = mean_of(x, w);
    CHECK_STATUS(stn_item(m, &value), STN_OK);
    CHECK_NEAR(value, weighted_mean(), 1e-12);
    CHECK_STATUS(stn_backward(m), STN_OK);
    for (int i = 0; i < N; i++)
        want[i] = weight(i) / total_weight();
    check_grad(x, want);
    return stn_scope_end(context);
}

/* L = sum w (x - m)^2: dL/dx_j = 2 w_j (x_j - m) - 2 (w_j / W) sum w (x - m), whose second term is what ranks share. */
static stn_status used_locally_body(stn_context *context, void *arg)
{
    double want[N], m = weighted_mean();
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = rows(context, test_value), *w = rows(context, weight), *cube = rows(context, test_value);
    stn_set_requires_grad(x, 1);
    stn_tensor *d = stn_add_scaled(x, mean_of(x, w), -1);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(stn_mul(d, d), cube), 0, NULL, 0)), STN_OK);
    double shared = 0; /* L = sum c (x - m)^2 */
    for (int i = 0; i < N; i++)
        shared += 2 * test_value(i) * (test_value(i) - m);
    for (int i = 0; i < N; i++)
        want[i] = 2 * test_value(i) * (test_value(i) - m) - weight(i) / total_weight() * shared;
    check_grad(x, want);
    return stn_scope_end(context);
}

static void on_each_world(stn_rank_main body)
{
    static const int worlds[] = {1, 2, 3, 4, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], body, NULL);
}

static void a_weighted_mean_as_the_loss_gives_weights_over_their_sum(void)
{
    on_each_world(as_loss_body);
}

static void a_weighted_mean_used_locally_keeps_the_term_across_ranks(void)
{
    on_each_world(used_locally_body);
}

/* A Replicate parameter used on sharded data: its gradient arrives Partial, and grad is complete and Replicate. */
static stn_status parameter_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {COLUMNS};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_placement replicate[] = {stn_replicate()};
    double got[COLUMNS];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *p = test_tensor(context, mesh, replicate, STN_DTYPE_F64, 1, shape, NULL, test_value);
    stn_set_requires_grad(p, 1);
    stn_tensor *x = rows(context, test_value), *grad;
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(x, p), 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_grad_of(p, &grad), STN_OK);
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(p));
    test_read(grad, got, COLUMNS);
    for (int c = 0; c < COLUMNS; c++) {
        double want = 0;
        for (int r = 0; r < ROWS; r++)
            want += test_value(r * COLUMNS + c);
        CHECK_NEAR(got[c], want, 1e-12);
    }
    return stn_scope_end(context);
}

static void a_replicated_parameter_gets_the_sum_over_shards(void)
{
    on_each_world(parameter_body);
}

/* Two cotangents of one tensor in different layouts: a Shard one from a product, a Replicate one from a sum. */
static stn_status layouts_meet_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_placement replicate[] = {stn_replicate()};
    double want[N];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, replicate, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_set_requires_grad(x, 1);
    stn_tensor *h = stn_mul_number(x, 1);
    stn_tensor *sharded = stn_sum(stn_mul(h, rows(context, weight)), 0, NULL, 0);
    stn_tensor *whole = stn_sum(stn_mul(h, h), 0, NULL, 0);
    CHECK_STATUS(stn_backward(stn_add(sharded, whole)), STN_OK);
    for (int i = 0; i < N; i++)
        want[i] = weight(i) + 2 * test_value(i);
    check_grad(x, want);
    return stn_scope_end(context);
}

static void cotangents_in_different_layouts_add_up(void)
{
    on_each_world(layouts_meet_body);
}

/* d/dx of (d/dx of sum x^3) . v = 6 x v. */
static stn_status second_body(stn_context *context, void *arg)
{
    double want[N];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = rows(context, test_value), *v = rows(context, weight), *g;
    stn_set_requires_grad(x, 1);
    stn_tensor *loss = stn_sum(stn_mul(stn_mul(x, x), x), 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 0, 1, &g), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(g, v), 0, NULL, 0)), STN_OK);
    for (int i = 0; i < N; i++)
        want[i] = 6 * test_value(i) * weight(i);
    check_grad(x, want);
    return stn_scope_end(context);
}

static void gradients_can_be_differentiated_again(void)
{
    on_each_world(second_body);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_weighted_mean_as_the_loss_gives_weights_over_their_sum",
         a_weighted_mean_as_the_loss_gives_weights_over_their_sum},
        {"a_weighted_mean_used_locally_keeps_the_term_across_ranks",
         a_weighted_mean_used_locally_keeps_the_term_across_ranks},
        {"a_replicated_parameter_gets_the_sum_over_shards", a_replicated_parameter_gets_the_sum_over_shards},
        {"cotangents_in_different_layouts_add_up", cotangents_in_different_layouts_add_up},
        {"gradients_can_be_differentiated_again", gradients_can_be_differentiated_again},
    };
    return TEST_MAIN(argc, argv, cases);
}
