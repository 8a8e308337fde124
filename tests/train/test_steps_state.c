/* Captured steps and what the library keeps between steps: gradients, random numbers, averages. Repeated, a step
 * leaves of these what a step that is called leaves, or is refused. */
#include "ranks.h"

#include <string.h>

enum { ROWS = 7, COLUMNS = 4, STEPS = 5 };

static stn_tensor *made(stn_context *context, stn_placement placement, double (*value)(int64_t i))
{
    const int64_t shape[] = {ROWS, COLUMNS}, uneven[] = {4, 0, 3};
    const int64_t *sizes[STN_MAX_NDIM] = {NULL};
    const int n = stn_context_size(context);
    const stn_placement placements[] = {placement, stn_replicate()};
    if (n == 3 && placement.kind == STN_PLACE_SHARD)
        sizes[0] = uneven;
    return test_tensor(context, n == 6 ? test_mesh(context, 2, 3) : test_mesh(context, n, 0), placements, STN_DTYPE_F32,
                       2, shape, sizes, value);
}

static double other_value(int64_t i)
{
    return 0.5 * test_value(i + 77);
}

static void check_same(stn_tensor *got, stn_tensor *want)
{
    const int64_t n = stn_spec_local_numel(stn_tensor_spec(want));
    float a[ROWS * COLUMNS], b[ROWS * COLUMNS];
    const size_t bytes = (size_t)n * sizeof *a;
    if (!CHECK(!stn_tensor_is_error(got)) || n == 0)
        return;
    CHECK_STATUS(stn_to_host(got, a, bytes), STN_OK);
    CHECK_STATUS(stn_to_host(want, b, bytes), STN_OK);
    CHECK_BYTES(a, b, bytes);
}

/* A parameter, its data, and what trains it. */
struct model {
    stn_context *context;
    stn_tensor *x, *w;
    stn_optimizer *optimizer;
    stn_average *average;
};

