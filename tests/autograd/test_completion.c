/* When gradients are complete, and that hooks are told each time. */
#include "ranks.h"

#include <math.h>

enum { N = 7 };

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, stn_placement placement)
{
    const int64_t shape[] = {N};
    stn_tensor *t = test_tensor(context, mesh, &placement, STN_DTYPE_F64, 1, shape, NULL, test_value);
    stn_set_requires_grad(t, 1);
    return t;
}

static stn_tensor *product_sum(stn_tensor *a, stn_tensor *b)
{
    return stn_sum(stn_mul(a, b), 0, NULL, 0);
}

struct heard {
    int calls;
    double first; /* element 0 of the gradient at the last call */
};

static stn_status hear(stn_tensor *tensor, void *arg)
{
    struct heard *heard = arg;
    double values[N];
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(tensor, &grad), STN_OK);
    if (!CHECK_PTR(grad))
        return STN_ERR_STATE;
    test_read(grad, values, N);
    heard->first = values[0];
    heard->calls++;
    return STN_OK;
}

static void check_heard(const struct heard *heard, int calls, double factor)
{
    CHECK_I64(heard->calls, calls);
    CHECK_NEAR(heard->first, factor * test_value(0), 1e-12);
}

/* Two microbatches without sync; then stn_grad_sync completes one leaf, and a backward that does not touch it the
 * other. The leaf that is sharded is complete after each, and its hook waits all the same. */
static stn_status body(stn_context *context, void *arg)
{
    struct heard p_heard = {0, 0}, q_heard = {0, 0}, cut_heard = {0, 0};
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, stn_replicate()), *q = leaf(context, mesh, stn_replicate());
    stn_tensor *cut = leaf(context, mesh, stn_shard(0)), *other = leaf(context, mesh, stn_replicate());
    stn_tensor *x = stn_detach(leaf(context, mesh, stn_shard(0)));
    CHECK_STATUS(stn_add_grad_hook(p, hear, &p_heard, NULL), STN_OK);
    CHECK_STATUS(stn_add_grad_hook(q, hear, &q_heard, NULL), STN_OK);
    CHECK_STATUS(stn_add_grad_hook(cut, hear, &cut_heard, NULL), STN_OK);
    stn_no_sync_begin(context);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_backward(stn_add(stn_add(product_sum(x, p), product_sum(x, q)), product_sum(x, cut))), STN_OK);
    stn_no_sync_end(context);
    CHECK_I64(p_heard.calls + q_heard.calls + cut_heard.calls, 0);
    CHECK_STATUS(stn_grad_sync(context, 2, (stn_tensor *[]){p, p}), STN_OK);
    check_heard(&p_heard, 1, 2);
    CHECK_I64(q_heard.calls, 0);
    CHECK_STATUS(stn_backward(product_sum(x, other)), STN_OK);
    check_heard(&p_heard, 1, 2);
    check_heard(&q_heard, 1, 2);
    check_heard(&cut_heard, 1, 2);
    CHECK_STATUS(stn_backward(product_sum(x, q)), STN_OK);
    check_heard(&q_heard, 2, 3);
    CHECK_I64(p_heard.calls + cut_heard.calls, 2);
    CHECK_STATUS(stn_grad_sync(context, 3, (stn_tensor *[]){p, q, cut}), STN_OK);
    CHECK_I64(p_heard.calls + q_heard.calls + cut_heard.calls, 4);
    return stn_scope_end(context);
}

static void hooks_run_after_every_completion(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, body, NULL);
}

static stn_status zero_body(stn_context *context, void *arg)
{
    struct heard heard = {0, 0};
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, stn_replicate()), *x = stn_detach(leaf(context, mesh, stn_shard(0)));
    CHECK_STATUS(stn_add_grad_hook(p, hear, &heard, NULL), STN_OK);
    stn_no_sync_begin(context);
    CHECK_STATUS(stn_backward(product_sum(x, p)), STN_OK);
    stn_no_sync_end(context);
    CHECK_STATUS(stn_zero_grad(p), STN_OK);
    CHECK_STATUS(stn_grad_sync(context, 1, &p), STN_OK);
    CHECK_I64(heard.calls, 0);
    return stn_scope_end(context);
}

static void hooks_do_not_run_for_what_was_zeroed(void)
{
    test_ranks(1, zero_body, NULL);
    test_ranks(2, zero_body, NULL);
}

static stn_status silent(stn_tensor *tensor, void *arg)
{
    (void)tensor;
    ++*(int *)arg;
    return STN_OK;
}

