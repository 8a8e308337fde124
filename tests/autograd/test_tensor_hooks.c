/* Hooks of single tensors, and gradients that results keep. */
#include "ranks.h"

enum { N = 7 };

static double whole_number(int64_t i)
{
    return (double)((i * 5) % 11 - 4);
}

static stn_tensor *vector(stn_context *context, stn_placement placement, double (*value)(int64_t i))
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    return test_tensor(context, mesh, &placement, STN_DTYPE_F64, 1, (int64_t[]){N}, NULL, value);
}

static stn_tensor *leaf(stn_context *context, stn_placement placement)
{
    stn_tensor *t = vector(context, placement, whole_number);
    stn_set_requires_grad(t, 1);
    return t;
}

static stn_tensor *sum(stn_tensor *t)
{
    return stn_sum(t, 0, NULL, 0);
}

static void check_grad(stn_tensor *tensor, double factor, double power)
{
    stn_tensor *grad = NULL;
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = factor * (power == 2 ? whole_number(i) * whole_number(i) : power == 1 ? whole_number(i) : 1);
    CHECK_STATUS(stn_grad_of(tensor, &grad), STN_OK);
    if (CHECK_PTR(grad))
        test_compare(grad, want, N, 0);
}

/* Hooks */

struct heard {
    int calls, destroyed, *order; /* order: calls of several, at the time of this one's */
    double scale, seen;           /* element 1 of the gradient */
};

static stn_status hear(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    struct heard *heard = arg;
    double values[N];
    test_read(gradient, values, N); /* communicates: every rank has the hook */
    heard->seen = values[1];
    heard->calls++;
    if (heard->scale != 1)
        *instead = stn_mul_number(gradient, heard->scale);
    return STN_OK;
}

static void forget(void *arg)
{
    ((struct heard *)arg)->destroyed++;
}

static stn_status note_grad(stn_tensor *tensor, void *arg)
{
    struct heard *heard = arg;
    stn_tensor *grad = NULL;
    double values[N];
    CHECK_STATUS(stn_grad_of(tensor, &grad), STN_OK);
    test_read(grad, values, N);
    heard->seen = values[1];
    heard->calls++;
    return STN_OK;
}

/* loss = sum(y + y), y = x w with hooks that double and then take 3 times its gradient, x with one that takes half of
 * its own. */
static stn_status hooks_body(stn_context *context, void *arg)
{
    const stn_placement *placement = arg;
    struct heard first = {.scale = 2}, second = {.scale = 3}, half = {.scale = 0.5}, complete = {.scale = 1};
    stn_tensor *grad;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, *placement), *w = vector(context, stn_replicate(), whole_number), *y = stn_mul(x, w);
    CHECK_STATUS(stn_add_tensor_hook(y, hear, &first, forget), STN_OK);
    CHECK_STATUS(stn_add_tensor_hook(y, hear, &second, forget), STN_OK);
    CHECK_STATUS(stn_add_tensor_hook(x, hear, &half, forget), STN_OK);
    CHECK_STATUS(stn_add_grad_hook(x, note_grad, &complete, NULL), STN_OK);
    stn_tensor *loss = sum(stn_add(y, y));
    CHECK_STATUS(stn_backward_many(context, 1, &loss, NULL, 1), STN_OK);
    CHECK_NEAR(first.seen, 2, 0);
    CHECK_NEAR(second.seen, 4, 0);
    CHECK_NEAR(half.seen, 12 * whole_number(1), 0);
    CHECK_NEAR(complete.seen, 6 * whole_number(1), 0);
    check_grad(x, 6, 1);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 0, 0, &grad), STN_OK);
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = 6 * whole_number(i);
    test_compare(grad, want, N, 0);
    CHECK_I64(first.calls + second.calls + half.calls, 6);
    CHECK_I64(complete.calls, 1);
    stn_status status = stn_scope_end(context);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    stn_context_trim(context); /* what has died is freed by the next action */
    CHECK_I64(first.destroyed + second.destroyed + half.destroyed, 3);
    return status;
}

static void hooks_see_whole_gradients_and_replace_them_in_order(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0)};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int p = 0; p < 2; p++)
            test_ranks(ranks, hooks_body, &placements[p]);
}

