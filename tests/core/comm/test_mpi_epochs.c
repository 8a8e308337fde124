/* One job, many families: what a family that failed, or that ranks left at different times, has left behind is taken
 * by no later one. */
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum phase { NEVER, FORWARD, BACKWARD, REDISTRIBUTION, AGREEMENT, PHASE_COUNT };

struct plan {
    enum phase phase;
    int failing;
    int64_t rows, columns;
    double seconds; /* deadline; 0: 30 */
    int rank, size; /* found out */
    int products;   /* calls of mul so far */
    char text[256];
};

static stn_status launch(struct plan *plan, stn_rank_main rank_main)
{
    const stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context,
                    .module_path = getenv("STN_TEST_MODULES"),
                    .deadline_seconds = plan->seconds > 0 ? plan->seconds : 30,
                    .error_text = plan->text,
                    .error_text_size = sizeof plan->text},
    };
    plan->text[0] = '\0';
    plan->products = 0;
    return stn_launch(&options, rank_main, plan);
}

static void wait_seconds(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The device of one rank refuses all work from here on. */
static void refuse(stn_context *context, const struct plan *plan, enum phase phase)
{
    if (plan->phase == phase && plan->rank == plan->failing)
        stn_queue_fail(stn_context_queue(context), STN_ERR_DEVICE, "the fuse has blown");
}

/* Called once in forward and again in backward. */
static stn_status product(const stn_op *op, int n_inputs, stn_tensor *const *inputs, const void *attrs, int n_outputs,
                          stn_tensor **outputs, void *arg)
{
    struct plan *plan = arg;
    stn_context *context = stn_tensor_context(inputs[0]);
    refuse(context, plan, plan->products++ == 0 ? FORWARD : BACKWARD);
    return stn_op_apply(op, n_inputs, inputs, attrs, n_outputs, outputs);
}

/* loss = sum over i of a[i] b[i], a cut and b pending: messages in forward, backward, redistribution and agreement. */
static stn_status step(stn_context *context, struct plan *plan)
{
    const stn_placement cut = stn_shard(0), whole = stn_replicate();
    const int64_t shape[] = {plan->rows, plan->columns}, n = plan->rows * plan->columns;
    const stn_mesh *mesh = test_mesh(context, plan->size, 0);
    stn_tensor *a = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 2, shape, NULL, test_value), *grad = NULL;
    stn_tensor *b = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, shape, NULL, test_value);
    double loss = 0, want = 0, *got = malloc((size_t)n * sizeof *got);
    stn_set_requires_grad(b, 1);
    stn_tensor *sum = stn_sum(stn_mul(a, b), 0, NULL, 0);
    stn_item(sum, &loss);
    stn_backward(sum);
    refuse(context, plan, REDISTRIBUTION);
    stn_redistribute_to(a, &whole);
    refuse(context, plan, AGREEMENT);
    stn_agree(context, STN_OK, NULL);
    if (stn_context_status(context) == STN_OK && got && stn_grad_of(b, &grad) == STN_OK) {
        test_read(grad, got, n);
        for (int64_t i = 0; i < n; i++)
            want += test_value(i) * test_value(i);
        CHECK_NEAR(loss, want, 1e-12);
        for (int64_t i = 0; i < n && stn_context_status(context) == STN_OK; i += 1 + n / 64)
            CHECK_NEAR(got[i], test_value(i), 1e-15);
    }
    free(got);
    return stn_context_status(context);
}

static stn_status step_main(stn_context *context, void *arg)
{
    struct plan *plan = arg;
    plan->rank = stn_context_rank(context);
    plan->size = stn_context_size(context);
    test_set_rank(plan->rank);
    stn_handler_set(context, "mul", product, plan);
    stn_scope_begin(context);
    step(context, plan);
    return stn_scope_end(context);
}

static void launches_are_right(int times, int64_t rows, int64_t columns)
{
    for (int i = 0; i < times; i++) {
        struct plan plan = {.rows = rows, .columns = columns};
        if (!CHECK_STATUS(launch(&plan, step_main), STN_OK)) {
            fprintf(stderr, "launch %d: %s\n", i, plan.text);
            return;
        }
    }
}

