/* Calls by name and by handle, as frameworks make them: other numbers of inputs and outputs than the op has. */
#include "ranks.h"

#include "ops/sort/sort_line.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static stn_tensor *numbers(stn_context *context, int64_t n)
{
    const stn_placement shard = stn_shard(0);
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), &shard, STN_DTYPE_F32, 1, &n, NULL,
                       test_value);
}

static int64_t live_tensors(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.live_tensors;
}

/* What an op in place gives is its input, borrowed, whichever way it is called. */
static void check_borrowed(stn_context *context, stn_tensor *own)
{
    const stn_op *ceil_ = stn_op_find(context, "ceil_");
    stn_tensor *out = NULL;
    CHECK_STATUS(stn_call(context, "ceil_", 1, &own, 0, NULL, 1, &out), STN_OK);
    CHECK(out == own);
    CHECK_STATUS(stn_op_invoke(ceil_, 1, &own, 0, NULL, 1, &out), STN_OK);
    CHECK(out == own);
    CHECK_STATUS(stn_op_apply(ceil_, 1, &own, NULL, 1, &out), STN_OK);
    CHECK(out == own);
}

static stn_status in_place_body(stn_context *context, void *arg)
{
    double got[7];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = numbers(context, 7);
    int64_t before = live_tensors(context);
    CHECK_STATUS(stn_call(context, "ceil_", 1, &x, 0, NULL, 0, NULL), STN_OK);
    CHECK_I64(live_tensors(context), before);
    test_read(x, got, 7);
    for (int i = 0; i < 7; i++)
        CHECK(got[i] == -1 || got[i] == 0 || got[i] == 1);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_tensor *own = numbers(context, 7); /* outside of scopes: the caller's */
    CHECK_STATUS(stn_call(context, "ceil_", 1, &own, 0, NULL, 0, NULL), STN_OK);
    CHECK_I64(stn_tensor_ndim(own), 1);
    check_borrowed(context, own);
    before = live_tensors(context);
    stn_tensor_release(&own);
    CHECK_I64(live_tensors(context), before - 1); /* the caller's was the only reference */
    return STN_OK;
}

static void an_op_in_place_keeps_its_input_when_no_output_is_asked_for(void)
{
    test_ranks(1, in_place_body, NULL);
    test_ranks(3, in_place_body, NULL);
}

/* Ops of each kind: their results made by dispatch, by run, by other ops. */
static const struct {
    const char *name;
    int n_inputs, n_outputs;
} ops[] = {{"relu", 1, 1},   {"max", 1, 2},     {"unsqueeze", 1, 1}, {"split", 1, 2},
           {"median", 1, 2}, {"dropout", 1, 1}, {"mul_", 2, 1},      {"logsumexp", 1, 1}};

