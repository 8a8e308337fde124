/* The two words of a thread: which handlers it is inside, and whether it is inside a conversion. Restored on every
 * exit, zero in callbacks, and each thread's own. */
#include "ranks.h"

#include "core/base/thread_state.h"

#include <pthread.h>

static void expect_clear(void)
{
    CHECK_I64(stni_thread_state_here()->conversion_depth, 0);
    CHECK(stni_thread_state_here()->frames == NULL);
}

static stn_tensor *numbers(stn_context *context)
{
    const int64_t n = 5;
    const stn_placement shard = stn_shard(0);
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), &shard, STN_DTYPE_F32, 1, &n, NULL,
                       test_value);
}

/* What a handler does before it calls the op that it serves. */
struct plan {
    int calls, of_others;
    stn_status (*then)(stn_context *context, struct plan *plan);
    stn_status result;
    stn_tensor *input;
};

static stn_status planned(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                          stn_tensor **out, void *arg)
{
    struct plan *plan = arg;
    plan->calls++;
    if (plan->then && plan->calls == 1)
        CHECK_STATUS(plan->then(stn_tensor_context(in[0]), plan), STN_OK);
    stn_status status = stn_op_apply(op, n_in, in, attrs, n_out, out);
    return status != STN_OK ? status : plan->result;
}

static stn_status count_other(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                              stn_tensor **out, void *arg)
{
    ((struct plan *)arg)->of_others++;
    return stn_op_apply(op, n_in, in, attrs, n_out, out);
}

/* Two ops with handlers: relu's follows a plan, neg's counts. */
static void set_handlers(stn_context *context, struct plan *plan)
{
    CHECK_STATUS(stn_handler_set(context, "relu", planned, plan), STN_OK);
    CHECK_STATUS(stn_handler_set(context, "neg", count_other, plan), STN_OK);
}

static stn_status call_both(stn_context *context, struct plan *plan)
{
    stn_tensor *x = numbers(context);
    CHECK(!stn_tensor_is_error(stn_relu(x)));
    CHECK_I64(plan->calls, 1); /* the built-in rule */
    CHECK(!stn_tensor_is_error(stn_neg(x)));
    CHECK_I64(plan->of_others, 1);
    return STN_OK;
}

static stn_status mask_body(stn_context *context, void *arg)
{
    struct plan plan = {.then = call_both};
    (void)arg;
    set_handlers(context, &plan);
    stn_scope_begin(context);
    CHECK(!stn_tensor_is_error(stn_relu(numbers(context))));
    CHECK_I64(plan.calls, 1);
    expect_clear();
    CHECK(!stn_tensor_is_error(stn_relu(numbers(context))));
    CHECK_I64(plan.calls, 2);
    return stn_scope_end(context);
}

static void inside_a_handler_its_op_is_the_built_in_and_others_are_handled(void)
{
    test_ranks(1, mask_body, NULL);
    test_ranks(3, mask_body, NULL);
}

/* Another thread uses the context while this one waits inside the handler: it is inside no handler itself. */
static void *other_thread(void *arg)
{
    struct plan *plan = arg;
    expect_clear();
    CHECK(!stn_tensor_is_error(stn_relu(plan->input)));
    expect_clear();
    return NULL;
}

static stn_status run_thread(stn_context *context, struct plan *plan)
{
    pthread_t thread;
    plan->input = numbers(context);
    CHECK_I64(pthread_create(&thread, NULL, other_thread, plan), 0);
    CHECK_I64(pthread_join(thread, NULL), 0);
    CHECK_I64(plan->calls, 2);
    return STN_OK;
}

static stn_status thread_body(stn_context *context, void *arg)
{
    struct plan plan = {.then = run_thread};
    (void)arg;
    set_handlers(context, &plan);
    stn_scope_begin(context);
    CHECK(!stn_tensor_is_error(stn_relu(numbers(context))));
    CHECK_I64(plan.calls, 2);
    expect_clear();
    return stn_scope_end(context);
}

static void another_thread_is_inside_no_handler(void)
{
    test_ranks(1, thread_body, NULL);
}

static stn_status fail_inside(stn_context *context, struct plan *plan)
{
    stn_tensor *wrong[] = {numbers(context), numbers(context)}, *out;
    (void)plan;
    CHECK_STATUS(stn_call(context, "neg", 2, wrong, 0, NULL, 1, &out), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_ARGUMENT);
    return STN_OK;
}

