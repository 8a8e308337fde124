/* The walk of an op: cache, handlers, kernels, fallback, errors. */
#include "probe_ops.h"
#include "ranks.h"
#include "stats.h"

#include "dispatch/place_cache.h"

#include <string.h>

static stn_tensor *line(stn_context *context, const stn_mesh *mesh, const int64_t *sizes, int64_t n)
{
    stn_placement shard[] = {stn_shard(0)};
    const int64_t *const cut[] = {sizes};
    return test_tensor(context, mesh, mesh ? shard : NULL, STN_DTYPE_F32, 1, &n, mesh && sizes ? cut : NULL,
                       test_value);
}

static void check_scaled(stn_tensor *y, double factor, int64_t n)
{
    double got[64];
    test_read(y, got, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(got[i], factor * (float)test_value(i), 1e-6);
}

static stn_status repeat_body(stn_context *context, void *arg)
{
    struct probe_counts counts = {0};
    stn_op_desc desc = probe_scale(&counts);
    const stn_op *op;
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = line(context, mesh, NULL, 7), *y;
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(stn_op_invoke(op, 1, &x, 0, NULL, 1, &y), STN_OK);
    CHECK_I64(counts.check, 1);
    CHECK_I64(counts.place, 1);
    CHECK_I64(counts.run, 5);
    check_scaled(y, 2, 7);
    stn_attr three = {"factor", STN_ATTR_INT, {.i = 3}};
    CHECK_STATUS(stn_call(context, "probe_scale", 1, &x, 1, &three, 1, &y), STN_OK);
    CHECK_I64(counts.check, 2);
    check_scaled(y, 3, 7);
    return stn_scope_end(context);
}

static void check_and_place_run_once_per_distinct_call(void)
{
    test_ranks(1, repeat_body, NULL);
    test_ranks(3, repeat_body, NULL);
}

static stn_status crowd_body(stn_context *context, void *arg)
{
    enum { DISTINCT = STNI_PLACE_CACHE_MAX + 2 };
    struct probe_counts counts = {0};
    stn_op_desc desc = probe_scale(&counts);
    const stn_op *op;
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = line(context, NULL, NULL, 3), *y;
    stn_attr factor = {"factor", STN_ATTR_INT, {.i = 0}};
    for (; factor.value.i < DISTINCT; factor.value.i++)
        stn_op_invoke(op, 1, &x, 1, &factor, 1, &y);
    CHECK_I64(counts.place, DISTINCT);
    CHECK(HASH_COUNT(context->places->entries) <= STNI_PLACE_CACHE_MAX);
    factor.value.i = DISTINCT - 1; /* kept */
    stn_op_invoke(op, 1, &x, 1, &factor, 1, &y);
    CHECK_I64(counts.place, DISTINCT);
    check_scaled(y, DISTINCT - 1, 3);
    factor.value.i = 5; /* forgotten */
    stn_op_invoke(op, 1, &x, 1, &factor, 1, &y);
    CHECK_I64(counts.place, DISTINCT + 1);
    check_scaled(y, 5, 3);
    return stn_scope_end(context);
}

static void the_oldest_of_many_distinct_calls_are_placed_anew(void)
{
    test_ranks(1, crowd_body, NULL);
}

/* A handler that counts, calls the op that it serves (the built-in rule). */
static stn_status counting_handler(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                                   stn_tensor **out, void *arg)
{
    ++*(int *)arg;
    return stn_op_apply(op, n_in, in, attrs, n_out, out);
}

static stn_status failing_handler(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                                  stn_tensor **out, void *arg)
{
    (void)op, (void)n_in, (void)in, (void)attrs, (void)n_out, (void)out, (void)arg;
    return STN_ERR_IO;
}

static stn_status handler_body(stn_context *context, void *arg)
{
    struct probe_counts counts = {0};
    stn_op_desc desc = probe_scale(&counts);
    const stn_op *op;
    int by_name = 0, by_op = 0;
    (void)arg;
    CHECK_STATUS(stn_handler_set(context, "probe_scale", counting_handler, &by_name), STN_OK); /* before the op exists */
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = line(context, NULL, NULL, 5), *y;
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    CHECK_I64(by_name, 1);
    check_scaled(y, 2, 5);
    CHECK_STATUS(stn_op_set_handler(op, counting_handler, &by_op), STN_OK);
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    CHECK_I64(by_op, 1);
    CHECK_I64(by_name, 1);
    CHECK_STATUS(stn_handler_enable(context, "probe_scale", 0), STN_OK);
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    CHECK_I64(by_op, 1);
    CHECK_STATUS(stn_handler_enable(context, "probe_scale", 1), STN_OK);
    CHECK_STATUS(stn_handler_enable(context, NULL, 0), STN_OK);
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    CHECK_I64(by_op, 1);
    CHECK_STATUS(stn_handler_enable(context, NULL, 1), STN_OK);
    CHECK_STATUS(stn_op_set_handler(op, NULL, NULL), STN_OK);
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    CHECK_I64(by_name, 2);
    CHECK_STATUS(stn_scope_end(context), STN_OK);

    stn_scope_begin(context);
    x = line(context, NULL, NULL, 5);
    CHECK_STATUS(stn_op_set_handler(op, failing_handler, NULL), STN_OK);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &y), STN_ERR_CALLBACK);
    CHECK(stn_tensor_is_error(y));
    CHECK_STATUS(stn_scope_end(context), STN_ERR_CALLBACK);
    return STN_OK;
}

