/* Calls by name and by handle, as frameworks make them: other numbers of inputs and outputs than the op has. */
#include "ranks.h"

#include <string.h>

static stn_tensor *numbers(stn_context *context, int64_t n)
{
    const stn_placement shard = stn_shard(0);
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), &shard, STN_DTYPE_F32, 1, &n, NULL, test_value);
}

static int64_t live_tensors(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.live_tensors;
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
    stn_tensor_release(&own);
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
} ops[] = {{"relu", 1, 1}, {"max", 1, 2}, {"unsqueeze", 1, 1}, {"split", 1, 2}, {"median", 1, 2}, {"dropout", 1, 1}, {"mul_", 2, 1}, {"logsumexp", 1, 1}};

static stn_status fewer_body(stn_context *context, void *arg)
{
    const stn_attr size = {"split_size", STN_ATTR_INT, {.i = 4}}, dim = {"dim", STN_ATTR_INT, {.i = 0}};
    (void)arg;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (int wanted = 0; wanted <= ops[k].n_outputs + 2; wanted++) {
            stn_tensor *out[4];
            stn_scope_begin(context);
            stn_tensor *in[] = {numbers(context, 7), numbers(context, 7)};
            int split = strcmp(ops[k].name, "split") == 0, plain = strcmp(ops[k].name, "max") && strcmp(ops[k].name, "median");
            int64_t before = live_tensors(context);
            int in_place = strcmp(ops[k].name, "mul_") == 0;
            CHECK_STATUS(stn_call(context, ops[k].name, ops[k].n_inputs, in, split || !plain, split ? &size : &dim, wanted, out), STN_OK);
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
    expect_refused(context, stn_call(context, "relu", -1, &x, 0, NULL, 1, &out), "relu: n_inputs got -1, wanted 0 or more");
    expect_refused(context, stn_op_apply(relu, 1, NULL, NULL, 1, &out), "relu: inputs is NULL, wanted 1 entries");
    expect_refused(context, stn_op_apply(relu, 1, &x, NULL, 1, NULL), "relu: outputs is NULL, wanted 1 entries");
    expect_refused(context, stn_op_invoke(relu, 1, &x, 0, NULL, -2, &out), "relu: n_outputs got -2, wanted 0 or more");
    expect_refused(context, stn_call(context, "softmax", 1, &x, 1, NULL, 1, &out), "softmax: attrs is NULL, wanted 1 entries");
    expect_refused(context, stn_call(context, "softmax", 1, &x, -1, &dim, 1, &out), "softmax: n_attrs got -1, wanted 0 or more");
    CHECK(stn_tensor_is_error(out));
    stn_tensor_release(&x);
    return STN_OK;
}

static void arrays_that_are_missing_are_refused(void)
{
    test_ranks(2, arrays_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_op_in_place_keeps_its_input_when_no_output_is_asked_for", an_op_in_place_keeps_its_input_when_no_output_is_asked_for},
        {"outputs_that_nobody_asked_for_are_released_and_absent_ones_are_null", outputs_that_nobody_asked_for_are_released_and_absent_ones_are_null},
        {"arrays_that_are_missing_are_refused", arrays_that_are_missing_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
