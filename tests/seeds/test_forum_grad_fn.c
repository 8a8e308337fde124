/* discuss.pytorch.org, "How to preserve backward grad_fn after distributed operations": a = [1, 3] on each rank, b = a
 * + 2 r is gathered, loss = mean(b^2) over all. The tensors that dist.all_gather gave had no history, so that a.grad
 * was None.
 *
 * Put back by stn_detach around what the call of STNI_OP_dist_route gives (src/ops/dist/collective.c); and by
 * leaving out STN_OP_PER_RANK in the flags of stni_op_dist_route (src/ops/dist/dist_route.c): it is recorded no more
 * than where something requires grad, and a rank without a loss is not reached. */
#include "ranks.h"

enum { RANKS = 2 };

static stn_tensor *gathered(stn_context *context, stn_tensor *a)
{
    stn_tensor *b = stn_add_number(a, 2 * stn_context_rank(context));
    return stn_dist_all_gather(b, test_mesh(context, RANKS, 0), 0, NULL, STN_GRAD_PER_RANK);
}

static stn_tensor *leaf(stn_context *context)
{
    const float values[] = {1, 3};
    const int64_t n = 2;
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *a = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_set_requires_grad(a, 1), STN_OK);
    return a;
}

static void expect_gradient(stn_tensor *a, double first, double second)
{
    stn_tensor *grad = NULL;
    double got[2] = {0};
    CHECK_STATUS(stn_grad_of(a, &grad), STN_OK);
    if (!CHECK_PTR(grad))
        return;
    test_read(grad, got, 2);
    CHECK_NEAR(got[0], first, 0);
    CHECK_NEAR(got[1], second, 0);
}

/* Every rank's loss counts: the sum over ranks of 2 b / 4, both of them alike. */
static stn_status all_body(stn_context *context, void *arg)
{
    const int r = stn_context_rank(context);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *a = leaf(context), *all = gathered(context, a);
    CHECK(stn_requires_grad(all) && !stn_is_leaf(all));
    CHECK_STATUS(stn_backward(stn_mean(stn_mul(all, all), 0, NULL, 0)), STN_OK);
    expect_gradient(a, 1 + 2 * r, 3 + 2 * r);
    return stn_scope_end(context);
}

/* "loss = model(data1, tensors)" on one rank alone: the others' tensors get their gradients all the same. */
static stn_status one_body(stn_context *context, void *arg)
{
    const int r = stn_context_rank(context);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *a = leaf(context), *all = gathered(context, a);
    stn_tensor *loss = stn_mean(stn_mul(all, all), 0, NULL, 0);
    CHECK_STATUS(stn_backward_many(context, r == 0, &loss, NULL, 0), STN_OK);
    expect_gradient(a, 0.5 * (1 + 2 * r), 0.5 * (3 + 2 * r));
    return stn_scope_end(context);
}

static void what_is_gathered_has_a_history(void)
{
    test_ranks(RANKS, all_body, NULL);
}

static void a_loss_on_one_rank_reaches_all(void)
{
    test_ranks(RANKS, one_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_is_gathered_has_a_history", what_is_gathered_has_a_history},
        {"a_loss_on_one_rank_reaches_all", a_loss_on_one_rank_reaches_all},
    };
    return TEST_MAIN(argc, argv, cases);
}