static void handlers_win_by_op_then_by_name_and_mean_the_builtin_rule_inside(void)
{
    test_ranks(1, handler_body, NULL);
}

static stn_status kernel_body(stn_context *context, void *arg)
{
    struct probe_counts counts = {0};
    stn_op_desc desc = probe_scale(&counts);
    const stn_op *op;
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = line(context, NULL, NULL, 5), *y;
    CHECK_STATUS(stn_kernel_register(context, &probe_scale_kernel_100), STN_OK);
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    check_scaled(y, 200, 5);
    CHECK_STATUS(stn_kernel_enable(context, "probe_scale.forward", 0), STN_OK);
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    check_scaled(y, 2, 5);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_kernel wrong = probe_scale_kernel_100;
    wrong.args_size++;
    CHECK_STATUS(stn_kernel_register(context, &wrong), STN_ERR_VERSION);
    stn_context_take_error(context, NULL, 0);
    wrong.name = "probe_scale.backward";
    CHECK_STATUS(stn_kernel_register(context, &wrong), STN_ERR_NOT_FOUND);
    stn_context_take_error(context, NULL, 0);
    return STN_OK;
}

static void kernels_are_replaced_and_switched(void)
{
    test_ranks(1, kernel_body, NULL);
}

/* Three rows of one slot: 2 x, 200 x for AVX2 and wider, 2 x for AVX-512. */
static stn_status rows_body(stn_context *context, void *arg)
{
    const enum stni_isa isa = *(const enum stni_isa *)arg;
    struct probe_counts counts = {0};
    stn_op_desc desc = probe_scale(&counts);
    stn_op_impl impl = *desc.impl;
    stn_kernel rows[] = {impl.kernels[0], probe_scale_kernel_100, impl.kernels[0]}, other = probe_scale_kernel_100;
    const stn_op *op;
    rows[1].name = rows[0].name;
    rows[1].device = "cpu/avx2";
    rows[2].device = "cpu/avx512";
    other.device = "cpu/sse9";
    impl.kernels = rows;
    impl.n_kernels = 3;
    desc.impl = &impl;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    CHECK_STATUS(stn_kernel_register(context, &other), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = line(context, NULL, NULL, 5), *y;
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    check_scaled(y, isa == STNI_ISA_AVX2 ? 200 : 2, 5);
    other.device = "cpu/avx2";
    CHECK_STATUS(stn_kernel_register(context, &other), STN_OK);
    stn_op_apply(op, 1, &x, NULL, 1, &y);
    check_scaled(y, isa >= STNI_ISA_AVX2 ? 200 : 2, 5);
    return stn_scope_end(context);
}

static void the_kernel_of_the_context_s_instruction_set_serves(void)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        const stn_context_options options = {.isa = stni_isa_name((enum stni_isa)isa)};
        if (stni_isa_is_built((enum stni_isa)isa))
            CHECK_STATUS(test_launch(1, &options, rows_body, &isa), STN_OK);
    }
}

