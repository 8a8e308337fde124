/* What stn_redistribute and stn_gather_to give where nothing has to move lies in its source's memory until one of the
 * two changes. Whoever goes on to use an address then would not notice: each case gives on one rank, where nothing
 * moves, what it gives on three. */
#include "ranks.h"

#include "core/tensor/dlpack.h"

#include <string.h>

enum { N = 7, SUM = 28 /* 1 + 2 + … + 7 */, MANY = 300000 };

struct pair {
    stn_context *context;
    const stn_spec *rows, *whole;
    stn_tensor *x, *z; /* the same values; z is whole on every rank */
};

static stn_tensor *redistributed(const struct pair *p)
{
    return stn_redistribute(p->x, p->whole);
}

static struct pair begin(stn_context *context)
{
    const int64_t shape[] = {N};
    const float values[N] = {1, 2, 3, 4, 5, 6, 7};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    struct pair p = {.context = context};
    p.rows = stn_spec_of(mesh, STN_DTYPE_F32, "S0", 1, shape);
    p.whole = stn_spec_of(mesh, STN_DTYPE_F32, "R", 1, shape);
    p.x = stn_from_host_global(context, p.rows, values);
    p.z = redistributed(&p);
    return p;
}

/* One more in each element. */
static void add_one(stn_tensor *t)
{
    CHECK(stn_add_(t, stn_ones(stn_tensor_context(t), stn_tensor_spec(t)), 1) == t);
}

static void check_sum(stn_tensor *t, double wanted)
{
    double got = 0;
    CHECK_STATUS(stn_item(stn_sum(t, 0, NULL, 0), &got), STN_OK);
    CHECK_NEAR(got, wanted, 0);
}

static void repeat(stn_context *context, stn_step *step, int times)
{
    (void)context;
    for (int i = 0; i < times; i++)
        CHECK_STATUS(stn_step_run(step), STN_OK);
}

/* What a step changes is changed by each repetition, and what it does not is not. */
static stn_status changed_in_step_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int source = 0; source < 2; source++) {
        struct pair p = begin(context);
        stn_step *step = NULL;
        CHECK_STATUS(stn_capture_begin(context), STN_OK);
        add_one(source ? p.x : p.z);
        CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
        repeat(context, step, 2);
        check_sum(p.x, source ? SUM + 3 * N : SUM);
        check_sum(p.z, source ? SUM : SUM + 3 * N);
        stn_step_destroy(&step);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_step_changes_one_of_two(void)
{
    test_ranks(1, changed_in_step_body, NULL);
    test_ranks(3, changed_in_step_body, NULL);
}

/* The input of a step, filled between repetitions. */
static stn_status filled_body(stn_context *context, void *arg)
{
    struct pair p = begin(context);
    stn_tensor *out = stn_zeros(context, p.whole);
    stn_step *step = NULL;
    (void)arg;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_copy_(out, stn_mul_number(p.z, 2));
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    stn_copy_(p.z, stn_full(context, p.whole, 100));
    repeat(context, step, 1);
    check_sum(out, 2 * 100 * N);
    check_sum(p.x, SUM);
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void an_input_of_a_step_may_be_filled(void)
{
    test_ranks(1, filled_body, NULL);
    test_ranks(3, filled_body, NULL);
}

/* A redistribution that is a step's result is made anew by each repetition. */
static stn_status result_body(stn_context *context, void *arg)
{
    struct pair p = begin(context);
    stn_step *step = NULL;
    (void)arg;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *z = redistributed(&p);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    add_one(p.x);
    check_sum(z, SUM);
    repeat(context, step, 1);
    check_sum(z, SUM + N);
    add_one(z);
    check_sum(p.x, SUM + N);
    repeat(context, step, 1);
    check_sum(z, SUM + N);
    stn_step_destroy(&step);
    return stn_scope_end(context);
}

static void a_result_of_a_step_is_written_by_each_repetition(void)
{
    test_ranks(1, result_body, NULL);
    test_ranks(3, result_body, NULL);
}

static stn_status exported_body(stn_context *context, void *arg)
{
    struct pair p = begin(context);
    struct DLManagedTensorVersioned *exported = NULL;
    (void)arg;
    CHECK_STATUS(stn_tensor_to_dlpack(p.z, &exported), STN_OK);
    if (exported) {
        const float *data = exported->dl_tensor.data;
        add_one(p.x);
        CHECK_NEAR(data[0], 1, 0);
        add_one(p.z);
        CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_OK);
        CHECK_NEAR(data[0], 2, 0);
        exported->deleter(exported);
    }
    return stn_scope_end(context);
}

static void an_export_is_of_its_tensor_for_good(void)
{
    test_ranks(1, exported_body, NULL);
    test_ranks(3, exported_body, NULL);
}

/* One that is sent while what it came of is changed. */
static stn_status sent_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {MANY};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    const stn_spec *rows = stn_spec_of(mesh, STN_DTYPE_F64, "S0", 1, shape);
    stn_tensor *x = stn_ones(context, rows), *z = stn_redistribute(x, rows);
    stn_tensor *whole = stn_redistribute_begin(z, stn_spec_of(mesh, STN_DTYPE_F64, "R", 1, shape));
    stn_mul_number_(x, 2);
    CHECK_STATUS(stn_redistribute_wait(whole), STN_OK);
    check_sum(whole, MANY);
    return stn_scope_end(context);
}

