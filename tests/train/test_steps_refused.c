/* What captured steps refuse: the same error on every rank, and the ranks can go on. */
#include "ranks.h"

#include "core/context/context.h"

#include <string.h>

enum { ROWS = 7, COLUMNS = 4 };

/* A capture in which one call is refused. */
struct refusal {
    const char *part; /* of the text */
    stn_status status;
    void (*call)(stn_context *context, stn_tensor *x);
};

static void reads_a_value(stn_context *context, stn_tensor *x)
{
    double value;
    (void)context;
    stn_item(stn_sum(x, 0, NULL, 0), &value);
}

static void reads_a_chunk(stn_context *context, stn_tensor *x)
{
    float chunk[ROWS * COLUMNS];
    (void)context;
    stn_to_host(x, chunk, (size_t)stn_spec_local_numel(stn_tensor_spec(x)) * sizeof *chunk);
}

static void copies_from_the_host(stn_context *context, stn_tensor *x)
{
    static const float zeros[ROWS * COLUMNS];
    stn_tensor_release(&(stn_tensor *){stn_from_host(context, stn_tensor_spec(x), zeros)});
}

static void agrees(stn_context *context, stn_tensor *x)
{
    (void)x;
    stn_agree(context, STN_OK, NULL);
}

static void selects(stn_context *context, stn_tensor *x)
{
    const int64_t n[] = {ROWS};
    const stn_spec *spec;
    stn_spec_create(context, stn_spec_mesh(stn_tensor_spec(x)), (const stn_placement[]){stn_shard(0)}, STN_DTYPE_I64, 1,
                    n, NULL, &spec);
    stn_index_select(x, 0, stn_zeros(context, spec));
    stn_spec_release(&spec);
}

static void goes_beside(stn_context *context, stn_tensor *x)
{
    stn_dist_request *request;
    (void)context;
    stn_dist_all_reduce_in_place(stn_to_local(x, STN_GRAD_PER_RANK), stn_spec_mesh(stn_tensor_spec(x)), STN_SUM,
                                 &request);
}

static void saves(stn_context *context, stn_tensor *x)
{
    stn_save(context, "/nowhere/x", 1, &(stn_named_tensor){"x", x}, 0, NULL);
}

static void loads(stn_context *context, stn_tensor *x)
{
    stn_load(context, "/nowhere/x", 1, &(stn_named_tensor){"x", x});
}

/* Ranks would tell each other of the streams of their meshes first. */
static void saves_a_run(stn_context *context, stn_tensor *x)
{
    stn_stats before = {.size = sizeof before}, after = before;
    (void)x;
    stn_context_stats(context, &before);
    stn_checkpoint_save(context, "/nowhere/x", &(stn_checkpoint){.size = sizeof(stn_checkpoint)});
    stn_context_stats(context, &after);
    CHECK_I64(after.collectives, before.collectives);
}

static void loads_a_run(stn_context *context, stn_tensor *x)
{
    (void)x;
    stn_checkpoint_load(context, "/nowhere/x", &(stn_checkpoint){.size = sizeof(stn_checkpoint)}, NULL);
}

static void waits(stn_context *context, stn_tensor *x)
{
    (void)x;
    CHECK_STATUS(stn_queue_sync(stn_context_queue(context)), STN_ERR_STATE);
}

static void adds_what_does_not_fit(stn_context *context, stn_tensor *x)
{
    (void)context;
    stn_add(x, stn_permute(x, 2, (const int[]){1, 0}));
}

static void begins_another(stn_context *context, stn_tensor *x)
{
    (void)x;
    stn_capture_begin(context);
}

static void takes_an_error(stn_context *context, stn_tensor *x)
{
    adds_what_does_not_fit(context, x);
    stn_context_take_error(context, NULL, 0);
}

