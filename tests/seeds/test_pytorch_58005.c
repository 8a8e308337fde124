/* pytorch/pytorch issue 58005: what the gradient of an all_reduce is. x is shared by two ranks, xx_r = (r + 2) x, the
 * ranks reduce xx, y_r = (r + 2) of that, and each goes backward from its own y. One process: (2 + 3) * 5 = 25 for the
 * sum, 60 for the product.
 *
 * dist.all_reduce gave 4 and 9, which add up to 13: put back by returning call->grad_out[0] from `arriving` in
 * src/ops/dist/all_reduction.c. nn.all_reduce gave 12 and 18 for PROD: put back by `stni_reduction_is_linear`
 * (all_reduction.h) saying 1. The readings of total backward become one by leaving out the question for
 * STN_GRAD_REPLICATED in `arriving`. "If we accumulate them, it becomes 100 instead of 50": put back by STN_SUM for
 * j->op in `reduce` (src/train/grad_all_reduce.c). */
#include "ranks.h"

struct trial {
    stn_reduce_op op;
    stn_grad_convention convention;
    int same_loss; /* both ranks have the reduced value itself for a loss */
    double want[2];
};

static stn_status body(stn_context *context, void *arg)
{
    const struct trial *t = arg;
    const int r = stn_context_rank(context);
    const float one = 1;
    const stn_spec *spec;
    stn_tensor *grad = NULL;
    double value = 0;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 0, NULL, NULL, &spec), STN_OK);
    stn_tensor *x = stn_from_host(context, spec, &one);
    stn_spec_release(&spec);
    stn_set_requires_grad(x, 1);
    stn_tensor *reduced = stn_dist_all_reduce(stn_mul_number(x, r + 2), test_mesh(context, 2, 0), t->op, t->convention);
    CHECK_STATUS(stn_backward(t->same_loss ? reduced : stn_mul_number(reduced, r + 2)), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK_STATUS(stn_item(grad, &value), STN_OK);
    CHECK_NEAR(value, t->want[r], 0);
    return stn_scope_end(context);
}

/* 10 + 15 = 25. */
static void a_sum_has_the_gradient_of_one_process(void)
{
    struct trial t = {STN_SUM, STN_GRAD_PER_RANK, 0, {10, 15}};
    test_ranks(2, body, &t);
}

/* 30 + 30 = 60. */
static void a_product_has_the_gradient_of_one_process(void)
{
    struct trial t = {STN_PROD, STN_GRAD_PER_RANK, 0, {30, 30}};
    test_ranks(2, body, &t);
}

/* "In reality we get 4 and 6": two losses that happen to be equal. "We might expect 2 and 3": one loss of which each
 * rank has a replica. */
static void both_readings_of_total_backward_can_be_said(void)
{
    struct trial two_losses = {STN_SUM, STN_GRAD_PER_RANK, 1, {4, 6}},
                 one_loss = {STN_SUM, STN_GRAD_REPLICATED, 1, {2, 3}};
    test_ranks(2, body, &two_losses);
    test_ranks(2, body, &one_loss);
}

/* Data-parallel training whose losses take a mean over all ranks' samples: each rank holds the parameter, and the
 * mean of its own loss. */

enum { SAMPLES = 6 };

static const int64_t batches[][3] = {{6}, {5, 1}, {2, 1, 3}};

static double sample(int64_t i)
{
    return 1 + 0.5 * test_value(i);
}

static stn_tensor *samples(stn_context *context, int64_t begin, int64_t n)
{
    double values[SAMPLES];
    const stn_spec *spec;
    for (int64_t i = 0; i < n; i++)
        values[i] = sample(begin + i);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *x = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return x;
}

static stn_tensor *parameter(stn_context *context)
{
    const double value = 0.7;
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 0, NULL, NULL, &spec), STN_OK);
    stn_tensor *w = stn_from_host(context, spec, &value);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    return w;
}

static double gradient_of(stn_tensor *w)
{
    stn_tensor *grad = NULL;
    double value = 0;
    CHECK_STATUS(stn_grad_of(w, &grad), STN_OK);
    if (CHECK_PTR(grad))
        CHECK_STATUS(stn_item(grad, &value), STN_OK);
    return value;
}

/* The mean of (y - m)^4 + y - m over a batch, where m is the mean over all. */
static stn_tensor *loss_of(stn_tensor *y, stn_tensor *m)
{
    stn_tensor *d = stn_sub(y, m);
    return stn_mean(stn_add(stn_square(stn_square(d)), d), 0, NULL, 0);
}

/* All batches in one process: the mean of their losses. */
static double one_process(stn_context *context)
{
    const int p = stn_context_size(context);
    stn_tensor *w = parameter(context), *y = stn_tanh(stn_mul(samples(context, 0, SAMPLES), w)), *loss = NULL;
    stn_tensor *m = stn_mean(y, 0, NULL, 0);
    for (int r = 0, begin = 0; r < p; begin += (int)batches[p - 1][r++]) {
        stn_tensor *own = loss_of(stn_narrow(y, 0, begin, batches[p - 1][r]), m);
        loss = loss ? stn_add(loss, own) : own;
    }
    CHECK_STATUS(stn_backward(stn_mul_number(loss, 1.0 / p)), STN_OK);
    return gradient_of(w);
}

static stn_status training_body(stn_context *context, void *arg)
{
    const int p = stn_context_size(context), r = stn_context_rank(context);
    const stn_mesh *mesh = test_mesh(context, p, 0);
    int64_t begin = 0;
    (void)arg;
    for (int s = 0; s < r; s++)
        begin += batches[p - 1][s];
    stn_scope_begin(context);
    stn_tensor *w = parameter(context), *y = stn_tanh(stn_mul(samples(context, begin, batches[p - 1][r]), w));
    stn_tensor *sum = stn_dist_all_reduce(stn_sum(y, 0, NULL, 0), mesh, STN_SUM, STN_GRAD_PER_RANK);
    CHECK_STATUS(stn_backward(loss_of(y, stn_mul_number(sum, 1.0 / SAMPLES))), STN_OK);
    CHECK_STATUS(stn_grad_all_reduce(1, &w, mesh, 0, STN_AVG), STN_OK);
    CHECK_NEAR(gradient_of(w), one_process(context), 1e-12);
    return stn_scope_end(context);
}

static void data_parallel_training_is_that_of_one_process(void)
{
    for (int p = 1; p <= 3; p++)
        test_ranks(p, training_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_sum_has_the_gradient_of_one_process", a_sum_has_the_gradient_of_one_process},
        {"a_product_has_the_gradient_of_one_process", a_product_has_the_gradient_of_one_process},
        {"both_readings_of_total_backward_can_be_said", both_readings_of_total_backward_can_be_said},
        {"data_parallel_training_is_that_of_one_process", data_parallel_training_is_that_of_one_process},
    };
    return TEST_MAIN(argc, argv, cases);
}