static void what_is_under_way_is_what_it_was(void)
{
    test_ranks(1, sent_body, NULL);
    test_ranks(3, sent_body, NULL);
}

/* It may be changed, whatever becomes of an immutable source; and versions are the same on ranks that have no part. */
static stn_status frozen_body(stn_context *context, void *arg)
{
    (void)arg;
    struct pair p = begin(context);
    CHECK_STATUS(stn_tensor_freeze(p.x), STN_OK);
    stn_tensor *z = redistributed(&p);
    CHECK_STATUS(stn_scope_end_keep(context, z, &z), STN_OK);
    CHECK(!stn_tensor_is_frozen(z));
    stn_scope_begin(context);
    add_one(z);
    check_sum(z, SUM + N);
    CHECK(!stn_tensor_is_frozen(z));
    stn_tensor_release(&z);
    return stn_scope_end(context);
}

static void of_an_immutable_one_it_may_be_changed(void)
{
    test_ranks(1, frozen_body, NULL);
    test_ranks(3, frozen_body, NULL);
}

static stn_status versions_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {4};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = stn_ones(context, stn_spec_of(test_mesh(context, 1, 0), STN_DTYPE_F32, "R", 1, shape));
    stn_mul_number_(x, 2);
    stn_tensor *z = stn_gather_to(x, 0), *w = stn_detach(stn_mul_number(z, 3));
    CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
    stn_tensor *loss = stn_sum(stn_mul(w, z), 0, NULL, 0);
    stn_mul_number_(x, 2);
    CHECK_STATUS(stn_backward(loss), STN_OK);
    return stn_scope_end(context);
}

static void versions_are_those_of_all_ranks(void)
{
    test_ranks(3, versions_body, NULL);
}

/* It is no view to whoever wants memory of its own. */
static stn_status no_view_body(stn_context *context, void *arg)
{
    const stn_sgd_options sgd = {.size = sizeof sgd, .rate = 0.1};
    stn_optimizer *optimizer = NULL;
    stn_average *average = NULL;
    (void)arg;
    struct pair p = begin(context);
    const stn_named_tensor named = {"z", p.z};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    CHECK_STATUS(stn_set_requires_grad(p.z, 1), STN_OK);
    CHECK_STATUS(stn_sgd_create(context, &sgd, &optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    stn_optimizer_destroy(&optimizer);
    const stn_named_tensor other = {"z", redistributed(&p)};
    CHECK_STATUS(stn_average_create(context, 1, &other, &average), STN_OK);
    stn_average_destroy(&average);
    stn_tensor *local = stn_gather_to(p.x, 0);
    CHECK_STATUS(stn_dist_all_reduce_in_place(local, test_mesh(context, 1, 0), STN_SUM, NULL), STN_OK);
    check_sum(p.x, SUM);
    return stn_scope_end(context);
}

static void it_is_no_view(void)
{
    test_ranks(1, no_view_body, NULL);
}

/* An op made of others that gives a tensor, and what lies in its memory. */
static stn_status compose_both(stn_op_call *call)
{
    call->out[0] = stn_mul_number(call->in[0], 2);
    call->out[1] = stn_redistribute(call->out[0], stn_tensor_spec(call->out[0]));
    call->out[2] = stn_narrow(call->out[0], 0, 0, N);
    return stn_context_status(call->context);
}

static stn_status composed_body(stn_context *context, void *arg)
{
    static const stn_input_schema inputs[] = {{.name = "x"}};
    static const stn_op_impl impl = {.compose = compose_both};
    static const stn_op_desc desc = {
        .size = sizeof desc, .name = "twice_and_again", .inputs = inputs, .n_inputs = 1, .n_outputs = 3, .impl = &impl};
    const stn_op *op;
    stn_tensor *out[3];
    (void)arg;
    CHECK_STATUS(stn_op_register(context, &desc, &op), STN_OK);
    struct pair p = begin(context);
    CHECK_STATUS(stn_op_apply(op, 1, &p.x, NULL, 3, out), STN_OK);
    for (int changed = 0; changed < 3; changed++) {
        add_one(out[changed]);
        for (int k = 0; k < 3; k++)
            check_sum(out[k], 2 * SUM + (k <= changed ? N : 0));
    }
    return stn_scope_end(context);
}

static void results_of_an_op_have_memory_of_their_own(void)
{
    test_ranks(1, composed_body, NULL);
    test_ranks(3, composed_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_step_changes_one_of_two", a_step_changes_one_of_two},
        {"an_input_of_a_step_may_be_filled", an_input_of_a_step_may_be_filled},
        {"a_result_of_a_step_is_written_by_each_repetition", a_result_of_a_step_is_written_by_each_repetition},
        {"an_export_is_of_its_tensor_for_good", an_export_is_of_its_tensor_for_good},
        {"what_is_under_way_is_what_it_was", what_is_under_way_is_what_it_was},
        {"of_an_immutable_one_it_may_be_changed", of_an_immutable_one_it_may_be_changed},
        {"versions_are_those_of_all_ranks", versions_are_those_of_all_ranks},
        {"it_is_no_view", it_is_no_view},
        {"results_of_an_op_have_memory_of_their_own", results_of_an_op_have_memory_of_their_own},
    };
    return TEST_MAIN(argc, argv, cases);
}