static stn_status fallback_body(stn_context *context, void *arg)
{
    const int64_t *sizes = arg;
    const int64_t n = 9;
    stn_op_desc desc = probe_reverse();
    const stn_op *op;
    double got[9];
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = line(context, mesh, sizes, n), *y;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &y), STN_OK);
    CHECK(stn_tensor_spec(y) == stn_tensor_spec(x));
    stn_context_stats(context, &stats);
    CHECK_I64(stats.fallbacks, 1);
    test_read(y, got, n);
    for (int i = 0; i < n; i++)
        CHECK_NEAR(got[i], (float)test_value(n - 1 - i), 0);
    stn_tensor *cotangent = line(context, mesh, NULL, n), *grad;
    CHECK_STATUS(stn_backward_many(context, 1, &y, &cotangent, 0), STN_OK);
    CHECK_STATUS(stn_grad_of(x, &grad), STN_OK);
    CHECK(stn_tensor_spec(grad) == stn_tensor_spec(x));
    test_read(grad, got, n);
    for (int i = 0; i < n; i++)
        CHECK_NEAR(got[i], (float)test_value(n - 1 - i), 0);
    return stn_scope_end(context);
}

static void without_a_rule_the_fallback_serves_forward_and_backward(void)
{
    static const int64_t uneven[] = {5, 0, 4};
    test_ranks(1, fallback_body, NULL);
    test_ranks(2, fallback_body, NULL);
    test_ranks(3, fallback_body, (void *)uneven);
}

static stn_status pair_body(stn_context *context, void *arg)
{
    stn_op_desc desc = probe_pair();
    const stn_op *op;
    stn_tensor *out[3];
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = line(context, test_mesh(context, stn_context_size(context), 0), NULL, 7);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 3, out), STN_OK);
    CHECK(stn_tensor_spec(out[0]) == stn_tensor_spec(x));
    CHECK_I64(stn_tensor_ndim(out[1]), 0);
    CHECK(out[2] == NULL);
    double rows;
    CHECK_STATUS(stn_item(out[1], &rows), STN_OK);
    CHECK_NEAR(rows, 7, 0);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, out), STN_OK); /* the second is dropped */
    return stn_scope_end(context);
}

static void each_output_has_its_own_spec(void)
{
    test_ranks(2, pair_body, NULL);
}

/* Every failure: its status on every rank, its text, nothing sent, and the tensors still usable. */
static void expect_refused(stn_context *context, stn_status got, stn_status want, const char *text,
                           int64_t messages_before)
{
    stn_stats stats = {.size = sizeof stats};
    char kept[512];
    CHECK_STATUS(got, want);
    stn_context_take_error(context, kept, sizeof kept);
    CHECK_STR(kept, text);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.messages, messages_before);
}

static stn_status errors_body(stn_context *context, void *arg)
{
    struct probe_counts counts = {0};
    stn_op_desc desc = probe_scale(&counts);
    const stn_op *op, *again;
    stn_stats stats = {.size = sizeof stats};
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = line(context, mesh, NULL, 7), *y, *two[] = {x, x}, *none = NULL;
    const stn_spec *spec;
    const int64_t n = 3;
    stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, &n, NULL, &spec);
    stn_tensor *whole = stn_empty(context, spec);
    stn_spec_release(&spec);
    stn_context_stats(context, &stats);
    int64_t sent = stats.messages;
    expect_refused(context, stn_op_apply(op, 1, &none, NULL, 1, &y), STN_ERR_ARGUMENT,
                   "probe_scale: input 'input' is missing", sent);
    expect_refused(context, stn_op_apply(op, 2, two, NULL, 1, &y), STN_ERR_ARGUMENT,
                   "probe_scale: got 2 inputs, wanted at most 1", sent);
    expect_refused(context, stn_op_apply(op, 1, &whole, NULL, 1, &y), STN_ERR_DTYPE,
                   "probe_scale: input got i64, wanted f32", sent);
    expect_refused(context, stn_call(context, "probe_scael", 1, &x, 0, NULL, 1, &y), STN_ERR_NOT_FOUND,
                   "stn_call: no op 'probe_scael'; nearest is 'probe_scale'", sent);
    expect_refused(context, stn_op_register(context, &desc, &again), STN_ERR_STATE,
                   "stn_op_register: the name 'probe_scale' is taken", sent);
    stn_attr bad = {"facto", STN_ATTR_FLOAT, {.f = 1}};
    expect_refused(context, stn_op_invoke(op, 1, &x, 1, &bad, 1, &y), STN_ERR_ARGUMENT,
                   "probe_scale: no attribute 'facto'; nearest is 'factor'", sent);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &y), STN_OK);
    check_scaled(y, 2, 7);
    stn_tensor_release(&y);
    stn_tensor_release(&x);
    stn_tensor_release(&whole);
    return STN_OK;
}