/* The leaf that only rank 0 listens to lies between two that are pending, and splits no bucket. */
static stn_status lonely_hook_body(stn_context *context, void *arg)
{
    int calls = 0, rank = stn_context_rank(context);
    stn_tensor *grad = NULL;
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, stn_replicate()), *cut = leaf(context, mesh, stn_shard(0)),
               *q = leaf(context, mesh, stn_replicate());
    stn_tensor *x = stn_detach(leaf(context, mesh, stn_shard(0)));
    if (rank == 0)
        CHECK_STATUS(stn_add_grad_hook(cut, silent, &calls, NULL), STN_OK);
    CHECK_STATUS(stn_backward(stn_add(stn_add(product_sum(x, p), product_sum(x, cut)), product_sum(x, q))), STN_OK);
    CHECK_I64(calls, rank == 0);
    CHECK_STATUS(stn_grad_of(q, &grad), STN_OK);
    CHECK_PTR(grad);
    return stn_scope_end(context);
}

static void hook_of_one_rank_does_not_change_what_is_sent(void)
{
    test_ranks(3, lonely_hook_body, NULL);
}

static stn_status forget(stn_tensor *tensor, void *arg)
{
    ++*(int *)arg;
    return stn_zero_grad(tensor);
}

/* As an optimizer does that runs in backward. */
static stn_status forget_body(stn_context *context, void *arg)
{
    int calls[3] = {0};
    stn_tensor *leaves[3], *grad;
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    for (int i = 0; i < 3; i++) {
        leaves[i] = leaf(context, mesh, stn_replicate());
        CHECK_STATUS(stn_add_grad_hook(leaves[i], forget, &calls[i], NULL), STN_OK);
    }
    CHECK_STATUS(stn_backward(product_sum(stn_add(leaves[0], leaves[1]), leaves[2])), STN_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_I64(calls[i], 1);
        CHECK_STATUS(stn_grad_of(leaves[i], &grad), STN_OK);
        CHECK(grad == NULL);
    }
    return stn_scope_end(context);
}

static void a_hook_may_forget_the_gradient(void)
{
    test_ranks(1, forget_body, NULL);
    test_ranks(2, forget_body, NULL);
}

static stn_status give_up(stn_tensor *tensor, void *arg)
{
    stn_context *context = stn_tensor_context(tensor);
    stn_tensor_release(arg);
    stn_context_trim(context); /* what has died is freed by the next action */
    return STN_OK;
}

static stn_status give_up_body(stn_context *context, void *arg)
{
    struct heard heard = {0, 0};
    const int64_t n = N;
    (void)arg;
    stn_tensor *p = test_tensor(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, test_value);
    CHECK_STATUS(stn_set_requires_grad(p, 1), STN_OK);
    CHECK_STATUS(stn_add_grad_hook(p, give_up, &p, NULL), STN_OK);
    CHECK_STATUS(stn_add_grad_hook(p, hear, &heard, NULL), STN_OK);
    stn_scope_begin(context);
    CHECK_STATUS(stn_backward(stn_sum(p, 0, NULL, 0)), STN_OK);
    CHECK(p == NULL);
    CHECK_I64(heard.calls, 0);
    return stn_scope_end(context);
}

static void no_hook_is_told_of_a_leaf_that_is_gone(void)
{
    test_ranks(1, give_up_body, NULL);
}

struct nested {
    stn_tensor *loss;
    int calls;
};

static stn_status run_once(stn_tensor *tensor, void *arg)
{
    struct nested *nested = arg;
    (void)tensor;
    return nested->calls++ == 0 ? stn_backward(nested->loss) : STN_OK;
}

/* The leaf has a gradient before, which both add to. */
static stn_status again_body(stn_context *context, void *arg)
{
    struct heard heard = {0, 0};
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, stn_shard(0)), *x = stn_detach(leaf(context, mesh, stn_shard(0)));
    CHECK_STATUS(stn_backward(product_sum(x, p)), STN_OK);
    struct nested nested = {product_sum(x, stn_mul_number(p, 10)), 0};
    CHECK_STATUS(stn_add_grad_hook(p, run_once, &nested, NULL), STN_OK);
    CHECK_STATUS(stn_backward(product_sum(x, stn_mul_number(p, 100))), STN_OK);
    CHECK_STATUS(hear(p, &heard), STN_OK);
    check_heard(&heard, 1, 111);
    CHECK_I64(nested.calls, 2);
    return stn_scope_end(context);
}