static struct model model_of(stn_context *context)
{
    struct model m = {.context = context,
                      .x = made(context, stn_shard(0), test_value),
                      .w = made(context, stn_replicate(), other_value)};
    const stn_sgd_options options = {.size = sizeof options, .rate = 0.1, .momentum = 0.9};
    const stn_named_tensor named = {"w", m.w};
    const stn_parameter_group group = {.size = sizeof group, .n = 1, .parameters = &named};
    CHECK_STATUS(stn_set_requires_grad(m.w, 1), STN_OK);
    CHECK_STATUS(stn_sgd_create(context, &options, &m.optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(m.optimizer, &group), STN_OK);
    CHECK_STATUS(stn_average_create(context, 1, &named, &m.average), STN_OK);
    return m;
}

static void release(struct model *m)
{
    stn_average_destroy(&m->average);
    stn_optimizer_destroy(&m->optimizer);
    stn_tensor_release(&m->x);
    stn_tensor_release(&m->w);
}

/* d/dw = 2 x^2 w */
static void backward(struct model *m)
{
    stn_scope_begin(m->context);
    stn_tensor *y = stn_mul(m->x, m->w);
    stn_backward(stn_sum(stn_mul(y, y), 0, NULL, 0));
    CHECK_STATUS(stn_scope_end(m->context), STN_OK);
}

/* One step in parts: outside before, captured, outside after. */
struct routine {
    void (*before)(struct model *m, int step);
    void (*captured)(struct model *m);
    void (*after)(struct model *m, int step);
};

static void check_gradients(struct model *got, struct model *want)
{
    stn_tensor *a = NULL, *b = NULL;
    CHECK_STATUS(stn_grad_of(got->w, &a), STN_OK);
    CHECK_STATUS(stn_grad_of(want->w, &b), STN_OK);
    if (CHECK((a == NULL) == (b == NULL)) && a != NULL)
        check_same(a, b);
}

static stn_status compare_body(stn_context *context, void *arg)
{
    const struct routine *routine = arg;
    struct model called = model_of(context), captured = model_of(context);
    stn_step *step = NULL;
    for (int s = 0; s < STEPS; s++) {
        if (routine->before)
            routine->before(&called, s);
        routine->captured(&called);
        if (routine->before)
            routine->before(&captured, s);
        if (s == 0)
            routine->captured(&captured);
        else if (s == 1) {
            CHECK_STATUS(stn_capture_begin(context), STN_OK);
            routine->captured(&captured);
            if (!CHECK_STATUS(stn_capture_end(context, &step), STN_OK))
                break;
        } else
            CHECK_STATUS(stn_step_run(step), STN_OK);
        check_gradients(&captured, &called);
        check_same(captured.w, called.w);
        check_same(stn_average_at(captured.average, 0).tensor, stn_average_at(called.average, 0).tensor);
        if (routine->after) {
            routine->after(&called, s);
            routine->after(&captured, s);
        }
    }
    check_same(captured.w, called.w);
    CHECK_I64(stn_optimizer_steps(captured.optimizer), stn_optimizer_steps(called.optimizer));
    stn_step_destroy(&step);
    release(&called);
    release(&captured);
    return stn_context_status(context);
}

static void compare(struct routine routine)
{
    test_worlds(compare_body, &routine);
}

/* Gradients that the caller sees to */

static void forget(struct model *m, int step)
{
    (void)step;
    CHECK_STATUS(stn_optimizer_zero_grad(m->optimizer), STN_OK);
}

static void step_alone(struct model *m, int step)
{
    (void)step;
    CHECK_STATUS(stn_optimizer_step(m->optimizer), STN_OK);
}

static void gradients_that_a_step_leaves_are_the_leaves_own(void)
{
    compare((struct routine){forget, backward, step_alone});
}

static void step_and_forget(struct model *m, int step)
{
    if (step % 2 == 0)
        return;
    step_alone(m, step);
    forget(m, step);
}

static void gradients_of_several_repetitions_add_up(void)
{
    compare((struct routine){NULL, backward, step_and_forget});
}

static void whole(struct model *m)
{
    forget(m, 0);
    backward(m);
    step_alone(m, 0);
}

/* The gradients of the step before are used first. */
static void late(struct model *m)
{
    step_alone(m, 0);
    forget(m, 0);
    backward(m);
}

static void a_step_may_begin_with_gradients_of_before(void)
{
    compare((struct routine){NULL, late, NULL});
}

/* Others add to the gradients between repetitions, and clip them. */
static void add_and_clip(struct model *m, int step)
{
    (void)step;
    backward(m);
    CHECK_STATUS(stn_clip_grad_norm(m->context, 1, &m->w, 2, NULL), STN_OK);
}

static void gradients_of_others_are_added_to(void)
{
    compare((struct routine){add_and_clip, backward, step_and_forget});
}

static void overlapped(struct model *m)
{
    stn_set_grad_overlap(m->context, 1);
    backward(m);
    stn_set_grad_overlap(m->context, 0);
}

static void gradients_reduced_beside_add_up_too(void)
{
    compare((struct routine){NULL, overlapped, step_and_forget});
}

static void two_backwards(struct model *m)
{
    stn_no_sync_begin(m->context);
    backward(m);
    stn_no_sync_end(m->context);
    backward(m);
}

static void what_pends_inside_is_completed_inside(void)
{
    compare((struct routine){NULL, two_backwards, step_and_forget});
}

static void a_step_may_begin_by_forgetting(void)
{
    compare((struct routine){NULL, whole, NULL});
}

/* Rates, clips, averages */

static void set_rate(struct model *m, int step)
{
    stn_optimizer_set_rate_factor(m->optimizer, 1.0 / (1 + step));
}

static void clipped(struct model *m)
{
    backward(m);
    CHECK_STATUS(stn_clip_grad_norm(m->context, 1, &m->w, 0.5, NULL), STN_OK);
    step_alone(m, 0);
    CHECK_STATUS(stn_average_update(m->average, 0.75), STN_OK);
    forget(m, 0);
}

static void rates_are_those_of_the_repetition(void)
{
    compare((struct routine){set_rate, clipped, NULL});
}

/* Random numbers of what is computed twice */

static stn_status drop_some(stn_context *context, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                            stn_tensor **outputs)
{
    (void)context, (void)user, (void)n_inputs, (void)n_outputs;
    outputs[0] = stn_tanh(stn_dropout(stn_mul(inputs[0], inputs[1]), 0.5, 1));
    return STN_OK;
}

static void recomputed(struct model *m)
{
    stn_tensor *inputs[] = {m->x, m->w}, *y = NULL;
    stn_scope_begin(m->context);
    stn_recompute(m->context, drop_some, NULL, NULL, 2, inputs, 1, &y);
    stn_backward(stn_sum(stn_mul(y, y), 0, NULL, 0));
    CHECK_STATUS(stn_scope_end(m->context), STN_OK);
    step_alone(m, 0);
    forget(m, 0);
}

static void same_numbers(struct model *m, int step)
{
    stn_context_set_random_state(m->context, 3, (uint64_t)step * 10);
    (void)m;
}

static void what_is_recomputed_draws_the_same_numbers(void)
{
    compare((struct routine){same_numbers, recomputed, NULL});
}

static stn_status stream_body(stn_context *context, void *arg)
{
    (void)arg;
    struct model m = model_of(context);
    stn_step *step = NULL;
    uint64_t seed, stream[3];
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_context_random_state(context, &seed, &stream[0]);
    recomputed(&m);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    stn_context_random_state(context, &seed, &stream[1]);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    stn_context_random_state(context, &seed, &stream[2]);
    CHECK_I64((int64_t)(stream[2] - stream[1]), (int64_t)(stream[1] - stream[0]));
    stn_step_destroy(&step);
    release(&m);
    return stn_context_status(context);
}

static void a_repetition_draws_as_often_as_a_step(void)
{
    test_worlds(stream_body, NULL);
}

/* What cannot go on */

/* Captured without a gradient: there must be none. */
static stn_status stale_body(stn_context *context, void *arg)
{
    (void)arg;
    struct model m = model_of(context);
    stn_step *step = NULL;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    backward(&m);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    CHECK_STATUS(stn_step_run(step), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "has a gradient and had none");
    forget(&m, 0);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    release(&m);
    stn_step_destroy(&step);
    return stn_context_status(context);
}

static void a_gradient_that_would_be_lost_is_refused(void)
{
    test_worlds(stale_body, NULL);
}

static void pend(struct model *m)
{
    stn_no_sync_begin(m->context);
    backward(m);
    stn_no_sync_end(m->context);
}

/* `arg` says where the gradient is pending: when the capture begins, when it ends, when it is repeated. */
static stn_status pending_body(stn_context *context, void *arg)
{
    static const char *const texts[] = {"not in a captured step", "capture_end: the step leaves a gradient",
                                        "step_run: gradient 0 of 1"};
    const int at = *(const int *)arg;
    struct model m = model_of(context);
    stn_step *step = NULL;
    if (at == 0)
        pend(&m);
    stn_scope_begin(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    if (at == 1)
        stn_no_sync_begin(context);
    stn_backward(stn_sum(stn_mul(m.x, m.w), 0, NULL, 0));
    if (at == 1)
        stn_no_sync_end(context);
    stn_status status = stn_capture_end(context, &step);
    if (at == 2 && CHECK_STATUS(status, STN_OK)) {
        forget(&m, 0);
        pend(&m);
        status = stn_step_run(step);
    }
    CHECK_STATUS(status, STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, texts[at]);
    forget(&m, 0);
    stn_scope_end(context);
    stn_step_destroy(&step);
    release(&m);
    return stn_context_status(context);
}

static void gradients_that_pend_are_refused(void)
{
    for (int at = 0; at < 3; at++)
        test_ranks(3, pending_body, &at);
}

static stn_status swap_body(stn_context *context, void *arg)
{
    (void)arg;
    struct model m = model_of(context);
    stn_step *step = NULL;
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_average_swap(m.average);
    CHECK_STATUS(stn_capture_end(context, &step), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "average_swap: not in a captured step");
    stn_step_destroy(&step);
    release(&m);
    return stn_context_status(context);
}

static void means_do_not_change_places_in_a_step(void)
{
    test_worlds(swap_body, NULL);
}

static stn_status waiting_body(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_dist_request *request = NULL;
    stn_step *step = NULL;
    const int64_t shape[] = {ROWS};
    const stn_spec *spec = NULL;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, shape, NULL, &spec), STN_OK);
    stn_tensor *x = stn_ones(context, spec);
    stn_spec_release(&spec);
    CHECK_STATUS(stn_dist_all_reduce_in_place(x, mesh, STN_SUM, &request), STN_OK);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    CHECK_STATUS(stn_dist_wait(&request), STN_ERR_STATE);
    CHECK(request == NULL);
    CHECK_STATUS(stn_capture_end(context, &step), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "dist_wait: not in a captured step");
    stn_scope_end(context);
    return stn_context_status(context);
}

