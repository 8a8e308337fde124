/* ai2cm/ace pull request 993, spatial parallelism: an area-weighted mean over rows that are spread over ranks, used as
 * the loss, and subtracted from each rank's own rows. An all_reduce with the identity for a backward is right for the
 * first alone; summing parameters' gradients over the ranks in a hook, "if we want mean gradient instead of sum …",
 * cannot repair the second. And tables of the transforms, which every rank has of its own, were broadcast before each
 * step, into memory that autograd had kept.
 *
 * Put back by returning call->grad_out[0] from `arriving` in src/ops/dist/all_reduction.c; and by leaving out the
 * question for t->storage->frozen in src/ops/dist/plain.c. */
#include "ranks.h"

#include <math.h>

enum { ROWS = 10 };

static double area(int64_t i)
{
    return 0.3 + cos(0.14 * (double)i);
}

/* 4, 3 and 3 rows, and other uneven cuts. */
static const int64_t cuts[][4] = {{10}, {7, 3}, {4, 3, 3}, {5, 0, 4, 1}};

static stn_tensor *rows(stn_context *context, const stn_mesh *mesh, double (*value)(int64_t))
{
    const int64_t n = ROWS, *const sizes[] = {cuts[stn_context_size(context) - 1]};
    const stn_placement shard = stn_shard(0);
    return test_tensor(context, mesh, &shard, STN_DTYPE_F64, 1, &n, sizes, value);
}

/* w is a parameter that every rank holds; field = w * x. */
static double gradient(stn_context *context, int as_loss)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement replicate = stn_replicate();
    stn_tensor *w = test_tensor(context, mesh, &replicate, STN_DTYPE_F64, 0, NULL, NULL, test_value), *grad = NULL;
    double value = 0;
    stn_set_requires_grad(w, 1);
    stn_tensor *field = stn_mul(rows(context, mesh, test_value), w);
    stn_tensor *mean = stn_weighted_mean(field, rows(context, mesh, area), 0, NULL, 0);
    stn_tensor *anomaly = stn_sub(field, mean);
    CHECK_STATUS(stn_backward(as_loss ? mean : stn_sum(stn_mul(anomaly, stn_mul(anomaly, anomaly)), 0, NULL, 0)),
                 STN_OK);
    CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
    if (CHECK_PTR(grad))
        CHECK_STATUS(stn_item(grad, &value), STN_OK);
    return value;
}

/* By hand: mean = w m with m = sum(a x) / sum(a), so that dmean/dw = m; the cubes of w (x - m) give 3 w^2 sum (x -
 * m)^3. */
static double wanted(int as_loss)
{
    const double w = test_value(0);
    double m = 0, total = 0, cubes = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        m += area(i) * test_value(i);
        total += area(i);
    }
    m /= total;
    for (int64_t i = 0; i < ROWS; i++)
        cubes += pow(test_value(i) - m, 3);
    return as_loss ? m : 3 * w * w * cubes;
}

/* The same with local tensors and a collective for each sum. */
static double gradient_per_rank(stn_context *context, int as_loss)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_grad_convention convention = as_loss ? STN_GRAD_REPLICATED : STN_GRAD_PER_RANK;
    const double w0 = test_value(0);
    const stn_spec *spec;
    stn_tensor *grad = NULL;
    double value = 0, total = 0;
    for (int64_t i = 0; i < ROWS; i++)
        total += area(i);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 0, NULL, NULL, &spec), STN_OK);
    stn_tensor *w = stn_from_host(context, spec, &w0);
    stn_spec_release(&spec);
    stn_set_requires_grad(w, 1);
    stn_tensor *x = stn_to_local(rows(context, mesh, test_value), convention);
    stn_tensor *a = stn_to_local(rows(context, mesh, area), convention), *field = stn_mul(x, w);
    stn_tensor *mean = stn_mul_number(
        stn_dist_all_reduce(stn_sum(stn_mul(a, field), 0, NULL, 0), mesh, STN_SUM, convention), 1 / total);
    stn_tensor *anomaly = stn_sub(field, mean);
    stn_tensor *loss = as_loss ? mean : stn_sum(stn_mul(anomaly, stn_mul(anomaly, anomaly)), 0, NULL, 0);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
    if (CHECK_PTR(grad))
        CHECK_STATUS(stn_item(grad, &value), STN_OK);
    test_sum(context, &value, 1);
    return value; /* w is shared: its gradients add up */
}

static stn_status body(stn_context *context, void *arg)
{
    (void)arg;
    for (int as_loss = 0; as_loss < 2; as_loss++) {
        stn_scope_begin(context);
        CHECK_NEAR(gradient(context, as_loss), wanted(as_loss), 1e-12);
        CHECK_NEAR(gradient_per_rank(context, as_loss), wanted(as_loss), 1e-12);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_mean_is_right_as_a_loss_and_within_each_rank(void)
{
    for (int p = 1; p <= 4; p++)
        test_ranks(p, body, NULL);
}

/* Two steps with a table: nobody may write to it, nor send it again, and backward finds what it has kept. */
static stn_status table_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const int64_t n = ROWS;
    const stn_spec *spec;
    double values[ROWS], got[ROWS];
    stn_tensor *grad = NULL;
    (void)arg;
    for (int64_t i = 0; i < n; i++)
        values[i] = area(i);
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *table = stn_from_host(context, spec, values), *x = stn_ones(context, spec);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_tensor_freeze(table), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    for (int step = 0; step < 2; step++) {
        stn_tensor *loss = stn_sum(stn_mul(x, table), 0, NULL, 0);
        CHECK_STATUS(stn_dist_broadcast_in_place(table, mesh, 0, NULL), STN_ERR_STATE);
        CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
        CHECK_STATUS(stn_backward(loss), STN_OK);
    }
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    if (CHECK_PTR(grad)) {
        test_read(grad, got, n);
        for (int64_t i = 0; i < n; i++)
            CHECK_NEAR(got[i], 2 * area(i), 0);
    }
    return stn_scope_end(context);
}

static void tables_are_not_sent_again(void)
{
    for (int p = 1; p <= 3; p++)
        test_ranks(p, table_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_mean_is_right_as_a_loss_and_within_each_rank", a_mean_is_right_as_a_loss_and_within_each_rank},
        {"tables_are_not_sent_again", tables_are_not_sent_again},
    };
    return TEST_MAIN(argc, argv, cases);
}
