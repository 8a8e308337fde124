/* Captured steps and optimizers whose parameters have not been updated equally often: each repetition uses the
 * numbers that hold then, of each parameter by itself. And what is refused of gradients. */
#include "ranks.h"

enum { ROWS = 7, COLUMNS = 4, PARAMETERS = 3 };

/* Parameters, what they are multiplied with, and what trains them. */
struct model {
    stn_context *context;
    stn_tensor *x, *w[PARAMETERS];
    stn_optimizer *optimizer;
};

static struct model model_of(stn_context *context)
{
    static const char *const names[PARAMETERS] = {"a", "b", "c"};
    const int64_t shape[] = {ROWS, COLUMNS};
    const int n = stn_context_size(context);
    const stn_mesh *mesh = n == 6 ? test_mesh(context, 2, 3) : test_mesh(context, n, 0);
    const stn_placement rows[] = {stn_shard(0), stn_replicate()};
    struct model m = {.context = context,
                      .x = test_tensor(context, mesh, rows, STN_DTYPE_F32, 2, shape, NULL, test_value)};
    stn_named_tensor named[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) {
        m.w[i] = test_tensor(context, mesh, rows, STN_DTYPE_F32, 2, shape, NULL, test_value);
        CHECK_STATUS(stn_set_requires_grad(m.w[i], 1), STN_OK);
        named[i] = (stn_named_tensor){names[i], m.w[i]};
    }
    const stn_parameter_group group = {.size = sizeof group, .n = PARAMETERS, .parameters = named};
    CHECK_STATUS(stn_adamw_create(context, NULL, &m.optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(m.optimizer, &group), STN_OK);
    return m;
}

static void release(struct model *m)
{
    stn_optimizer_destroy(&m->optimizer);
    stn_tensor_release(&m->x);
    for (int i = 0; i < PARAMETERS; i++)
        stn_tensor_release(&m->w[i]);
}

static void update(struct model *m)
{
    CHECK_STATUS(stn_optimizer_step(m->optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_zero_grad(m->optimizer), STN_OK);
}

/* Gradients of the parameters that `which` has a bit for. */
static void backward(struct model *m, unsigned which)
{
    stn_scope_begin(m->context);
    for (int i = 0; i < PARAMETERS; i++)
        if (which >> i & 1) {
            stn_tensor *y = stn_mul(m->x, m->w[i]);
            stn_backward(stn_sum(stn_mul(y, y), 0, NULL, 0));
        }
    CHECK_STATUS(stn_scope_end(m->context), STN_OK);
}

static void train(struct model *m, unsigned which)
{
    backward(m, which);
    update(m);
}

static void check_same(const struct model *got, const struct model *want)
{
    for (int i = 0; i < PARAMETERS; i++) {
        float a[ROWS * COLUMNS], b[ROWS * COLUMNS];
        const size_t bytes = (size_t)stn_spec_local_numel(stn_tensor_spec(want->w[i])) * sizeof *a;
        CHECK_STATUS(stn_to_host(got->w[i], a, bytes), STN_OK);
        CHECK_STATUS(stn_to_host(want->w[i], b, bytes), STN_OK);
        CHECK_BYTES(a, b, bytes);
    }
}

/* All are one list when the step is captured. Then one of them, the middle one, is updated alone. */
static stn_status apart_body(stn_context *context, void *arg)
{
    enum { ALL = (1 << PARAMETERS) - 1, MIDDLE = 2, TIMES = 3 };
    struct model called = model_of(context), captured = model_of(context);
    stn_step *step = NULL;
    (void)arg;
    train(&called, ALL);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    train(&captured, ALL);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    check_same(&captured, &called);
    for (int i = 0; i < TIMES; i++) {
        train(&called, MIDDLE);
        train(&called, ALL);
        train(&captured, MIDDLE);
        CHECK_STATUS(stn_step_run(step), STN_OK);
        check_same(&captured, &called);
    }
    CHECK_I64(stn_optimizer_steps(captured.optimizer), stn_optimizer_steps(called.optimizer));
    stn_step_destroy(&step);
    release(&called);
    release(&captured);
    return stn_context_status(context);
}

static void each_parameter_is_updated_by_its_own_steps(void)
{
    test_worlds(apart_body, NULL);
}

/* A called update leaves a parameter without a gradient as it is. */
static stn_status missing_body(stn_context *context, void *arg)
{
    enum { ALL = (1 << PARAMETERS) - 1, MIDDLE = 2 };
    struct model called = model_of(context), captured = model_of(context);
    stn_step *step = NULL;
    (void)arg;
    train(&called, ALL);
    backward(&captured, ALL);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    update(&captured);
    CHECK_STATUS(stn_capture_end(context, &step), STN_OK);
    backward(&captured, MIDDLE);
    CHECK_STATUS(stn_step_run(step), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "step_run: leaf 0 of 3 has no gradient and had one");
    check_same(&captured, &called);
    CHECK_STATUS(stn_optimizer_zero_grad(captured.optimizer), STN_OK);
    train(&called, ALL);
    backward(&captured, ALL);
    CHECK_STATUS(stn_step_run(step), STN_OK);
    check_same(&captured, &called);
    stn_step_destroy(&step);
    release(&called);
    release(&captured);
    return stn_context_status(context);
}

static void an_update_that_lacks_a_gradient_is_refused(void)
{
    test_worlds(missing_body, NULL);
}

/* A norm or a count that the host would read: refused before gradients are changed, or anything is sent. */
static stn_status reading_body(stn_context *context, void *arg)
{
    const int counts = arg != NULL;
    double norm, largest;
    int finite;
    struct model m = model_of(context);
    stn_tensor *x = m.w[0], *gradient = NULL;
    stn_step *step = NULL;
    stn_stats before = {.size = sizeof before}, after = before;
    stn_scope_begin(context);
    CHECK_STATUS(stn_backward(stn_sum(x, 0, NULL, 0)), STN_OK);
    CHECK_STATUS(stn_capture_begin(context), STN_OK);
    stn_context_stats(context, &before);
    CHECK_STATUS(counts ? stn_grad_unscale(context, 1, &x, 2, &finite) : stn_clip_grad_norm(context, 1, &x, 0.5, &norm),
                 STN_ERR_STATE);
    stn_context_stats(context, &after);
    CHECK_I64(after.collectives, before.collectives);
    CHECK_STATUS(stn_capture_end(context, &step), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, "a norm or count of gradients for the host: not in a captured step");
    CHECK_STATUS(stn_grad_of(x, &gradient), STN_OK);
    CHECK_STATUS(stn_item(stn_amax(gradient, 0, NULL, 0), &largest), STN_OK);
    CHECK_NEAR(largest, 1, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    release(&m);
    return stn_context_status(context);
}

static void a_norm_for_the_host_is_refused_before_gradients_change(void)
{
    test_worlds(reading_body, NULL);
    test_worlds(reading_body, &(int){1});
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"each_parameter_is_updated_by_its_own_steps", each_parameter_is_updated_by_its_own_steps},
        {"an_update_that_lacks_a_gradient_is_refused", an_update_that_lacks_a_gradient_is_refused},
        {"a_norm_for_the_host_is_refused_before_gradients_change",
         a_norm_for_the_host_is_refused_before_gradients_change},
    };
    return TEST_MAIN(argc, argv, cases);
}