static stn_status fewer_body(stn_context *context, void *arg)
{
    const stn_attr size = {"split_size", STN_ATTR_INT, {.i = 4}}, dim = {"dim", STN_ATTR_INT, {.i = 0}};
    (void)arg;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (int wanted = 0; wanted <= ops[k].n_outputs + 2; wanted++) {
            stn_tensor *out[4];
            stn_scope_begin(context);
            stn_tensor *in[] = {numbers(context, 7), numbers(context, 7)};
            int split = strcmp(ops[k].name, "split") == 0,
                plain = strcmp(ops[k].name, "max") && strcmp(ops[k].name, "median");
            int64_t before = live_tensors(context);
            int in_place = strcmp(ops[k].name, "mul_") == 0;
            CHECK_STATUS(
                stn_call(context, ops[k].name, ops[k].n_inputs, in, split || !plain, split ? &size : &dim, wanted, out),
                STN_OK);
            int made = wanted < ops[k].n_outputs ? wanted : ops[k].n_outputs;
            CHECK_I64(live_tensors(context), before + (in_place ? 0 : made));
            for (int i = 0; i < wanted; i++)
                CHECK((out[i] != NULL) == (i < ops[k].n_outputs));
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void outputs_that_nobody_asked_for_are_released_and_absent_ones_are_null(void)
{
    test_ranks(1, fewer_body, NULL);
    test_ranks(3, fewer_body, NULL);
}

static void expect_refused(stn_context *context, stn_status got, const char *wanted)
{
    char text[300] = "";
    CHECK_STATUS(got, STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, wanted);
}

static stn_status arrays_body(stn_context *context, void *arg)
{
    const stn_op *relu = stn_op_find(context, "relu");
    const stn_attr dim = {"dim", STN_ATTR_INT, {.i = 0}};
    (void)arg;
    stn_tensor *x = numbers(context, 5), *out;
    expect_refused(context, stn_call(context, "relu", -1, &x, 0, NULL, 1, &out),
                   "relu: n_inputs got -1, wanted 0 or more");
    expect_refused(context, stn_op_apply(relu, 1, NULL, NULL, 1, &out), "relu: inputs is NULL, wanted 1 entries");
    expect_refused(context, stn_op_apply(relu, 1, &x, NULL, 1, NULL), "relu: outputs is NULL, wanted 1 entries");
    expect_refused(context, stn_op_invoke(relu, 1, &x, 0, NULL, -2, &out), "relu: n_outputs got -2, wanted 0 or more");
    expect_refused(context, stn_call(context, "softmax", 1, &x, 1, NULL, 1, &out),
                   "softmax: attrs is NULL, wanted 1 entries");
    expect_refused(context, stn_call(context, "softmax", 1, &x, -1, &dim, 1, &out),
                   "softmax: n_attrs got -1, wanted 0 or more");
    CHECK(stn_tensor_is_error(out));
    stn_tensor_release(&x);
    return STN_OK;
}

static void arrays_that_are_missing_are_refused(void)
{
    test_ranks(2, arrays_body, NULL);
}

/* Parts of other ops: called by handle inside the library, with attributes that only it knows how to fill. */
static const char *const internal[] = {"dist_others",          "repeat_index", "order_sort", "relu_backward",
                                       "relu_double_backward", "contract",     "max_all",    "conv2d_grad_weight",
                                       "softmax_backward",     "gate_within"};

static stn_status internal_body(stn_context *context, void *arg)
{
    char text[300];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {numbers(context, 4), numbers(context, 4)}, *out;
    for (size_t k = 0; k < sizeof internal / sizeof *internal; k++) {
        char wanted[100];
        snprintf(wanted, sizeof wanted, "stn_call: '%s' is a part of other ops, not one to be called", internal[k]);
        CHECK(stn_op_find(context, internal[k]) == NULL);
        CHECK_STATUS(stn_call(context, internal[k], 2, in, 0, NULL, 1, &out), STN_ERR_NOT_FOUND);
        CHECK(stn_tensor_is_error(out));
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_NOT_FOUND);
        CHECK_STR(text, wanted);
    }
    CHECK_STATUS(stn_call(context, "relu_backwar", 2, in, 0, NULL, 1, &out), STN_ERR_NOT_FOUND);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_NOT_FOUND);
    CHECK_STR(text, "stn_call: no op 'relu_backwar'");
    return stn_scope_end(context);
}

static void parts_of_other_ops_are_not_called_by_name(void)
{
    test_ranks(1, internal_body, NULL);
    test_ranks(2, internal_body, NULL);
}

static int ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static stn_status list_body(stn_context *context, void *arg)
{
    const stn_op *op;
    int n = 0, softmax = 0;
    (void)arg;
    for (; (op = stn_op_at(context, n)); n++) {
        const stn_op_desc *desc = stn_op_descriptor(op);
        CHECK(stn_op_find(context, desc->name) == op);
        CHECK(!(desc->flags & STN_OP_INTERNAL));
        CHECK(!ends_with(desc->name, "_backward") && !ends_with(desc->name, "_double_backward"));
        for (size_t k = 0; k < sizeof internal / sizeof *internal; k++)
            CHECK(strcmp(desc->name, internal[k]) != 0);
        softmax += strcmp(desc->name, "softmax") == 0;
    }
    CHECK(n > 250);
    CHECK_I64(softmax, 1);
    CHECK(stn_op_at(context, -1) == NULL);
    return STN_OK;
}

static void the_list_has_the_ops_that_a_caller_may_call(void)
{
    test_ranks(1, list_body, NULL);
}

/* Their kernels and handlers are set as any others'. */
static stn_status count_calls(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                              stn_tensor **out, void *arg)
{
    ++*(int *)arg;
    return stn_op_apply(op, n_in, in, attrs, n_out, out);
}

static atomic_int launches;