static const struct refusal refusals[] = {
    {"to_host: not in a captured step", STN_ERR_STATE, reads_a_value},
    {"to_host: not in a captured step", STN_ERR_STATE, reads_a_chunk},
    {"from_host: not in a captured step", STN_ERR_STATE, copies_from_the_host},
    {"agree: not in a captured step", STN_ERR_STATE, agrees},
    {"indexing along a sharded dim: not in a captured step", STN_ERR_STATE, selects},
    {"dist_all_reduce_in_place: not in a captured step", STN_ERR_STATE, goes_beside},
    {"save: not in a captured step", STN_ERR_STATE, saves},
    {"load: not in a captured step", STN_ERR_STATE, loads},
    {"checkpoint: not in a captured step", STN_ERR_STATE, saves_a_run},
    {"checkpoint: not in a captured step", STN_ERR_STATE, loads_a_run},
    {"the host waited while a step is captured", STN_ERR_STATE, waits},
    {"add", STN_ERR_SHAPE, adds_what_does_not_fit},
    {"capture_begin: a step is being captured already", STN_ERR_STATE, begins_another},
    {"capture_end: an error was taken", STN_ERR_STATE, takes_an_error},
};

static stn_tensor *made(stn_context *context)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    const stn_placement placement = stn_shard(0);
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), &placement, STN_DTYPE_F32, 2, shape,
                       NULL, test_value);
}

/* A step that is captured and repeated as ever. */
static void check_works(stn_context *context, stn_tensor *x)
{
    stn_step *step = NULL;
    double want, got;
    stn_scope_begin(context);
    stn_item(stn_sum(x, 0, NULL, 0), &want);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_tensor *sum = stn_sum(x, 0, NULL, 0);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    CHECK_STATUS(stn_item(sum, &got), STN_OK);
    CHECK_NEAR(got, want, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_step_destroy(&step);
}

static void check_refusal(stn_context *context, const struct refusal *refusal, stn_tensor *x)
{
    stn_step *step = NULL;
    stn_scope_begin(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_mul_number_(x, 1);
    refusal->call(context, x);
    CHECK_STATUS(stn_capture_end(context, &step), refusal->status);
    CHECK(step == NULL);
    CHECK_ERROR_PART(context, refusal->status, refusal->part);
    stn_scope_end(context);
    check_works(context, x);
}

/* What is done with the result of an op, which keeps its gradient. */
struct keeping {
    void (*use)(stn_tensor *result);
    int is_of_before; /* the result */
};

static void goes_backward(stn_tensor *result)
{
    stn_tensor *loss = stn_sum(stn_mul(result, result), 0, NULL, 0);
    stn_backward_many(stn_tensor_context(result), 1, &loss, NULL, 1);
}

static void reads_its_gradient(stn_tensor *result)
{
    stn_tensor *gradient = NULL;
    stn_grad_of(result, &gradient);
}

static void forgets_its_gradient(stn_tensor *result)
{
    stn_zero_grad(result);
}

static stn_status keeping_body(stn_context *context, void *arg)
{
    const struct keeping *keeping = arg;
    stn_tensor *x = made(context), *result = NULL, *gradient = NULL;
    stn_step *step = NULL;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_scope_begin(context);
    for (int inside = 0; inside < 2; inside++) {
        if (inside)
            CHECK_STATUS(stn_capture_begin(context), STN_OK);
        if (!inside || !keeping->is_of_before)
            result = stn_mul_number(x, 2);
        CHECK_STATUS(stn_retain_grad(result), STN_OK);
        if (inside)
            keeping->use(result);
    }
    if (keeping->is_of_before) {
        CHECK_STATUS(stn_capture_end(context, &step), STN_ERR_STATE);
        CHECK_ERROR_PART(context, STN_ERR_STATE, "a gradient that a result of before keeps: not in a captured step");
    } else if (CHECK_STATUS(stn_capture_end(context, &step), STN_OK)) {
        stn_zero_grad(x);
        CHECK_STATUS(stn_step_run(step), STN_OK);
        CHECK_STATUS(stn_grad_of(result, &gradient), STN_OK);
        stn_tensor *rest = stn_sub(gradient, stn_mul_number(stn_detach(x), 4));
        double most = 1;
        CHECK_STATUS(stn_item(stn_sum(stn_abs(rest), 0, NULL, 0), &most), STN_OK);
        CHECK_NEAR(most, 0, 0);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_step_destroy(&step);
    stn_tensor_release(&x);
    return stn_context_status(context);
}

static void only_results_of_a_step_keep_gradients_in_it(void)
{
    test_worlds(keeping_body, &(struct keeping){goes_backward, 1});
    test_worlds(keeping_body, &(struct keeping){reads_its_gradient, 1});
    test_worlds(keeping_body, &(struct keeping){forgets_its_gradient, 1});
    test_worlds(keeping_body, &(struct keeping){goes_backward, 0});
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_tensor *x = made(context);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i].call != selects || stn_context_size(context) > 1)
            check_refusal(context, &refusals[i], x);
    stn_tensor_release(&x);
    return stn_context_status(context);
}

static void what_cannot_be_repeated_is_named(void)
{
    test_worlds(refusals_body, NULL);
}

/* Only the last rank fails; all of them are told at the end of the capture. */
static stn_status one_rank_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    stn_tensor *x = made(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_mul_number_(x, 1);
    if (stn_context_rank(context) == 2)
        stn_add(x, NULL);
    CHECK_STATUS(stn_capture_end(context, &step), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "rank 2: add");
    check_works(context, x);
    stn_tensor_release(&x);
    return stn_context_status(context);
}

static void one_ranks_failure_is_every_ranks(void)
{
    test_ranks(3, one_rank_body, NULL);
}

static stn_status states_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    stn_tensor *x = made(context);
    CHECK_STATUS(stn_capture_begin(NULL), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_capture_end(NULL, &step), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_step_run(NULL), STN_ERR_ARGUMENT);
    stn_step_destroy(NULL);
    stn_step_destroy(&step);
    CHECK_STATUS(stn_capture_end(context, &step), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "capture_end: no step is being captured");
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    CHECK_STATUS(stn_capture_end(context, NULL), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "capture_end: out got NULL");
    stn_tensor_release(&x);
    return stn_context_status(context);
}

