/* pytorch/pytorch issue 58005: what the gradient of an all_reduce is. x is shared by two ranks, xx_r = (r + 2) x, the ranks reduce xx,
 * y_r = (r + 2) of that, and each goes backward from its own y. One process: (2 + 3) * 5 = 25 for the sum, 60 for the product.
 *
 * dist.all_reduce gave 4 and 9, which add up to 13: put back by returning call->grad_out[0] from `arriving` in
 * src/ops/dist/all_reduction.c. nn.all_reduce gave 12 and 18 for PROD: put back by `stni_reduction_is_linear` (all_reduction.h) saying 1. */
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

/* "In reality we get 4 and 6": two losses that happen to be equal. "We might expect 2 and 3": one loss of which each rank has a replica. */
static void both_readings_of_total_backward_can_be_said(void)
{
    struct trial two_losses = {STN_SUM, STN_GRAD_PER_RANK, 1, {4, 6}}, one_loss = {STN_SUM, STN_GRAD_REPLICATED, 1, {2, 3}};
    test_ranks(2, body, &two_losses);
    test_ranks(2, body, &one_loss);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_sum_has_the_gradient_of_one_process", a_sum_has_the_gradient_of_one_process},
        {"a_product_has_the_gradient_of_one_process", a_product_has_the_gradient_of_one_process},
        {"both_readings_of_total_backward_can_be_said", both_readings_of_total_backward_can_be_said},
    };
    return TEST_MAIN(argc, argv, cases);
}