static void after_a_refusal_in_any_phase_launches_are_right(void)
{
    for (int phase = FORWARD; phase < PHASE_COUNT; phase++)
        for (int large = 0; large < 2; large++) {
            struct plan plan = {
                .phase = (enum phase)phase, .failing = phase % 2, .rows = large ? 257 : 5, .columns = large ? 512 : 3};
            stn_status status = launch(&plan, step_main);
            if (plan.rank == plan.failing)
                CHECK_STATUS(status, STN_ERR_DEVICE);
            else
                CHECK(status == STN_ERR_PEER && strstr(plan.text, "the fuse has blown") != NULL);
            launches_are_right(3, 5, 3);
            launches_are_right(1, 257, 512);
        }
    launches_are_right(1000, 5, 3);
}

/* Rank 0 comes when rank 1 has given up and waits for it in its next launch. */
static void who_comes_when_others_have_given_up_is_refused_and_the_next_launch_works(void)
{
    struct plan plan = {.rows = 5, .columns = 3, .seconds = 0.5};
    struct plan first = {.rows = 5, .columns = 3};
    CHECK_STATUS(launch(&first, step_main), STN_OK);
    if (first.rank == 0)
        wait_seconds(1.5);
    else
        CHECK_STATUS(launch(&plan, step_main), STN_ERR_TIMEOUT);
    plan.seconds = 30;
    if (first.rank == 0) {
        CHECK_STATUS(launch(&plan, step_main), STN_ERR_PEER);
        if (!CHECK(strstr(plan.text, "given up") != NULL))
            fprintf(stderr, "%s\n", plan.text);
    }
    CHECK_STATUS(launch(&plan, step_main), STN_OK);
    launches_are_right(50, 5, 3);
}

/* Small messages that nobody takes. */
static stn_status wasteful_main(stn_context *context, void *arg)
{
    double value = 7;
    struct plan *plan = arg;
    test_set_rank(plan->rank = stn_context_rank(context));
    if (plan->rank != 0)
        return STN_OK;
    wait_seconds(0.002);
    return stn_comm_broadcast(stn_context_comm(context), &value, 1, STN_DTYPE_F64, 0, NULL);
}

static stn_status broadcasts_main(stn_context *context, void *arg)
{
    (void)arg;
    for (int i = 0; i < 4; i++) {
        double value = stn_context_rank(context) == 0 ? i : -1;
        CHECK_STATUS(stn_comm_broadcast(stn_context_comm(context), &value, 1, STN_DTYPE_F64, 0, NULL), STN_OK);
        CHECK_NEAR(value, i, 0);
    }
    return STN_OK;
}

static void messages_that_nobody_took_stay_with_their_family(void)
{
    for (int i = 0; i < 50; i++) {
        struct plan plan = {.seconds = 20};
        CHECK_STATUS(launch(&plan, wasteful_main), STN_OK);
        CHECK_STATUS(launch(&plan, broadcasts_main), STN_OK);
    }
}

static stn_status leaving_main(stn_context *context, void *arg)
{
    struct plan *plan = arg;
    test_set_rank(plan->rank = stn_context_rank(context));
    if (plan->rank == 1)
        return STN_OK;
    stn_status status = stn_comm_barrier(stn_context_comm(context), NULL);
    snprintf(plan->text, sizeof plan->text, "%s", stn_comm_error_text(stn_context_comm(context)));
    return status;
}

static void who_leaves_early_is_named_at_once(void)
{
    struct plan plan = {.seconds = 30};
    double began = now();
    stn_status status = launch(&plan, leaving_main);
    CHECK_STATUS(status, plan.rank == 1 ? STN_OK : STN_ERR_PEER);
    CHECK(now() - began < 15);
    if (plan.rank != 1 && !CHECK(strstr(plan.text, "rank 1 has destroyed its communicator") != NULL))
        fprintf(stderr, "%s\n", plan.text);
    launches_are_right(20, 5, 3);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"messages_that_nobody_took_stay_with_their_family", messages_that_nobody_took_stay_with_their_family},
        {"after_a_refusal_in_any_phase_launches_are_right", after_a_refusal_in_any_phase_launches_are_right},
        {"who_leaves_early_is_named_at_once", who_leaves_early_is_named_at_once},
        {"who_comes_when_others_have_given_up_is_refused_and_the_next_launch_works",
         who_comes_when_others_have_given_up_is_refused_and_the_next_launch_works},
    };
    return TEST_MAIN(argc, argv, cases);
}
