/* Memory runs out on one of several ranks, anywhere in a step of training, of the host's or of the device's: that
 * rank has a status and a text, its peers learn both from it long before the deadline, and nothing is leaked. Which
 * rank it is the schedule decides. */
#include "core/counted.h"
#include "ranks.h"

#include "core/context/context.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(__SANITIZE_THREAD__)
enum { STRIDE = 31 };
#else
enum { STRIDE = 5 };
#endif
enum { RANKS = 3 };

static const double deadline = 60, soon = 20; /* seconds */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct outcome {
    stn_status status;
    char text[512];
};

/* Columns of one operand meet rows of the other, so that ranks exchange and reduce both ways. */
static stn_status step(stn_context *context, stn_optimizer *optimizer)
{
    const int size = stn_context_size(context);
    const int64_t shape[] = {7, 7};
    const stn_mesh *mesh = NULL;
    double value;
    stn_status status = stn_mesh_create(context, 1, &size, NULL, NULL, &mesh);
    if (status != STN_OK)
        return status;
    stn_tensor *x = stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F64, "S0", 2, shape));
    stn_tensor *w = stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F64, "R", 2, shape));
    stn_set_requires_grad(w, 1);
    const stn_named_tensor named = {"w", w};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    stn_optimizer_add_group(optimizer, &group);
    stn_tensor *loss = stn_sum(stn_softmax(stn_matmul(stn_transpose(x, 0, 1), w), 0), 0, NULL, 0);
    stn_backward(loss);
    stn_optimizer_step(optimizer);
    stn_item(loss, &value);
    return stn_agree(context, STN_OK, NULL);
}

/* What a part of the step is recomputed from. */
static stn_status drop_some(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                            stn_tensor **outputs)
{
    (void)context, (void)user, (void)n_inputs, (void)n_outputs;
    outputs[0] = stn_dropout(stn_mul(inputs[0], inputs[1]), 0.5, 1);
    return STN_OK;
}

static void recomputed_backward(stn_context *context, stn_tensor *x, stn_tensor *w)
{
    stn_tensor *inputs[] = {x, w}, *y = NULL;
    stn_recompute(context, drop_some, NULL, NULL, 2, inputs, 1, &y);
    stn_backward(stn_sum(stn_mul(y, y), 0, NULL, 0));
}

/* A step that is captured while its parameter has a gradient, and repeated with one and without. */
static stn_status captured_step(stn_context *context, stn_optimizer *optimizer)
{
    const int size = stn_context_size(context);
    const int64_t shape[] = {7, 4};
    const stn_mesh *mesh = NULL;
    stn_step *repeated = NULL;
    stn_status status = stn_mesh_create(context, 1, &size, NULL, NULL, &mesh);
    if (status != STN_OK)
        return status;
    stn_tensor *x = stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F64, "S0", 2, shape));
    stn_tensor *w = stn_ones(context, stn_spec_of(mesh, STN_DTYPE_F64, "R", 2, shape));
    stn_set_requires_grad(w, 1);
    const stn_named_tensor named = {"w", w};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    stn_optimizer_add_group(optimizer, &group);
    recomputed_backward(context, x, w);
    stn_capture_begin(context);
    recomputed_backward(context, x, w);
    stn_optimizer_step(optimizer);
    status = stn_capture_end(context, &repeated);
    if (status == STN_OK) {
        stn_step_run(repeated);
        stn_zero_grad(w);
        stn_step_run(repeated);
        status = stn_agree(context, STN_OK, NULL);
    }
    stn_step_destroy(&repeated);
    return status;
}

static stn_status (*program)(stn_context *context, stn_optimizer *optimizer) = step;

static stn_status body(stn_context *context, void *arg)
{
    struct outcome *outcome = (struct outcome *)arg + stn_context_rank(context);
    stn_optimizer *optimizer = NULL;
    stn_scope_begin(context);
    outcome->status = stn_sgd_create(context, NULL, &optimizer);
    if (outcome->status == STN_OK)
        outcome->status = program(context, optimizer);
    stn_optimizer_destroy(&optimizer);
    const stn_status ended = stn_scope_end(context);
    if (outcome->status == STN_OK)
        outcome->status = ended;
    snprintf(outcome->text, sizeof outcome->text, "%s", stn_context_error_text(context));
    return outcome->status;
}

/* Whoever failed says what ran out; whoever was told names the rank. */
static void check_outcome(const struct outcome *outcome)
{
    int rank = -1, good;
    const char *who = strstr(outcome->text, "rank "); /* behind what the peer was doing, if anything */
    if (outcome->status == STN_ERR_PEER)
        good = CHECK(who && sscanf(who, "rank %d: ", &rank) == 1 && rank >= 0 && rank < RANKS);
    else
        good = CHECK(outcome->status == STN_ERR_MEMORY || outcome->status == STN_OK);
    if (outcome->status != STN_OK && (!CHECK(strstr(outcome->text, "memory") != NULL) || !good))
        fprintf(stderr, "%s: \"%s\"\n", stn_status_text(outcome->status), outcome->text);
}