static stn_status count_launches(stn_queue *queue, const void *args)
{
    (void)queue, (void)args;
    atomic_fetch_add(&launches, 1);
    return STN_OK;
}

static stn_status hooks_body(stn_context *context, void *arg)
{
    int calls = 0;
    (void)arg;
    CHECK_STATUS(stn_handler_set(context, "relu_backward", count_calls, &calls), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = numbers(context, 4), *values, *where;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(stn_relu(x), 0, NULL, 0)), STN_OK);
    CHECK_I64(calls, 1);
    const stn_kernel kernel = {
        sizeof kernel, "order_top.top", "cpu", 1u << STN_DTYPE_F32, sizeof(struct stni_sort_top_args), count_launches,
        NULL};
    CHECK_STATUS(stn_kernel_register(context, &kernel), STN_OK);
    atomic_store(&launches, 0);
    values = stn_topk(x, 1, 0, 1, &where);
    CHECK(!stn_tensor_is_error(values));
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
    CHECK_I64(atomic_load(&launches), 1);
    return STN_OK;
}

static void their_handlers_and_kernels_are_set_by_name(void)
{
    test_ranks(1, hooks_body, NULL);
}

/* What an attribute got, and what was wanted, in numbers. */
static stn_status told_body(stn_context *context, void *arg)
{
    const stn_attr rolls[] = {{"shifts", STN_ATTR_INTS, {.ints = {2, {1, 2}}}},
                              {"dims", STN_ATTR_INTS, {.ints = {1, {0}}}}};
    const stn_attr nameless = {NULL, STN_ATTR_INT, {.i = 1}}, odd = {"shifts", (stn_attr_type)17, {.i = 1}};
    const stn_kernel kernel = {.size = 3};
    char wanted[200];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, NULL, NULL, STN_DTYPE_F32, 2, (int64_t[]){4, 3}, NULL, test_value), *out;
    expect_refused(context, stn_call(context, "roll", 1, &x, 2, rolls, 1, &out),
                   "roll: 'shifts' got 2 numbers and 'dims' 1, wanted as many of both, or one shift without 'dims'");
    expect_refused(context, stn_call(context, "roll", 1, &x, 1, rolls, 1, &out),
                   "roll: 'shifts' got 2 numbers and 'dims' 0, wanted as many of both, or one shift without 'dims'");
    expect_refused(context, stn_call(context, "roll", 1, &x, 1, &nameless, 1, &out),
                   "roll: attribute '(NULL)' got type 1, wanted a name and a type of 0 to 7");
    expect_refused(context, stn_call(context, "roll", 1, &x, 1, &odd, 1, &out),
                   "roll: attribute 'shifts' got type 17, wanted a name and a type of 0 to 7");
    expect_refused(context, stn_call(context, "view", 1, &x, 0, NULL, 1, &out),
                   "view: 'shape' got nothing, wanted up to 8 sizes");
    expect_refused(context, stn_call(context, "reshape", 1, &x, 0, NULL, 1, &out),
                   "reshape: 'shape' got nothing, wanted up to 8 sizes");
    snprintf(wanted, sizeof wanted,
             "stn_kernel_register: the kernel got size 3, wanted %zu to %zu, a name, device and function",
             offsetof(stn_kernel, workspace), sizeof kernel);
    expect_refused(context, stn_kernel_register(context, &kernel), wanted);
    return stn_scope_end(context);
}

static void refusals_tell_what_they_got(void)
{
    test_ranks(1, told_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_op_in_place_keeps_its_input_when_no_output_is_asked_for",
         an_op_in_place_keeps_its_input_when_no_output_is_asked_for},
        {"outputs_that_nobody_asked_for_are_released_and_absent_ones_are_null",
         outputs_that_nobody_asked_for_are_released_and_absent_ones_are_null},
        {"arrays_that_are_missing_are_refused", arrays_that_are_missing_are_refused},
        {"refusals_tell_what_they_got", refusals_tell_what_they_got},
        {"parts_of_other_ops_are_not_called_by_name", parts_of_other_ops_are_not_called_by_name},
        {"the_list_has_the_ops_that_a_caller_may_call", the_list_has_the_ops_that_a_caller_may_call},
        {"their_handlers_and_kernels_are_set_by_name", their_handlers_and_kernels_are_set_by_name},
    };
    return TEST_MAIN(argc, argv, cases);
}