static stn_status fail(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)gradient, (void)instead, (void)arg;
    return STN_ERR_IO;
}

/* One rank alone, with words of its own. */
static stn_status fail_by_name(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    stn_context *context = stn_tensor_context(gradient);
    (void)instead, (void)arg;
    return stn_context_rank(context) == 1 ? stn_context_fail(context, STN_ERR_IO, "no more paper") : STN_OK;
}

static stn_status named_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, stn_shard(0));
    CHECK_STATUS(stn_add_tensor_hook(x, fail_by_name, NULL, NULL), STN_OK);
    CHECK_STATUS(stn_backward(sum(stn_mul_number(x, 2))), STN_ERR_IO);
    CHECK_ERROR(context, STN_ERR_IO, "rank 1: no more paper");
    return stn_scope_end(context);
}

static void a_hook_that_fails_in_words_of_its_own_is_quoted_on_all_ranks(void)
{
    test_ranks(2, named_body, NULL);
    test_ranks(3, named_body, NULL);
}

static stn_status give_another_shape(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)arg;
    *instead = sum(gradient);
    return STN_OK;
}

static stn_status refused_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, stn_shard(0)), *y = stn_mul_number(x, 2);
    CHECK_STATUS(stn_add_tensor_hook(y, fail, NULL, NULL), STN_OK);
    CHECK_STATUS(stn_backward(sum(y)), STN_ERR_CALLBACK);
    CHECK_ERROR(context, STN_ERR_CALLBACK, "a tensor hook returned \"input or output failed\"");
    y = stn_mul_number(x, 2);
    CHECK_STATUS(stn_add_tensor_hook(y, give_another_shape, NULL, NULL), STN_OK);
    CHECK_STATUS(stn_backward(sum(y)), STN_ERR_CALLBACK);
    CHECK_ERROR(context, STN_ERR_CALLBACK,
                "a tensor hook gave a gradient of another shape, dtype or mesh, wanted one like the tensor's");
    stn_add_tensor_hook(stn_detach(x), fail, NULL, NULL);
    CHECK_ERROR(context, STN_ERR_STATE, "stn_add_tensor_hook: tensor does not require grad");
    stn_add_tensor_hook(x, NULL, NULL, NULL);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "stn_add_tensor_hook: hook got NULL");
    return stn_scope_end(context);
}

static void hooks_that_fail_or_give_nonsense_are_refused(void)
{
    test_ranks(2, refused_body, NULL);
}

struct adding {
    stn_tensor *tensor;
    int calls;
};

/* Ends also where it is called for what it added itself. */
static stn_status add_itself(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    struct adding *adding = arg;
    (void)gradient, (void)instead;
    return adding->calls++ < 100 ? stn_add_tensor_hook(adding->tensor, add_itself, adding, NULL) : STN_OK;
}

static stn_status adding_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, stn_shard(0)), *y = stn_mul_number(x, 2);
    struct adding of_leaf = {.tensor = x}, of_result = {.tensor = y};
    CHECK_STATUS(stn_add_tensor_hook(x, add_itself, &of_leaf, NULL), STN_OK);
    CHECK_STATUS(stn_add_tensor_hook(y, add_itself, &of_result, NULL), STN_OK);
    stn_tensor *loss = sum(y);
    CHECK_STATUS(stn_backward_many(context, 1, &loss, NULL, 1), STN_OK);
    CHECK_I64(of_leaf.calls, 1);
    CHECK_I64(of_result.calls, 1);
    CHECK_STATUS(stn_backward(loss), STN_OK); /* two hooks by now */
    CHECK_I64(of_leaf.calls, 3);
    CHECK_I64(of_result.calls, 3);
    return stn_scope_end(context);
}

static void hooks_that_hooks_add_run_from_the_next_backward_on(void)
{
    test_ranks(1, adding_body, NULL);
    test_ranks(3, adding_body, NULL);
}

static stn_status change(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    stn_tensor **kept = arg;
    (void)instead;
    *kept = stn_tensor_retain(gradient);
    stn_mul_number_(gradient, 2);
    return STN_OK;
}