static stn_status errors_body(stn_context *context, void *arg)
{
    struct plan inside = {.then = fail_inside}, outside = {.result = STN_ERR_IO};
    (void)arg;
    stn_scope_begin(context);
    set_handlers(context, &inside);
    CHECK(!stn_tensor_is_error(stn_relu(numbers(context))));
    expect_clear();
    set_handlers(context, &outside);
    for (int i = 1; i <= 2; i++) {
        CHECK(stn_tensor_is_error(stn_relu(numbers(context))));
        CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_CALLBACK);
        CHECK_I64(outside.calls, i);
        expect_clear();
    }
    return stn_scope_end(context);
}

static void failures_restore_them(void)
{
    test_ranks(1, errors_body, NULL);
    test_ranks(2, errors_body, NULL);
}

/* An op without a rule, whose run uses ops: it sees local tensors, and handlers serve nothing in it. */
static stn_status like_input(stn_op_call *call)
{
    call->out_meta[0] = (stn_meta){.dtype = STN_DTYPE_F32, .ndim = 1, .shape = {stn_spec_shape(call->in_spec[0])[0]}};
    return STN_OK;
}

static stn_status uses_ops(stn_op_call *call)
{
    struct plan *plan = call->arg;
    CHECK_I64(stni_thread_state_here()->conversion_depth, call->local && stn_context_size(call->context) > 1 ? 1 : 0);
    int calls = plan->calls;
    stn_tensor *y = stn_relu(call->in[0]);
    CHECK(!stn_tensor_is_error(y));
    CHECK(stn_spec_mesh(stn_tensor_spec(y)) == NULL);
    CHECK_I64(plan->calls, calls);
    return plan->result == STN_OK ? STN_OK : stn_op_fail(call, plan->result, "as planned");
}

static const stn_input_schema one_input[] = {{.name = "input"}};

static stn_status conversion_body(stn_context *context, void *arg)
{
    struct plan plan = {.result = *(stn_status *)arg};
    static const stn_op_impl impl = {.check = like_input, .run = uses_ops};
    const stn_op_desc desc = {
        .size = sizeof desc, .name = "uses_ops", STN_INPUTS(one_input), .n_outputs = 1, .impl = &impl, .arg = &plan};
    const stn_op *op;
    stn_tensor *y;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    set_handlers(context, &plan);
    stn_scope_begin(context);
    stn_tensor *x = numbers(context);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &y), plan.result);
    expect_clear();
    if (plan.result == STN_OK)
        CHECK(!stn_tensor_is_error(stn_relu(x)));
    CHECK_I64(plan.calls, plan.result == STN_OK);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), plan.result);
    return stn_scope_end(context);
}

static void inside_a_conversion_ops_are_local_and_nobody_handles_them(void)
{
    stn_status ends = STN_OK;
    test_ranks(2, conversion_body, &ends);
    test_ranks(3, conversion_body, &ends);
}

/* Backward, and the hooks that it calls, run under neither, even where a handler calls it. */
static stn_status hook(stn_tensor *leaf, void *arg)
{
    struct plan *plan = arg;
    int calls = plan->calls;
    expect_clear();
    CHECK(!stn_tensor_is_error(stn_relu(leaf)));
    CHECK_I64(plan->calls, calls + 1);
    return STN_OK;
}

static stn_status go_back(stn_context *context, struct plan *plan)
{
    stn_tensor *x = numbers(context);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK_STATUS(stn_add_grad_hook(x, hook, plan, NULL), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(stn_neg(x), 0, NULL, 0)), STN_OK);
    CHECK_I64(plan->calls, 2);
    CHECK(plan->of_others >= 2); /* neg's backward is a neg */
    CHECK(stni_thread_state_here()->frames != NULL);
    return STN_OK;
}

static stn_status backward_body(stn_context *context, void *arg)
{
    struct plan plan = {.then = go_back};
    (void)arg;
    set_handlers(context, &plan);
    stn_scope_begin(context);
    CHECK(!stn_tensor_is_error(stn_relu(numbers(context))));
    expect_clear();
    return stn_scope_end(context);
}

static void backward_and_its_hooks_run_under_neither(void)
{
    test_ranks(1, backward_body, NULL);
    test_ranks(2, backward_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"inside_a_handler_its_op_is_the_built_in_and_others_are_handled",
         inside_a_handler_its_op_is_the_built_in_and_others_are_handled},
        {"another_thread_is_inside_no_handler", another_thread_is_inside_no_handler},
        {"failures_restore_them", failures_restore_them},
        {"inside_a_conversion_ops_are_local_and_nobody_handles_them",
         inside_a_conversion_ops_are_local_and_nobody_handles_them},
        {"backward_and_its_hooks_run_under_neither", backward_and_its_hooks_run_under_neither},
    };
    return TEST_MAIN(argc, argv, cases);
}
