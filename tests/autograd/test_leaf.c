/* Leaves, graphs and modes: what backward leaves behind, and what it refuses. */
#include "ranks.h"
#include "stats.h"

enum { N = 7 };

static stn_tensor *leaf(stn_context *context, const stn_mesh *mesh, stn_placement placement)
{
    const int64_t shape[] = {N};
    stn_tensor *t = test_tensor(context, mesh, mesh ? &placement : NULL, STN_DTYPE_F64, 1, shape, NULL, test_value);
    stn_set_requires_grad(t, 1);
    return t;
}

static stn_tensor *sum(stn_tensor *t)
{
    return stn_sum(t, 0, NULL, 0);
}

static void check_value(stn_tensor *t, double (*want)(int64_t), double factor)
{
    double got[N];
    if (!CHECK_PTR(t))
        return;
    test_read(t, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], factor * want(i), 1e-12);
}

static stn_status accumulate_body(stn_context *context, void *arg)
{
    stn_tensor *grad;
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, mesh, stn_shard(0));
    for (int i = 1; i <= 3; i++) {
        CHECK_STATUS(stn_backward(sum(stn_mul(x, x))), STN_OK);
        CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
        check_value(grad, test_value, 2 * i);
    }
    CHECK_STATUS(stn_zero_grad(x), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK(grad == NULL);
    return stn_scope_end(context);
}

static void backward_adds_to_grad_until_it_is_zeroed(void)
{
    test_ranks(1, accumulate_body, NULL);
    test_ranks(3, accumulate_body, NULL);
}

static int64_t collectives(stn_context *context)
{
    return test_stats(context).collectives;
}

/* The sum over rows of x p q: the gradients of p and q arrive Partial; that of r, used row by row, arrives cut. */
static stn_tensor *microbatch_loss(stn_tensor *x, stn_tensor *p, stn_tensor *q, stn_tensor *r)
{
    return stn_add(sum(stn_mul(stn_mul(x, p), q)), sum(stn_mul(x, r)));
}

/* Two microbatches without sync, one with: only the agreements of the graphs are sent until then, and then one
 * reduction serves both. */
static stn_status no_sync_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {5, N};
    int many = stn_context_size(context) > 1;
    stn_tensor *grad;
    stn_placement shard = stn_shard(0), replicate = stn_replicate();
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, replicate), *q = leaf(context, mesh, replicate);
    stn_tensor *x = test_tensor(context, mesh, &shard, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_tensor *r = test_tensor(context, mesh, &replicate, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_set_requires_grad(r, 1);
    int64_t before = collectives(context);
    stn_no_sync_begin(context);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_backward(microbatch_loss(x, p, q, r)), STN_OK);
    stn_no_sync_end(context);
    CHECK_I64(collectives(context) - before, 2 * many);
    if (many) {
        CHECK_STATUS(stn_grad_of(p, &grad), STN_ERR_PARTIAL);
        stn_context_take_error(context, NULL, 0);
    }
    before = collectives(context);
    CHECK_STATUS(stn_backward(sum(stn_mul(stn_mul(x, p), q))), STN_OK);
    CHECK_I64(collectives(context) - before, 2 * many);
    CHECK_STATUS(stn_grad_of(p, &grad), STN_OK);
    double got[5 * N];
    test_read(grad, got, N);
    for (int i = 0; i < N; i++) {
        double want = 0;
        for (int row = 0; row < 5; row++)
            want += 3 * test_value(row * N + i) * test_value(i);
        CHECK_NEAR(got[i], want, 1e-12);
    }
    CHECK_STATUS(stn_grad_of(r, &grad), STN_OK);
    test_read(grad, got, 5 * N);
    for (int i = 0; i < 5 * N; i++)
        CHECK_NEAR(got[i], 2 * test_value(i), 1e-12);
    return stn_scope_end(context);
}

static void pending_gradients_are_reduced_once_and_cannot_be_read_before(void)
{
    test_ranks(1, no_sync_body, NULL);
    test_ranks(2, no_sync_body, NULL);
    test_ranks(3, no_sync_body, NULL);
}

static stn_status sync_body(stn_context *context, void *arg)
{
    stn_tensor *grad;
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, stn_replicate()), *x = stn_detach(leaf(context, mesh, stn_shard(0)));
    stn_no_sync_begin(context);
    CHECK_STATUS(stn_backward(sum(stn_mul(x, p))), STN_OK);
    stn_no_sync_end(context);
    CHECK_STATUS(stn_grad_sync(context, 1, &p), STN_OK);
    CHECK_STATUS(stn_grad_of(p, &grad), STN_OK);
    check_value(grad, test_value, 1);
    return stn_scope_end(context);
}

static void grad_sync_completes_what_is_pending(void)
{
    test_ranks(2, sync_body, NULL);
}