static void bad_calls_are_refused_on_every_rank_before_anything_is_sent(void)
{
    test_ranks(1, errors_body, NULL);
    test_ranks(3, errors_body, NULL);
}

/* The error tensor of a failure that has been taken. */
static stn_tensor *old_error(stn_context *context)
{
    stn_tensor *none = NULL, *error;
    stn_op_apply(stn_op_find(context, "neg"), 1, &none, NULL, 1, &error);
    stn_context_take_error(context, NULL, 0);
    return error;
}

static void expect_add(stn_context *context, stn_tensor *a, stn_tensor *b, const stn_attr *other, stn_status want,
                       const char *text)
{
    stn_tensor *in[] = {a, b}, *y;
    CHECK_STATUS(stn_op_invoke(stn_op_find(context, "add"), 2, in, other ? 1 : 0, other, 1, &y), want);
    CHECK_STR(stn_context_error_text(context), text);
    stn_context_take_error(context, NULL, 0);
    stn_tensor_release(&y);
}

/* Each refused call has the specs of one that went through before, as far as it has any. */
static stn_status warm_body(stn_context *context, void *arg)
{
    stn_context *stranger;
    (void)arg;
    CHECK_STATUS(stn_context_create(NULL, &stranger), STN_OK);
    stn_tensor *x = line(context, NULL, NULL, 4), *theirs = line(stranger, NULL, NULL, 4), *error = old_error(context);
    const stn_attr two = {"other", STN_ATTR_INT, {.i = 2}};
    for (int i = 0; i < 2; i++) {
        expect_add(context, x, x, NULL, STN_OK, "");
        expect_add(context, x, NULL, &two, STN_OK, "");
    }
    expect_add(context, x, theirs, NULL, STN_ERR_ARGUMENT, "add: input 'other' belongs to another context");
    expect_add(context, theirs, x, NULL, STN_ERR_ARGUMENT, "add: input 'input' belongs to another context");
    expect_add(context, x, error, NULL, STN_ERR_STATE, "add: input 'other' is what an earlier failure returned");
    expect_add(context, x, error, &two, STN_ERR_STATE, "add: input 'other' is what an earlier failure returned");
    expect_add(context, error, x, NULL, STN_ERR_STATE, "add: input 'input' is what an earlier failure returned");
    expect_add(context, NULL, x, NULL, STN_ERR_ARGUMENT, "add: input 'input' is missing");
    expect_add(context, x, NULL, NULL, STN_ERR_ARGUMENT, "add: 'other' is missing, wanted a tensor or a number");
    expect_add(context, x, x, &two, STN_ERR_ARGUMENT, "add: 'other' got a tensor and a number, wanted one of them");
    expect_add(context, x, x, NULL, STN_OK, "");
    stn_tensor_release(&x);
    stn_tensor_release(&theirs);
    stn_context_destroy(&stranger);
    return STN_OK;
}

static void warm_calls_guard_their_inputs_as_the_first(void)
{
    test_ranks(1, warm_body, NULL);
}