/* y and z have one cotangent, which is the caller's. */
static stn_status change_body(stn_context *context, void *arg)
{
    const stn_placement *placement = arg;
    stn_tensor *kept = NULL;
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = whole_number(i);
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, *placement), *y = stn_mul_number(x, 1), *z = stn_mul_number(x, 3);
    stn_tensor *all = stn_add(y, z), *cotangent = vector(context, *placement, whole_number);
    CHECK_STATUS(stn_add_tensor_hook(z, change, &kept, NULL), STN_OK);
    CHECK_STATUS(stn_backward_many(context, 1, &all, &cotangent, 0), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "mul_: 'input' is immutable");
    test_compare(cotangent, want, N, 0);
    if (CHECK_PTR(kept)) {
        stn_mul_number_(kept, 2); /* only while the hook runs */
        CHECK_STATUS(stn_context_status(context), STN_OK);
        stn_tensor_release(&kept);
    }
    return stn_scope_end(context);
}

static void hooks_do_not_write_to_gradients_that_others_have(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0)};
    for (int i = 0; i < 2; i++)
        test_worlds(change_body, &placements[i]);
}

/* A backward inside of another */

struct nested {
    stn_tensor *loss, *x;
    int by_grad, retain, calls;
    double seen; /* element 1 of its gradient; of stn_grad alone */
};

static stn_status run_another(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    struct nested *nested = arg;
    stn_context *context = stn_tensor_context(gradient);
    stn_tensor *grad = NULL;
    double values[N];
    (void)instead;
    if (nested->calls++ > 0)
        return STN_OK;
    if (!nested->by_grad)
        return stn_backward_many(context, 1, &nested->loss, NULL, nested->retain);
    stn_status status = stn_grad(context, 1, &nested->loss, NULL, 1, &nested->x, nested->retain, 0, &grad);
    if (status != STN_OK)
        return status;
    test_read(grad, values, N);
    nested->seen = values[1];
    return STN_OK;
}

/* Both come through `trunk`, which has got one part of its gradient from the outer one, and to the leaf x. The outer
 * derivative is (5 + 1) 2, that of the inner one 10 2. */
static stn_status nested_body(stn_context *context, void *arg)
{
    const stn_placement *placement = arg;
    for (int way = 0; way < 4; way++) {
        const int outer_by_grad = way & 1;
        stn_tensor *grad = NULL;
        stn_scope_begin(context);
        stn_tensor *x = leaf(context, *placement), *trunk = stn_mul_number(x, 2);
        struct nested nested = {sum(stn_mul_number(trunk, 10)), x, way >> 1, 1, 0, 0};
        stn_tensor *hooked = stn_mul_number(trunk, 1), *late = stn_mul_number(trunk, 5);
        CHECK_STATUS(stn_add_tensor_hook(hooked, run_another, &nested, NULL), STN_OK);
        stn_tensor *loss = stn_add(sum(late), sum(hooked));
        if (outer_by_grad) {
            CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 1, 0, &grad), STN_OK);
            test_compare(grad, (const double[]){12, 12, 12, 12, 12, 12, 12}, N, 0);
        } else {
            CHECK_STATUS(stn_backward(loss), STN_OK);
        }
        if (nested.by_grad)
            CHECK_NEAR(nested.seen, 20, 0);
        if (!outer_by_grad || !nested.by_grad)
            check_grad(x, (outer_by_grad ? 0 : 12) + (nested.by_grad ? 0 : 20), 0);
        CHECK_I64(nested.calls, 1);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

/* Without retain it leaves nothing to the outer one. */
static stn_status consumed_body(stn_context *context, void *arg)
{
    const stn_placement *placement = arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, *placement), *trunk = stn_mul(x, x);
    struct nested nested = {sum(stn_mul_number(trunk, 10)), x, 0, 0, 0, 0};
    stn_tensor *hooked = stn_mul_number(trunk, 1);
    CHECK_STATUS(stn_add_tensor_hook(hooked, run_another, &nested, NULL), STN_OK);
    CHECK_STATUS(stn_backward(sum(hooked)), STN_ERR_STATE);
    CHECK_ERROR(context, STN_ERR_STATE,
                "stn_backward: 'mul' was run backward before and its graph is gone; retain_graph keeps it");
    return stn_scope_end(context);
}