/* 1: the n-th allocation lies behind the end. */
static int fails_at(int64_t n, int for_ever, int *failures)
{
    struct outcome outcomes[RANKS] = {{STN_OK, ""}};
    char text[512] = "";
    const stn_context_options options = {.size = sizeof options,
                                         .allocator = &counted_allocator,
                                         .deadline_seconds = deadline,
                                         .error_text = text,
                                         .error_text_size = sizeof text};
    const int64_t live = counted_live(), calls = counted_calls();
    const double begin = seconds();
    const stn_launch_options launch = {.size = sizeof launch, .ranks = RANKS, .context = options};
    counted_fail_at(n, for_ever);
    const stn_status status = stn_launch(&launch, body, outcomes);
    counted_fail_at(0, 0);
    const int ended = counted_calls() - calls < n;
    CHECK(status == STN_ERR_MEMORY || status == STN_OK);
    CHECK((status == STN_OK) == (text[0] == '\0'));
    for (int r = 0; r < RANKS; r++)
        check_outcome(&outcomes[r]);
    *failures += status != STN_OK;
    if (!CHECK(seconds() - begin < soon) || !CHECK_I64(counted_live(), live))
        fprintf(stderr, "allocation %lld: %g s, \"%s\"\n", (long long)n, seconds() - begin, text);
    return ended;
}

static void each_rank_knows_of_the_one_that_has_no_memory(void)
{
    int failures = 0;
    for (int64_t n = 1; !fails_at(n, 0, &failures); n += STRIDE)
        continue;
    CHECK(failures > 50);
}

static void each_rank_knows_of_the_one_that_has_no_memory_for_a_captured_step(void)
{
    int failures = 0;
    program = captured_step;
    for (int64_t n = 1; !fails_at(n, 0, &failures); n += STRIDE)
        continue;
    for (int64_t n = 4000; !fails_at(n, 0, &failures); n++) /* contexts come first */
        continue;
    program = step;
    CHECK(failures > 50);
}

static void all_ranks_end_when_none_has_memory(void)
{
    int failures = 0;
    for (int64_t n = 1; !fails_at(n, 1, &failures); n += 7 * STRIDE)
        continue;
    CHECK(failures > 10);
}

/* One rank, on which the n-th allocation of an attempt is the same in every run. */
struct attempt {
    stn_status (*call)(stn_context *context, stn_tensor *x);
    const char *(*said)(stn_context *context);
    int n;
    stn_status status;
};

static stn_status attempt_body(stn_context *context, void *arg)
{
    struct attempt *attempt = arg;
    const int64_t shape[] = {7};
    stn_scope_begin(context);
    stn_tensor *x = stn_ones(context, stn_spec_of(test_mesh(context, 1, 0), STN_DTYPE_F64, "R", 1, shape));
    counted_fail_at(attempt->n, 0);
    attempt->status = attempt->call(context, x);
    counted_fail_at(0, 0);
    if (attempt->status != STN_OK && !CHECK(strstr(attempt->said(context), "memory") != NULL))
        fprintf(stderr, "allocation %d: \"%s\"\n", attempt->n, attempt->said(context));
    stn_scope_end(context);
    stni_context_sync(context, STN_SYNC_CALLER); /* what the queue has left, which the launch would tell of */
    stn_context_take_error(context, NULL, 0);
    return STN_OK;
}

/* Whichever allocation fails, the text says what ran out. */
static void say_memory(struct attempt attempt)
{
    attempt.status = STN_ERR_MEMORY;
    while (attempt.status != STN_OK && attempt.n++ < 1000) {
        CHECK_STATUS(test_launch(1, NULL, attempt_body, &attempt), STN_OK);
        CHECK(attempt.status == STN_OK || attempt.status == STN_ERR_MEMORY);
    }
    CHECK(attempt.n > 1 && attempt.n < 1000);
}

static const char path[] = "runs-out.safetensors";

static stn_status save(stn_context *context, void *arg)
{
    const int64_t shape[] = {7};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = stn_ones(context, stn_spec_of(test_mesh(context, 1, 0), STN_DTYPE_F64, "R", 1, shape));
    const stn_named_tensor named = {"x", x};
    stn_save(context, path, 1, &named, 0, NULL);
    return stn_scope_end(context);
}

static stn_status load(stn_context *context, stn_tensor *x)
{
    const stn_named_tensor named = {"x", x};
    return stn_load(context, path, 1, &named);
}

static const char *context_text(stn_context *context)
{
    return stn_context_error_text(context);
}

static void a_load_says_that_memory_ran_out(void)
{
    CHECK_STATUS(test_launch(1, NULL, save, NULL), STN_OK);
    say_memory((struct attempt){.call = load, .said = context_text});
    CHECK_I64(remove(path), 0);
}

static stn_status all_reduce_beside(stn_context *context, stn_tensor *x)
{
    int64_t value = 1;
    stn_request *request = NULL;
    stn_comm *comm = stn_context_comm(context);
    const stn_status status = stn_comm_all_reduce(comm, &value, &value, 1, STN_DTYPE_I64, STN_SUM, &request);
    (void)x;
    return status == STN_OK ? stn_request_wait(&request) : status;
}

static const char *comm_text(stn_context *context)
{
    return stn_comm_error_text(stn_context_comm(context));
}

static void a_request_says_that_memory_ran_out(void)
{
    say_memory((struct attempt){.call = all_reduce_beside, .said = comm_text});
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"each_rank_knows_of_the_one_that_has_no_memory", each_rank_knows_of_the_one_that_has_no_memory},
        {"each_rank_knows_of_the_one_that_has_no_memory_for_a_captured_step",
         each_rank_knows_of_the_one_that_has_no_memory_for_a_captured_step},
        {"a_load_says_that_memory_ran_out", a_load_says_that_memory_ran_out},
        {"a_request_says_that_memory_ran_out", a_request_says_that_memory_ran_out},
        {"all_ranks_end_when_none_has_memory", all_ranks_end_when_none_has_memory},
    };
    return TEST_MAIN(argc, argv, cases);
}