static stn_status sticky_body(stn_context *context, void *arg)
{
    struct probe_counts counts = {0};
    stn_op_desc desc = probe_scale(&counts);
    const stn_op *op;
    stn_tensor *y, *z, *none = NULL;
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    stn_scope_begin(context);
    stn_tensor *x = line(context, NULL, NULL, 4);
    stn_op_apply(op, 1, &none, NULL, 1, &y);
    CHECK(stn_tensor_is_error(y));
    CHECK_STATUS(stn_op_apply(op, 1, &y, NULL, 1, &z), STN_ERR_ARGUMENT); /* the first failure, not a new one */
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &z), STN_ERR_ARGUMENT);
    CHECK_I64(counts.run, 0);
    CHECK_STATUS(stn_backward(x), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_ARGUMENT);
    stn_scope_begin(context);
    x = line(context, NULL, NULL, 4);
    CHECK_STATUS(stn_op_apply(op, 1, &x, NULL, 1, &y), STN_OK);
    CHECK_I64(counts.run, 1);
    return stn_scope_end(context);
}

static void the_first_failure_stays_until_the_outermost_scope_ends(void)
{
    test_ranks(1, sticky_body, NULL);
}

/* What one redistribution of `pending` sends. */
static stn_stats sent_by_one_move(stn_context *context, stn_tensor *pending)
{
    const stn_placement replicate = stn_replicate();
    const int64_t n = stn_tensor_shape(pending)[0];
    const stn_spec *whole;
    CHECK_STATUS(stn_spec_create(context, stn_spec_mesh(stn_tensor_spec(pending)), &replicate, STN_DTYPE_F32, 1, &n,
                                 NULL, &whole),
                 STN_OK);
    test_stats_reset(context);
    stn_redistribute(pending, whole);
    stn_spec_release(&whole);
    return test_stats_reset(context);
}

static stn_status twice_body(stn_context *context, void *arg)
{
    const stn_placement partial = stn_partial(STN_SUM);
    const int64_t n = 7;
    double got[7];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *p = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &partial, STN_DTYPE_F32, 1,
                                &n, NULL, test_value);
    CHECK_STATUS(stn_set_requires_grad(p, 1), STN_OK);
    const stn_stats once = sent_by_one_move(context, p);
    stn_tensor *square = stn_mul(p, p);
    const stn_stats stats = test_stats_reset(context);
    CHECK(once.messages > 0);
    CHECK_I64(stats.messages, once.messages);
    CHECK_I64(stats.bytes_sent, once.bytes_sent);
    test_read(square, got, n);
    for (int i = 0; i < n; i++)
        CHECK_NEAR(got[i], test_value(i) * test_value(i), 1e-6);
    CHECK_STATUS(stn_backward(stn_sum(square, 0, NULL, 0)), STN_OK);
    stn_tensor *grad;
    CHECK_STATUS(stn_grad_of(p, &grad), STN_OK);
    check_scaled(grad, 2, n);
    return stn_scope_end(context);
}

static void an_input_that_stands_twice_is_moved_once(void)
{
    test_ranks(2, twice_body, NULL);
    test_ranks(3, twice_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"check_and_place_run_once_per_distinct_call", check_and_place_run_once_per_distinct_call},
        {"the_oldest_of_many_distinct_calls_are_placed_anew", the_oldest_of_many_distinct_calls_are_placed_anew},
        {"handlers_win_by_op_then_by_name_and_mean_the_builtin_rule_inside",
         handlers_win_by_op_then_by_name_and_mean_the_builtin_rule_inside},
        {"kernels_are_replaced_and_switched", kernels_are_replaced_and_switched},
        {"the_kernel_of_the_context_s_instruction_set_serves", the_kernel_of_the_context_s_instruction_set_serves},
        {"without_a_rule_the_fallback_serves_forward_and_backward",
         without_a_rule_the_fallback_serves_forward_and_backward},
        {"each_output_has_its_own_spec", each_output_has_its_own_spec},
        {"bad_calls_are_refused_on_every_rank_before_anything_is_sent",
         bad_calls_are_refused_on_every_rank_before_anything_is_sent},
        {"warm_calls_guard_their_inputs_as_the_first", warm_calls_guard_their_inputs_as_the_first},
        {"the_first_failure_stays_until_the_outermost_scope_ends",
         the_first_failure_stays_until_the_outermost_scope_ends},
        {"an_input_that_stands_twice_is_moved_once", an_input_that_stands_twice_is_moved_once},
    };
    return TEST_MAIN(argc, argv, cases);
}