static stn_status synchronise(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)instead;
    return stn_grad_sync(stn_tensor_context(gradient), 1, arg);
}

/* Of the leaf whose gradient the outer one has still to find. */
static stn_status sync_body(stn_context *context, void *arg)
{
    const stn_placement *placement = arg;
    stn_tensor *grad = NULL;
    double want[N];
    stn_scope_begin(context);
    stn_tensor *p = leaf(context, stn_replicate()), *x = vector(context, *placement, whole_number);
    stn_no_sync_begin(context);
    CHECK_STATUS(stn_backward(sum(stn_mul(x, p))), STN_OK);
    stn_no_sync_end(context);
    stn_tensor *product = stn_mul(x, p), *loss = sum(product);
    CHECK_STATUS(stn_add_tensor_hook(product, synchronise, &p, NULL), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &p, 0, 0, &grad), STN_OK);
    for (int i = 0; i < N; i++)
        want[i] = whole_number(i);
    if (CHECK_PTR(grad))
        test_compare(grad, want, N, 0);
    check_grad(p, 1, 1);
    return stn_scope_end(context);
}

static void a_backward_in_a_hook_leaves_the_outer_one_what_it_has(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0)};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int p = 0; p < 2; p++) {
            test_ranks(ranks, nested_body, &placements[p]);
            test_ranks(ranks, consumed_body, &placements[p]);
            test_ranks(ranks, sync_body, &placements[p]);
        }
}

/* Kept gradients */

/* y = x w, z = y^2: dz/dy = 2 y, in the layout of y though it arrives as it may; twice into the same tensor; forgotten.
 * */
static stn_status keep_body(stn_context *context, void *arg)
{
    const stn_placement *placement = arg;
    stn_tensor *grad = NULL;
    struct heard twice = {.scale = 2};
    stn_scope_begin(context);
    stn_tensor *x = leaf(context, *placement), *w = vector(context, stn_replicate(), whole_number), *y = stn_mul(x, w);
    stn_tensor *loss = sum(stn_mul(y, y));
    CHECK(stn_grad_of(y, &grad) == STN_ERR_STATE);
    stn_context_take_error(context, NULL, 0);
    CHECK_STATUS(stn_retain_grad(y), STN_OK);
    CHECK_STATUS(stn_retain_grad(y), STN_OK);
    CHECK_STATUS(stn_retain_grad(x), STN_OK);
    CHECK_STATUS(stn_grad_of(y, &grad), STN_OK);
    CHECK(grad == NULL);
    CHECK_STATUS(stn_backward_many(context, 1, &loss, NULL, 1), STN_OK);
    check_grad(y, 2, 2);
    CHECK_STATUS(stn_add_tensor_hook(y, hear, &twice, NULL), STN_OK);
    CHECK_STATUS(stn_backward_many(context, 1, &loss, NULL, 1), STN_OK);
    check_grad(y, 2 + 4, 2);
    CHECK_STATUS(stn_zero_grad(y), STN_OK);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 1, 0, &grad), STN_OK);
    CHECK_STATUS(stn_grad_of(y, &grad), STN_OK);
    CHECK(grad == NULL); /* stn_grad keeps nothing */
    CHECK_STATUS(stn_backward(loss), STN_OK);
    check_grad(y, 4, 2);
    CHECK_STATUS(stn_grad_of(y, &grad), STN_OK);
    const stn_spec *spec;
    CHECK_STATUS(stn_gradient_spec(stn_tensor_spec(y), &spec), STN_OK);
    CHECK(stn_tensor_spec(grad) == spec);
    stn_spec_release(&spec);
    CHECK(!stn_is_leaf(y));
    stn_retain_grad(stn_detach(y));
    CHECK_ERROR(context, STN_ERR_STATE, "stn_retain_grad: tensor does not require grad");
    return stn_scope_end(context);
}

