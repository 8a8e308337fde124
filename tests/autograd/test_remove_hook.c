/* Hooks that remove themselves: not called any more, and gone when the next one is added. */
#include "ranks.h"

#include <shardtensor/autograd.h>

enum { N = 5 };

struct word {
    int calls, to_come, destroyed;
};

static void count_destroyed(void *arg)
{
    ((struct word *)arg)->destroyed++;
}

static stn_status see(struct word *word, stn_context *context)
{
    word->calls++;
    return word->to_come-- == 0 ? stn_remove_hook(context) : STN_OK;
}

static stn_status see_gradient(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    (void)instead;
    return see(arg, stn_tensor_context(gradient));
}

static stn_status see_leaf(stn_tensor *leaf, void *arg)
{
    return see(arg, stn_tensor_context(leaf));
}

static stn_tensor *leaf_on(stn_context *context)
{
    const stn_placement rows = stn_shard(0);
    stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &rows, STN_DTYPE_F64, 1,
                                (int64_t[]){N}, NULL, test_value);
    stn_set_requires_grad(x, 1);
    return x;
}

static void backward(stn_tensor *x)
{
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(x, x), 0, NULL, 0)), STN_OK);
}

static stn_status add(stn_tensor *x, int of_leaf, struct word *word)
{
    return of_leaf ? stn_add_grad_hook(x, see_leaf, word, count_destroyed)
                   : stn_add_tensor_hook(x, see_gradient, word, count_destroyed);
}

static stn_status removing_body(stn_context *context, void *arg)
{
    const int of_leaf = *(const int *)arg;
    struct word first = {.to_come = 0}, second = {.to_come = 1}, stays = {.to_come = 100}, last = {.to_come = 100};
    stn_scope_begin(context);
    stn_tensor *x = leaf_on(context);
    CHECK_STATUS(add(x, of_leaf, &first), STN_OK);
    CHECK_STATUS(add(x, of_leaf, &stays), STN_OK);
    CHECK_STATUS(add(x, of_leaf, &second), STN_OK);
    for (int pass = 0; pass < 3; pass++)
        backward(x);
    CHECK_I64(first.calls, 1);
    CHECK_I64(second.calls, 2);
    CHECK_I64(stays.calls, 3);
    CHECK_I64(first.destroyed + second.destroyed, 0);
    CHECK_STATUS(add(x, of_leaf, &last), STN_OK);
    CHECK_I64(first.destroyed, 1);
    CHECK_I64(second.destroyed, 1);
    backward(x);
    CHECK_I64(stays.calls, 4);
    CHECK_I64(last.calls, 1);
    const stn_status ended = stn_scope_end(context);
    stn_context_trim(context); /* which frees what the scope gave up */
    CHECK_I64(stays.destroyed + last.destroyed + first.destroyed + second.destroyed, 4);
    return ended;
}

static void a_hook_that_removes_itself_is_not_called_again_and_goes_with_the_next(void)
{
    for (int of_leaf = 0; of_leaf < 2; of_leaf++)
        for (int ranks = 1; ranks <= 3; ranks++)
            test_ranks(ranks, removing_body, &of_leaf);
}

/* On one rank alone: the others still agree on what their hooks did. */
static stn_status on_one_rank_body(stn_context *context, void *arg)
{
    struct word word = {.to_come = stn_context_rank(context) == 0 ? 0 : 100};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = leaf_on(context);
    CHECK_STATUS(add(x, 0, &word), STN_OK);
    CHECK_STATUS(add(x, 1, &word), STN_OK);
    for (int pass = 0; pass < 3; pass++)
        backward(x);
    CHECK_I64(word.calls, stn_context_rank(context) == 0 ? 4 : 6);
    return stn_scope_end(context);
}

static void ranks_may_differ_in_what_they_remove(void)
{
    test_ranks(2, on_one_rank_body, NULL);
    test_ranks(3, on_one_rank_body, NULL);
}

static stn_status outside_body(stn_context *context, void *arg)
{
    (void)arg;
    CHECK_STATUS(stn_remove_hook(NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_remove_hook(context), STN_ERR_STATE);
    CHECK_ERROR(context, STN_ERR_STATE, "stn_remove_hook: no hook runs, wanted a call from within one");
    return STN_OK;
}

static void outside_of_hooks_it_is_refused(void)
{
    test_ranks(1, outside_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_hook_that_removes_itself_is_not_called_again_and_goes_with_the_next",
         a_hook_that_removes_itself_is_not_called_again_and_goes_with_the_next},
        {"ranks_may_differ_in_what_they_remove", ranks_may_differ_in_what_they_remove},
        {"outside_of_hooks_it_is_refused", outside_of_hooks_it_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