static stn_status count_hook(stn_tensor *tensor, void *arg)
{
    stn_tensor *grad;
    CHECK_STATUS(stn_grad_of(tensor, &grad), STN_OK);
    CHECK_PTR(grad);
    ++*(int *)arg;
    return STN_OK;
}

static void count_destroy(void *arg)
{
    *(int *)arg += 100;
}

static stn_status hook_body(stn_context *context, void *arg)
{
    int calls = 0;
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, mesh, stn_replicate()), *x = stn_detach(leaf(context, mesh, stn_shard(0)));
    CHECK_STATUS(stn_add_grad_hook(p, count_hook, &calls, count_destroy), STN_OK);
    CHECK_STATUS(stn_backward(sum(stn_mul(x, p))), STN_OK);
    CHECK_I64(calls, 1);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_I64(calls, 101);
    return STN_OK;
}

static void hooks_see_the_complete_gradient(void)
{
    test_ranks(2, hook_body, NULL);
}

static void expect(stn_context *context, stn_status got, stn_status want, const char *text)
{
    char kept[512];
    CHECK_STATUS(got, want);
    stn_context_take_error(context, kept, sizeof kept);
    CHECK_STR(kept, text);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = leaf(context, mesh, stn_shard(0)), *plain = stn_detach(x);
    stn_tensor *loss = sum(stn_mul(x, x));
    expect(context, stn_backward(stn_mul(x, x)), STN_ERR_SHAPE,
           "stn_backward: output 0 has 7 elements, wanted 1 or a cotangent");
    expect(context, stn_backward(sum(plain)), STN_ERR_STATE,
           "stn_backward: output 0 does not depend on anything that requires grad");
    CHECK_STATUS(stn_backward(loss), STN_OK);
    expect(context, stn_backward(loss), STN_ERR_STATE,
           "stn_backward: 'sum' was run backward before and its graph is gone; retain_graph keeps it");
    expect(context, stn_set_requires_grad(loss, 0), STN_ERR_STATE,
           "stn_set_requires_grad: the tensor is the result of an op, wanted a leaf");
    stn_add_(x, plain, 1);
    expect(context, stn_context_status(context), STN_ERR_STATE,
           "add_: 'input' is a leaf that requires grad while grad mode is on and cannot be changed in place");
    return stn_scope_end(context);
}

static void misuse_is_refused_by_name(void)
{
    test_ranks(1, refusals_body, NULL);
    test_ranks(2, refusals_body, NULL);
}

/* What ranks that are threads pass each other by mistake, through a global variable. */
static stn_status stranger_body(stn_context *context, void *arg)
{
    stn_context *stranger;
    stn_tensor *grad = NULL;
    (void)arg;
    CHECK_STATUS(stn_context_create(NULL, &stranger), STN_OK);
    stn_scope_begin(context);
    stn_scope_begin(stranger);
    stn_tensor *x = leaf(context, NULL, stn_replicate()), *theirs = leaf(stranger, NULL, stn_replicate());
    stn_tensor *y = stn_mul(x, x);
    expect(context, stn_backward_many(context, 1, &y, &theirs, 0), STN_ERR_ARGUMENT,
           "stn_backward: cotangent 0 belongs to another context");
    expect(context, stn_grad(context, 1, &y, &x, 1, &theirs, 0, 0, &grad), STN_ERR_ARGUMENT,
           "stn_grad: input 0 belongs to another context");
    expect(context, stn_grad_sync(context, 1, &theirs), STN_ERR_ARGUMENT,
           "stn_grad_sync: leaves[0] belongs to another context");
    CHECK_STATUS(stn_scope_end(stranger), STN_OK);
    stn_context_destroy(&stranger);
    return stn_scope_end(context);
}

static void tensors_of_other_contexts_are_refused(void)
{
    test_ranks(1, stranger_body, NULL);
    test_ranks(2, stranger_body, NULL);
}

static stn_status version_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = leaf(context, mesh, stn_shard(0)), *other = stn_detach(leaf(context, mesh, stn_shard(0)));
    stn_tensor *loss = sum(stn_mul(x, other));
    stn_add_(other, other, 1);
    expect(context, stn_backward(loss), STN_ERR_STATE,
           "stn_backward: 'other' of mul was changed in place after it was saved (version 0, now 1)");
    return stn_scope_end(context);
}

static void a_saved_tensor_changed_in_place_is_found(void)
{
    test_ranks(2, version_body, NULL);
}

/* Rank 1 multiplies where the others add: refused everywhere, and the mesh stays usable. */
static stn_status mismatch_body(stn_context *context, void *arg)
{
    stn_tensor *grad;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = leaf(context, mesh, stn_shard(0));
    stn_tensor *loss = sum(stn_context_rank(context) == 1 ? stn_mul(x, x) : stn_add(x, x));
    CHECK_STATUS(stn_backward(loss), STN_ERR_MISMATCH);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_backward(sum(stn_mul(x, x))), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    check_value(grad, test_value, 2);
    return stn_scope_end(context);
}