/* The scope of the step has ended with it. */
static stn_status taken_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    stn_tensor *x = made(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_scope_begin(context);
    adds_what_does_not_fit(context, x);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_SHAPE);
    CHECK_STATUS(stn_capture_end(context, &step), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "the step is not complete: add: ");
    stn_tensor_release(&x);
    return stn_context_status(context);
}

static void an_error_that_a_scope_took_is_named_at_the_end(void)
{
    test_ranks(2, taken_body, NULL);
}

static void calls_out_of_place_are_refused(void)
{
    test_ranks(2, states_body, NULL);
}

/* Changed by a repetition, and so not what a node has kept. */
static stn_status versions_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    stn_tensor *x = made(context), *w = made(context);
    stn_scope_begin(context);
    stn_set_requires_grad(w, 1);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_mul_number_(x, 1);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    stn_tensor *loss = stn_sum(stn_mul(w, x), 0, NULL, 0);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    CHECK_STATUS(stn_backward(loss), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "in place");
    stn_scope_end(context);
    stn_step_destroy(&step);
    stn_tensor_release(&x);
    stn_tensor_release(&w);
    return stn_context_status(context);
}

static void what_a_repetition_changes_counts_as_changed(void)
{
    test_ranks(2, versions_body, NULL);
}

/* The optimizer is gone; a step of a context that is gone. */
static stn_step *orphan;

static stn_status gone_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    stn_optimizer *optimizer = NULL;
    stn_tensor *w = made(context);
    stn_set_requires_grad(w, 1);
    CHECK_STATUS(stn_adamw_create(context, NULL, &optimizer), STN_OK);
    const stn_named_tensor named = {"w", w};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_scope_begin(context);
    stn_backward(stn_sum(stn_mul(w, w), 0, NULL, 0));
    stn_optimizer_step(optimizer);
    stn_optimizer_zero_grad(optimizer);
    stn_scope_end(context);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    stn_optimizer_destroy(&optimizer);
    CHECK_STATUS(stn_step_run(step), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "step_run: the optimizer that the step was captured with was destroyed");
    stn_tensor_release(&w);
    orphan = step;
    return stn_context_status(context);
}