static void a_hook_may_run_a_backward_to_its_own_leaf(void)
{
    test_ranks(1, again_body, NULL);
    test_ranks(2, again_body, NULL);
}

static int64_t allocations(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.allocations;
}

static const double *gradient(stn_tensor *t)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(t, &grad), STN_OK);
    return grad ? stn_tensor_data(grad) : NULL;
}

/* Handles that views have had before say nothing of the tensors that have them now. */
static int64_t allocated_after_views(stn_context *context, stn_tensor *leaf, stn_tensor *cotangent)
{
    CHECK_STATUS(stn_zero_grad(leaf), STN_OK);
    stn_scope_begin(context);
    for (int i = 0; i < 20; i++)
        stn_slice(leaf, 0, 0, N, 1);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_tensor *y = stn_exp(leaf);
    const int64_t before = allocations(context);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    return allocations(context) - before;
}

/* The derivative of exp is a product, which nobody but its leaf gets. That of a sum of leaves is one tensor for both,
 * and at the root the caller's own cotangent. */
static stn_status owner_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *a = leaf(context, mesh, stn_shard(0)), *b = leaf(context, mesh, stn_shard(0));
    stn_tensor *c = leaf(context, mesh, stn_shard(0));
    stn_tensor *cotangent = stn_detach(leaf(context, mesh, stn_shard(0))), *y = stn_exp(a);
    const int64_t n = stn_spec_local_numel(stn_tensor_spec(a)), before = allocations(context);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    CHECK_I64(allocations(context) - before, n > 0);
    CHECK_I64(allocated_after_views(context, a, cotangent), n > 0);

    y = stn_add(stn_exp(stn_add(b, c)), a);
    CHECK_STATUS(stn_zero_grad(a), STN_OK);
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad_of(b, &grad), STN_OK);
    const double *data[] = {gradient(a), gradient(b), gradient(c), stn_tensor_data(cotangent)};
    stn_mul_number_(grad, 3);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    const int64_t first = stn_spec_local_offset(stn_tensor_spec(a))[0];
    for (int64_t i = 0; i < n; i++) {
        const double seed = test_value(first + i), sum = seed * exp(2 * seed);
        CHECK_NEAR(data[0][i], seed, 1e-12);
        CHECK_NEAR(data[1][i], 3 * sum, 1e-12);
        CHECK_NEAR(data[2][i], sum, 1e-12);
        CHECK_NEAR(data[3][i], seed, 0);
    }
    return stn_scope_end(context);
}

static void only_what_somebody_else_holds_is_copied(void)
{
    test_ranks(1, owner_body, NULL);
    test_ranks(3, owner_body, NULL);
    test_ranks(8, owner_body, NULL); /* the last has no element */
}

/* Of a leaf that is the loss itself, where the caller's cotangent is the result of ops. */
static stn_status history_body(stn_context *context, void *arg)
{
    stn_tensor *grad = NULL;
    double values[N];
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *a = leaf(context, mesh, stn_shard(0)), *cotangent = stn_exp(leaf(context, mesh, stn_shard(0)));
    CHECK_STATUS(stn_backward_many(context, 1, &a, &cotangent, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(a, &grad), STN_OK);
    CHECK(grad != cotangent);
    CHECK(!stn_requires_grad(grad));
    stn_no_grad_begin(context);
    stn_mul_number_(grad, 100);
    stn_no_grad_end(context);
    test_read(cotangent, values, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(values[i], exp(test_value(i)), 1e-12);
    return stn_scope_end(context);
}

static void a_gradient_has_no_history_and_is_nobody_elses(void)
{
    test_ranks(1, history_body, NULL);
    test_ranks(3, history_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"hooks_run_after_every_completion", hooks_run_after_every_completion},
        {"hooks_do_not_run_for_what_was_zeroed", hooks_do_not_run_for_what_was_zeroed},
        {"a_hook_may_forget_the_gradient", a_hook_may_forget_the_gradient},
        {"no_hook_is_told_of_a_leaf_that_is_gone", no_hook_is_told_of_a_leaf_that_is_gone},
        {"a_hook_may_run_a_backward_to_its_own_leaf", a_hook_may_run_a_backward_to_its_own_leaf},
        {"a_gradient_has_no_history_and_is_nobody_elses", a_gradient_has_no_history_and_is_nobody_elses},
        {"only_what_somebody_else_holds_is_copied", only_what_somebody_else_holds_is_copied},
        {"hook_of_one_rank_does_not_change_what_is_sent", hook_of_one_rank_does_not_change_what_is_sent},
    };
    return TEST_MAIN(argc, argv, cases);
}