static void ranks_that_would_communicate_differently_are_refused_together(void)
{
    test_ranks(3, mismatch_body, NULL);
}

static stn_status mask_body(stn_context *context, void *arg)
{
    stn_tensor *grad;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = leaf(context, mesh, stn_shard(0)), *frozen = leaf(context, mesh, stn_shard(0));
    CHECK_STATUS(stn_set_requires_grad(frozen, 0), STN_OK);
    stn_tensor *loss = sum(stn_mul(x, frozen));
    CHECK_STATUS(stn_set_requires_grad(frozen, 1), STN_OK); /* after the op: the node's mask decides */
    CHECK_STATUS(stn_backward(loss), STN_OK);
    CHECK_STATUS(stn_grad_of(frozen, &grad), STN_OK);
    CHECK(grad == NULL);
    stn_no_grad_begin(context);
    CHECK(!stn_requires_grad(stn_mul(x, x)));
    stn_no_grad_end(context);
    CHECK(stn_requires_grad(stn_mul(x, x)));
    CHECK(stn_is_leaf(x) && !stn_is_leaf(loss));
    CHECK(!stn_requires_grad(stn_detach(loss)));
    return stn_scope_end(context);
}

static void the_mask_of_the_node_decides_not_the_flag_of_the_moment(void)
{
    test_ranks(2, mask_body, NULL);
}

static stn_status grad_body(stn_context *context, void *arg)
{
    stn_tensor *grads[3], *grad;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = leaf(context, mesh, stn_shard(0)), *p = leaf(context, mesh, stn_replicate()),
               *unused = leaf(context, mesh, stn_shard(0));
    stn_tensor *h = stn_mul(x, p), *loss = sum(stn_mul(h, h));
    stn_tensor *inputs[] = {h, p, unused};
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 3, inputs, 0, 0, grads), STN_OK);
    double got[N];
    test_read(grads[0], got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], 2 * test_value(i) * test_value(i), 1e-12);
    test_read(grads[1], got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], 2 * test_value(i) * test_value(i) * test_value(i), 1e-12);
    CHECK(stn_tensor_spec(grads[1]) == stn_tensor_spec(p));
    CHECK(grads[2] == NULL);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK(grad == NULL);
    return stn_scope_end(context);
}

static void grad_gives_what_is_asked_and_touches_no_leaf(void)
{
    test_ranks(1, grad_body, NULL);
    test_ranks(3, grad_body, NULL);
}

/* A chain as long as a training run that nobody scoped: freed without recursion. */
static stn_status long_body(stn_context *context, void *arg)
{
    stn_tensor *grad;
    double value;
    (void)arg;
    stn_tensor *x = leaf(context, NULL, stn_replicate()), *h = stn_tensor_retain(x);
    for (int i = 0; i < 100000; i++) {
        stn_tensor *next = stn_mul_number(h, 1);
        stn_tensor_release(&h);
        h = next;
    }
    stn_tensor *loss = sum(h);
    stn_tensor_release(&h);
    CHECK_STATUS(stn_item(loss, &value), STN_OK);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    double got[N];
    test_read(grad, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], 1, 0);
    stn_tensor_release(&loss);
    stn_tensor_release(&x);
    return STN_OK;
}

static void a_long_graph_is_run_and_freed_without_recursion(void)
{
    stn_context *context;
    CHECK_STATUS(stn_context_create(NULL, &context), STN_OK);
    CHECK_STATUS(long_body(context, NULL), STN_OK);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"backward_adds_to_grad_until_it_is_zeroed", backward_adds_to_grad_until_it_is_zeroed},
        {"pending_gradients_are_reduced_once_and_cannot_be_read_before",
         pending_gradients_are_reduced_once_and_cannot_be_read_before},
        {"grad_sync_completes_what_is_pending", grad_sync_completes_what_is_pending},
        {"hooks_see_the_complete_gradient", hooks_see_the_complete_gradient},
        {"misuse_is_refused_by_name", misuse_is_refused_by_name},
        {"tensors_of_other_contexts_are_refused", tensors_of_other_contexts_are_refused},
        {"a_saved_tensor_changed_in_place_is_found", a_saved_tensor_changed_in_place_is_found},
        {"ranks_that_would_communicate_differently_are_refused_together",
         ranks_that_would_communicate_differently_are_refused_together},
        {"the_mask_of_the_node_decides_not_the_flag_of_the_moment",
         the_mask_of_the_node_decides_not_the_flag_of_the_moment},
        {"grad_gives_what_is_asked_and_touches_no_leaf", grad_gives_what_is_asked_and_touches_no_leaf},
        {"a_long_graph_is_run_and_freed_without_recursion", a_long_graph_is_run_and_freed_without_recursion},
    };
    return TEST_MAIN(argc, argv, cases);
}