static void requests_of_before_are_waited_for_before(void)
{
    test_worlds(waiting_body, NULL);
}

/* What draws: an op, or a factory. */
static stn_tensor *dropped(stn_tensor *x)
{
    return stn_dropout(x, 0.5, 1);
}

static stn_tensor *drawn(stn_tensor *x)
{
    return stn_randn(stn_tensor_context(x), stn_tensor_spec(x));
}

struct drawing {
    stn_tensor *(*draw)(stn_tensor *x);
};

/* One rank alone has another seed. */
static stn_status seed_body(stn_context *context, void *arg)
{
    const struct drawing *drawing = arg;
    stn_step *step = NULL;
    uint64_t seed, stream;
    stn_tensor *x = made(context, stn_shard(0), test_value);
    stn_scope_begin(context);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_full_tensor(stn_sum(drawing->draw(x), 0, NULL, 0));
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    stn_context_random_state(context, &seed, &stream);
    if (stn_context_rank(context) == 1)
        stn_context_set_random_state(context, seed + 1, stream);
    stn_step_run(step);
    CHECK(stn_agree(context, STN_OK, NULL) != STN_OK);
    CHECK(strstr(stn_context_error_text(context),
                 stn_context_rank(context) == 1 ? "the seed of random numbers" : "rank 1") != NULL);
    stn_context_take_error(context, NULL, 0);
    stn_scope_end(context);
    stn_step_destroy(&step);
    stn_tensor_release(&x);
    return STN_OK;
}