/* What arrives in another layout, a sharded one here, is kept in the tensor's own. */
static stn_status keep_layout_body(stn_context *context, void *arg)
{
    const stn_placement *placement = arg;
    const stn_spec *spec;
    stn_tensor *grad = NULL;
    stn_scope_begin(context);
    stn_tensor *y = stn_mul_number(leaf(context, *placement), 2), *cut = vector(context, stn_shard(0), whole_number);
    CHECK_STATUS(stn_retain_grad(y), STN_OK);
    CHECK_STATUS(stn_backward(sum(stn_mul(y, cut))), STN_OK);
    check_grad(y, 1, 1);
    CHECK_STATUS(stn_grad_of(y, &grad), STN_OK);
    CHECK_STATUS(stn_gradient_spec(stn_tensor_spec(y), &spec), STN_OK);
    CHECK(stn_tensor_spec(grad) == spec);
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

/* A change in place makes another tensor of it, which keeps on: hooks see what it was. */
static stn_status keep_in_place_body(stn_context *context, void *arg)
{
    struct heard heard = {.scale = 1};
    stn_scope_begin(context);
    stn_tensor *y = stn_mul_number(leaf(context, *(stn_placement *)arg), 2), *loss = sum(stn_mul_number(y, 5));
    CHECK_STATUS(stn_retain_grad(y), STN_OK);
    CHECK_STATUS(stn_add_tensor_hook(y, hear, &heard, NULL), STN_OK);
    CHECK_STATUS(stn_backward_many(context, 1, &loss, NULL, 1), STN_OK);
    CHECK(stn_mul_number_(y, 3) == y);
    check_grad(y, 5, 0);
    CHECK_STATUS(stn_backward(sum(stn_mul_number(y, 7))), STN_OK);
    check_grad(y, 5 + 7, 0);
    CHECK(heard.calls == 2 && heard.seen == 3 * 7);
    return stn_scope_end(context);
}

static void results_keep_their_gradients_where_told_to(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0), stn_partial(STN_SUM)};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int p = 0; p < 3; p++) {
            test_ranks(ranks, keep_body, &placements[p]);
            test_ranks(ranks, keep_layout_body, &placements[p]);
            test_ranks(ranks, keep_in_place_body, &placements[p]);
        }
}

/* One cotangent goes through both results and on: each keeps one of its own. */
static stn_status own_body(stn_context *context, void *arg)
{
    const stn_placement *placement = arg;
    stn_tensor *grad = NULL;
    stn_scope_begin(context);
    stn_tensor *y = stn_add_number(leaf(context, *placement), 1), *z = stn_add_number(y, 2);
    stn_tensor *cotangent = vector(context, *placement, whole_number);
    CHECK_STATUS(stn_retain_grad(y), STN_OK);
    CHECK_STATUS(stn_retain_grad(z), STN_OK);
    CHECK_STATUS(stn_backward_many(context, 1, &z, &cotangent, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(y, &grad), STN_OK);
    stn_mul_number_(grad, 100);
    check_grad(y, 100, 1);
    check_grad(z, 1, 1);
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = whole_number(i);
    test_compare(cotangent, want, N, 0);
    return stn_scope_end(context);
}

static void kept_gradients_are_nobody_elses(void)
{
    stn_placement placements[] = {stn_replicate(), stn_shard(0)};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int p = 0; p < 2; p++)
            test_ranks(ranks, own_body, &placements[p]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"hooks_see_whole_gradients_and_replace_them_in_order", hooks_see_whole_gradients_and_replace_them_in_order},
        {"hooks_that_fail_or_give_nonsense_are_refused", hooks_that_fail_or_give_nonsense_are_refused},
        {"a_hook_that_fails_in_words_of_its_own_is_quoted_on_all_ranks",
         a_hook_that_fails_in_words_of_its_own_is_quoted_on_all_ranks},
        {"hooks_that_hooks_add_run_from_the_next_backward_on", hooks_that_hooks_add_run_from_the_next_backward_on},
        {"hooks_do_not_write_to_gradients_that_others_have", hooks_do_not_write_to_gradients_that_others_have},
        {"a_backward_in_a_hook_leaves_the_outer_one_what_it_has",
         a_backward_in_a_hook_leaves_the_outer_one_what_it_has},
        {"kept_gradients_are_nobody_elses", kept_gradients_are_nobody_elses},
        {"results_keep_their_gradients_where_told_to", results_keep_their_gradients_where_told_to},
    };
    return TEST_MAIN(argc, argv, cases);
}