static void steps_of_what_is_gone_are_refused(void)
{
    orphan = NULL;
    test_ranks(1, gone_body, NULL);
    CHECK_STATUS(stn_step_run(orphan), STN_ERR_STATE);
    stn_step_destroy(&orphan);
    CHECK(orphan == NULL);
}

/* A communicator of the program's own is destroyed after the capture, or inside of it (`arg`). */
static stn_status left_comm_body(stn_context *context, void *arg)
{
    static const int all[] = {0, 1};
    const int is_inside = *(const int *)arg;
    stn_step *step = NULL;
    stn_comm *comm = NULL;
    stn_tensor *x = made(context);
    float *at = stn_tensor_data(x);
    CHECK_STATUS(stn_comm_subset(context->comm, all, 2, &comm), STN_OK);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    CHECK_STATUS(stn_comm_all_reduce(comm, at, at, COLUMNS, STN_DTYPE_F32, STN_SUM, NULL), STN_OK);
    stn_mul_number_(x, 0.5);
    if (is_inside)
        stn_comm_destroy(&comm);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    if (!is_inside)
        CHECK_STATUS(stn_step_run(step), STN_OK);
    stn_comm_destroy(&comm);
    CHECK_STATUS(stn_step_run(step), STN_ERR_STATE);
    CHECK_ERROR(context, STN_ERR_STATE, "step_run: the communicator of a captured all_reduce was destroyed");
    check_works(context, x);
    stn_step_destroy(&step);
    stn_tensor_release(&x);
    return stn_context_status(context);
}

static void steps_of_communicators_that_are_gone_are_refused(void)
{
    for (int is_inside = 0; is_inside < 2; is_inside++)
        test_ranks(2, left_comm_body, &is_inside);
}

/* A capture that nobody ends. */
static stn_status unended_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_tensor *x = made(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_mul_number_(x, 2);
    stn_tensor_release(&x);
    return stn_context_status(context);
}

static void a_capture_may_end_with_its_context(void)
{
    test_ranks(2, unended_body, NULL);
}

/* One rank leaves; the others' repetition fails with its text, and nobody hangs. */
static stn_status left_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_step *step = NULL;
    stn_tensor *x = made(context);
    stn_scope_begin(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_full_tensor(stn_sum(x, 0, NULL, 0));
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    stn_scope_end(context);
    stn_tensor_release(&x);
    if (stn_context_rank(context) == 1) {
        stn_step_destroy(&step);
        return STN_ERR_IO;
    }
    stn_step_run(step);
    stn_agree(context, STN_OK, NULL);
    CHECK_STATUS(stn_context_status(context), STN_ERR_PEER);
    CHECK(strstr(stn_context_error_text(context), "rank 1") != NULL);
    stn_step_destroy(&step);
    return STN_ERR_PEER;
}

static void a_rank_that_fails_ends_the_repetitions_of_all(void)
{
    CHECK_STATUS(test_launch(3, NULL, left_body, NULL), STN_ERR_IO);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_cannot_be_repeated_is_named", what_cannot_be_repeated_is_named},
        {"only_results_of_a_step_keep_gradients_in_it", only_results_of_a_step_keep_gradients_in_it},
        {"one_ranks_failure_is_every_ranks", one_ranks_failure_is_every_ranks},
        {"an_error_that_a_scope_took_is_named_at_the_end", an_error_that_a_scope_took_is_named_at_the_end},
        {"calls_out_of_place_are_refused", calls_out_of_place_are_refused},
        {"what_a_repetition_changes_counts_as_changed", what_a_repetition_changes_counts_as_changed},
        {"steps_of_what_is_gone_are_refused", steps_of_what_is_gone_are_refused},
        {"steps_of_communicators_that_are_gone_are_refused", steps_of_communicators_that_are_gone_are_refused},
        {"a_capture_may_end_with_its_context", a_capture_may_end_with_its_context},
        {"a_rank_that_fails_ends_the_repetitions_of_all", a_rank_that_fails_ends_the_repetitions_of_all},
    };
    return TEST_MAIN(argc, argv, cases);
}