static void one_ranks_seed_is_every_ranks_error(void)
{
    test_ranks(3, seed_body, &(struct drawing){dropped});
    test_ranks(3, seed_body, &(struct drawing){drawn});
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_that_a_step_leaves_are_the_leaves_own", gradients_that_a_step_leaves_are_the_leaves_own},
        {"gradients_of_several_repetitions_add_up", gradients_of_several_repetitions_add_up},
        {"a_step_may_begin_with_gradients_of_before", a_step_may_begin_with_gradients_of_before},
        {"gradients_of_others_are_added_to", gradients_of_others_are_added_to},
        {"gradients_reduced_beside_add_up_too", gradients_reduced_beside_add_up_too},
        {"what_pends_inside_is_completed_inside", what_pends_inside_is_completed_inside},
        {"a_gradient_that_would_be_lost_is_refused", a_gradient_that_would_be_lost_is_refused},
        {"gradients_that_pend_are_refused", gradients_that_pend_are_refused},
        {"a_step_may_begin_by_forgetting", a_step_may_begin_by_forgetting},
        {"rates_are_those_of_the_repetition", rates_are_those_of_the_repetition},
        {"what_is_recomputed_draws_the_same_numbers", what_is_recomputed_draws_the_same_numbers},
        {"a_repetition_draws_as_often_as_a_step", a_repetition_draws_as_often_as_a_step},
        {"means_do_not_change_places_in_a_step", means_do_not_change_places_in_a_step},
        {"requests_of_before_are_waited_for_before", requests_of_before_are_waited_for_before},
        {"one_ranks_seed_is_every_ranks_error", one_ranks_seed_is_every_ranks_error},
    };
    return TEST_MAIN(argc, argv, cases);
}
