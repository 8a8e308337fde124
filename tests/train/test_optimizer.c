/* Optimizers, averages and clipping against loops over plain arrays, whatever the layout. */
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 7, COLUMNS = 3, N = ROWS * COLUMNS, STEPS = 4 };

static double start(int64_t i)
{
    return test_value(i);
}

/* The gradient of step s, as a function of the parameter's place alone. */
static double slope(int64_t i, int s)
{
    return test_value(i + 31 * (s + 1));
}

static _Thread_local int current_step;

static double current_slope(int64_t i)
{
    return slope(i, current_step);
}

/* A parameter on this mesh; rows dealt 4, 0, 3 where there are three. */
static stn_tensor *parameter(stn_context *context, const stn_mesh *mesh, stn_placement placement, stn_dtype dtype)
{
    const int64_t shape[] = {ROWS, COLUMNS}, uneven[] = {4, 0, 3};
    const int64_t *const sizes[] = {uneven, NULL};
    int cut = placement.kind == STN_PLACE_SHARD && placement.dim == 0 && stn_mesh_size(mesh) == 3;
    stn_tensor *t = test_tensor(context, mesh, &placement, dtype, 2, shape, cut ? sizes : NULL, start);
    stn_set_requires_grad(t, 1);
    return t;
}

/* Puts the gradient of a step into the parameter, in a layout that is not its own. */
static void give_gradient(stn_context *context, stn_tensor *p, int step)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    stn_placement other = stn_shard(1);
    current_step = step;
    stn_tensor *g = test_tensor(context, stn_spec_mesh(stn_tensor_spec(p)), &other, stn_tensor_dtype(p), 2, shape, NULL,
                                current_slope);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(p, g), 0, NULL, 0)), STN_OK);
}

static void check_values(stn_tensor *t, const double *want, double tolerance)
{
    double got[N];
    test_read(t, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], want[i], tolerance);
}

struct setting {
    enum { SGD, ADAMW, ADAM } rule;
    int nesterov;
    double momentum, decay;
};

static const struct setting settings[] = {
    {SGD, 0, 0, 0}, {SGD, 0, 0.9, 0.1}, {SGD, 1, 0.9, 0.1}, {ADAMW, 0, 0, 0.1}, {ADAM, 0, 0, 0.1}};

/* The textbook's loop, one element. */
static double plain(const struct setting *s, int64_t i, int steps)
{
    double p = start(i), m = 0, v = 0;
    for (int t = 1; t <= steps; t++) {
        double rate = 0.05 * (t == 2 ? 0.5 : 1), g = slope(i, t - 1);
        const double decoupled = s->rule == ADAMW ? s->decay * p : 0;
        g += s->rule == ADAMW ? 0 : s->decay * p;
        if (s->rule != SGD) {
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            p -= rate * (decoupled + m / (1 - pow(0.9, t)) / (sqrt(v / (1 - pow(0.999, t))) + 1e-8));
            continue;
        }
        m = t == 1 ? g : s->momentum * m + g;
        p -= rate * (s->momentum == 0 ? g : s->nesterov ? g + s->momentum * m : m);
    }
    return p;
}

static stn_optimizer *make(stn_context *context, const struct setting *s)
{
    stn_optimizer *optimizer = NULL;
    const stn_sgd_options sgd = {
        .size = sizeof sgd, .rate = 0.05, .momentum = s->momentum, .weight_decay = 9, .nesterov = s->nesterov};
    const stn_adamw_options adam = {.size = sizeof adam, .rate = 0.05, .weight_decay = 9};
    CHECK_STATUS(s->rule == SGD     ? stn_sgd_create(context, &sgd, &optimizer)
                 : s->rule == ADAMW ? stn_adamw_create(context, &adam, &optimizer)
                                    : stn_adam_create(context, &adam, &optimizer),
                 STN_OK);
    return optimizer;
}

static void check_setting(stn_context *context, const struct setting *s, stn_placement placement, stn_dtype dtype)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    double want[N], before[N];
    stn_scope_begin(context);
    stn_tensor *p = parameter(context, mesh, placement, dtype), *idle = parameter(context, mesh, placement, dtype);
    stn_optimizer *optimizer = make(context, s);
    const stn_named_tensor list[] = {{"p", p}, {"idle", idle}};
    const stn_parameter_group group = {sizeof group, 2, list, 0, 1, s->decay};
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    for (int t = 1; t <= STEPS; t++) {
        give_gradient(context, p, t - 1);
        stn_stats stats = {.size = sizeof stats};
        stn_context_stats_reset(context);
        stn_optimizer_set_rate_factor(optimizer, t == 2 ? 0.5 : 1);
        CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
        stn_context_stats(context, &stats);
        CHECK_I64(stats.collectives, 0);
        CHECK_STATUS(stn_optimizer_zero_grad(optimizer), STN_OK);
    }
    for (int i = 0; i < N; i++)
        want[i] = plain(s, i, STEPS), before[i] = start(i);
    check_values(p, want, dtype == STN_DTYPE_F32 ? 2e-6 : 1e-13);
    check_values(idle, before, dtype == STN_DTYPE_F32 ? 1e-7 : 0);
    CHECK_I64(stn_optimizer_steps(optimizer), STEPS);
    stn_optimizer_destroy(&optimizer);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status steps_body(stn_context *context, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        check_setting(context, &settings[i], stn_shard(0), STN_DTYPE_F64);
        check_setting(context, &settings[i], stn_replicate(), STN_DTYPE_F32);
    }
    return STN_OK;
}

static void steps_are_those_of_plain_loops(void)
{
    test_ranks(1, steps_body, NULL);
    test_ranks(2, steps_body, NULL);
    test_ranks(3, steps_body, NULL);
}

/* More parameters than one kernel takes. */
static stn_status many_body(stn_context *context, void *arg)
{
    enum { MANY = 150 };
    static const char *const form = "p%03d";
    char names[MANY][16];
    stn_named_tensor list[MANY];
    double want[N];
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const struct setting s = {0, 0, 0, 0};
    (void)arg;
    stn_scope_begin(context);
    stn_optimizer *optimizer = make(context, &s);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], form, i);
        list[i] = (stn_named_tensor){names[i], parameter(context, mesh, stn_shard(0), STN_DTYPE_F64)};
    }
    const stn_parameter_group group = {sizeof group, MANY, list, 0, 1, 0};
    CHECK_STATUS(stn_optimizer_add_group(optimizer, &group), STN_OK);
    for (int i = 0; i < MANY; i++)
        give_gradient(context, list[i].tensor, 0);
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_optimizer_step(optimizer), STN_OK);
    stn_context_stats(context, &stats);
    int empty = stn_spec_local_numel(stn_tensor_spec(list[0].tensor)) == 0;
    CHECK(stats.kernels <= 3 + MANY); /* three lists; and gradients that lie otherwise are copied */
    CHECK(empty || stats.kernels >= 3);
    for (int i = 0; i < N; i++)
        want[i] = plain(&s, i, 1);
    check_values(list[0].tensor, want, 1e-13);
    check_values(list[MANY - 1].tensor, want, 1e-13);
    stn_optimizer_destroy(&optimizer);
    return stn_scope_end(context);
}

static void lists_longer_than_a_kernel_takes_are_cut(void)
{
    test_ranks(2, many_body, NULL);
}

static stn_status clip_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    double square = 0, norm = 0, want[N];
    stn_tensor *grad;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *list[] = {parameter(context, mesh, stn_shard(0), STN_DTYPE_F64),
                          parameter(context, mesh, stn_replicate(), STN_DTYPE_F64),
                          parameter(context, mesh, stn_shard(1), STN_DTYPE_F64)};
    /* The third has no gradient; of the sum, the first two share one cotangent. */
    const int64_t shape[] = {ROWS, COLUMNS};
    stn_placement shard = stn_shard(1);
    current_step = 0;
    stn_tensor *g = test_tensor(context, mesh, &shard, STN_DTYPE_F64, 2, shape, NULL, current_slope);
    CHECK_STATUS(stn_backward(stn_sum(stn_mul(stn_add(list[0], list[1]), g), 0, NULL, 0)), STN_OK);
    for (int i = 0; i < N; i++)
        square += 2 * slope(i, 0) * slope(i, 0);
    CHECK_STATUS(stn_clip_grad_norm(context, 3, list, 100, &norm), STN_OK);
    CHECK_NEAR(norm, sqrt(square), 1e-13);
    CHECK_STATUS(stn_clip_grad_norm(context, 3, list, 0.25, NULL), STN_OK);
    CHECK_STATUS(stn_clip_grad_norm(context, 3, list, 1, &norm), STN_OK);
    CHECK_NEAR(norm, 0.25, 1e-13);
    for (int i = 0; i < N; i++)
        want[i] = slope(i, 0) * 0.25 / sqrt(square);
    for (int k = 0; k < 2; k++) {
        CHECK_STATUS(stn_grad_of(list[k], &grad), STN_OK);
        check_values(grad, want, 1e-12);
    }
    return stn_scope_end(context);
}

static void clipping_counts_each_element_once(void)
{
    test_ranks(1, clip_body, NULL);
    test_ranks(3, clip_body, NULL);
}

/* Gradients of two parameters, one of them with a single element that is `bad`; a third has none. */
static void unscale_once(stn_context *context, stn_dtype dtype, double bad, int want)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_scope_begin(context);
    stn_tensor *list[] = {parameter(context, mesh, stn_shard(0), dtype),
                          parameter(context, mesh, stn_replicate(), dtype),
                          parameter(context, mesh, stn_shard(1), dtype)};
    stn_tensor *grad;
    double first[N], got[N];
    int finite = 7;
    for (int k = 0; k < 2; k++)
        give_gradient(context, list[k], 0);
    CHECK_STATUS(stn_grad_of(list[1], &grad), STN_OK);
    test_read(grad, first, N);
    if (bad != 0) { /* in one element, which one rank may hold alone */
        const int64_t shape[] = {ROWS, COLUMNS};
        stn_placement rows = stn_shard(0);
        current_step = 0;
        stn_tensor *g = test_tensor(context, mesh, &rows, dtype, 2, shape, NULL, start);
        g = stn_where(stn_eq(g, stn_max(g)), stn_mul_number(stn_ones(context, stn_tensor_spec(g)), bad),
                      stn_zeros(context, stn_tensor_spec(g)));
        CHECK_STATUS(stn_backward(stn_sum(stn_mul(list[0], g), 0, NULL, 0)), STN_OK);
    }
    CHECK_STATUS(stn_grad_unscale(context, 3, list, 64, &finite), STN_OK);
    CHECK_I64(finite, want);
    CHECK_STATUS(stn_grad_of(list[1], &grad), STN_OK);
    test_read(grad, got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], first[i] / 64, 0);
    CHECK_STATUS(stn_grad_of(list[2], &grad), STN_OK);
    CHECK(grad == NULL);
    finite = 7;
    CHECK_STATUS(stn_grad_unscale(context, 3, list, 1, NULL), STN_OK);
    CHECK_STATUS(stn_grad_unscale(context, 0, NULL, 2, &finite), STN_OK);
    CHECK_I64(finite, 1);
    const double unfit[] = {0, -2, INFINITY, NAN, 1e39, 1e-44};
    for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++) {
        CHECK_STATUS(stn_grad_unscale(context, 3, list, unfit[i], &finite), STN_ERR_ARGUMENT);
        CHECK(strstr(stn_context_error_text(context), ", wanted 1.17549e-38 to 3.40282e+38") != NULL);
        stn_context_take_error(context, NULL, 0);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status unscale_body(stn_context *context, void *arg)
{
    (void)arg;
    for (int d = 0; d < 2; d++) {
        const stn_dtype dtype = d ? STN_DTYPE_F64 : STN_DTYPE_F32;
        unscale_once(context, dtype, 0, 1);
        unscale_once(context, dtype, INFINITY, 0);
        unscale_once(context, dtype, NAN, 0);
        unscale_once(context, dtype, d ? 1e300 : 1e38, 1);
    }
    return STN_OK;
}

static void gradients_are_unscaled_and_known_to_be_finite_on_all_ranks(void)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        test_ranks(ranks, unscale_body, NULL);
    test_ranks(8, unscale_body, NULL); /* an empty chunk */
}

static stn_status average_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    double first[N], second[N], mean[N];
    stn_average *average = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *p = parameter(context, mesh, stn_shard(0), STN_DTYPE_F64);
    CHECK_STATUS(stn_average_create(context, 1, &(stn_named_tensor){"p", p}, &average), STN_OK);
    stn_no_grad_begin(context);
    stn_mul_number_(p, 3);
    stn_no_grad_end(context);
    CHECK_STATUS(stn_average_update(average, 0.75), STN_OK);
    for (int i = 0; i < N; i++)
        first[i] = start(i), second[i] = 3 * first[i], mean[i] = 0.75 * first[i] + 0.25 * second[i];
    check_values(stn_average_at(average, 0).tensor, mean, 1e-13);
    CHECK_STR(stn_average_at(average, 0).name, "p");
    CHECK_STATUS(stn_average_swap(average), STN_OK);
    check_values(p, mean, 1e-13);
    CHECK_STATUS(stn_average_swap(average), STN_OK);
    check_values(p, second, 1e-13);
    CHECK_STATUS(stn_average_update(average, 1.5), STN_ERR_ARGUMENT);
    CHECK_STR(stn_context_error_text(context), "average: decay got 1.5, wanted 0 to 1");
    stn_context_take_error(context, NULL, 0);
    stn_average_destroy(&average);
    const stn_named_tensor twice[] = {{"p", p}, {"q", p}};
    CHECK_STATUS(stn_average_create(context, 2, twice, &average), STN_ERR_ARGUMENT);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "average: 'q' is the tensor that 'p' is");
    return stn_scope_end(context);
}

static void averages_follow_and_change_places(void)
{
    test_ranks(1, average_body, NULL);
    test_ranks(3, average_body, NULL);
}

static void refused(stn_context *context, stn_status got, stn_status want, const char *text)
{
    CHECK_STATUS(got, want);
    CHECK_STR(stn_context_error_text(context), text);
    stn_context_take_error(context, NULL, 0);
}

static stn_status add_one(stn_optimizer *optimizer, const char *name, stn_tensor *t)
{
    const stn_named_tensor list[] = {{name, t}};
    const stn_parameter_group group = {sizeof group, 1, list, 0, 0, 0};
    return stn_optimizer_add_group(optimizer, &group);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int64_t shape[] = {3};
    stn_placement partial = stn_partial(STN_SUM), shard = stn_shard(0);
    const stn_adamw_options bad = {.size = sizeof bad, .beta2 = 1};
    const stn_sgd_options nesterov = {.size = sizeof nesterov, .nesterov = 1};
    stn_optimizer *o = NULL;
    (void)arg;
    stn_scope_begin(context);
    refused(context, stn_adamw_create(context, &bad, &o), STN_ERR_ARGUMENT,
            "adamw: beta2 got 1, wanted at least 0 and less than 1");
    refused(context, stn_adam_create(context, &bad, &o), STN_ERR_ARGUMENT,
            "adam: beta2 got 1, wanted at least 0 and less than 1");
    CHECK_STATUS(stn_sgd_create(context, &(stn_sgd_options){.rate = 1}, &o), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "sgd: options got a struct of size 0, wanted");
    CHECK_STATUS(stn_adamw_create(context, &(stn_adamw_options){.rate = 1}, &o), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "adamw: options got a struct of size 0, wanted");
    refused(context, stn_sgd_create(context, &nesterov, &o), STN_ERR_ARGUMENT,
            "sgd: nesterov got momentum 0 and dampening 0, wanted a momentum and no dampening");
    CHECK_STATUS(stn_adamw_create(context, NULL, &o), STN_OK);
    stn_tensor *p = parameter(context, mesh, stn_shard(0), STN_DTYPE_F32);
    CHECK_STATUS(add_one(o, "p", p), STN_OK);
    refused(context, add_one(o, "p", p), STN_ERR_ARGUMENT, "optimizer: 'p' is there already");
    CHECK_STATUS(stn_optimizer_add_group(o, &(stn_parameter_group){.n = 0}), STN_ERR_ARGUMENT);
    CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "optimizer: the group got a struct of size 0, wanted");
    refused(context, add_one(o, "q", p), STN_ERR_ARGUMENT, "optimizer: 'q' is the tensor that 'p' is");
    refused(context, add_one(o, "", p), STN_ERR_ARGUMENT, "optimizer: a parameter's name got '', wanted a text");
    stn_tensor *fixed = test_tensor(context, mesh, &shard, STN_DTYPE_F32, 1, shape, NULL, start);
    refused(context, add_one(o, "q", fixed), STN_ERR_STATE,
            "optimizer: 'q' does not require grad, wanted a leaf that does");
    stn_tensor *pending = test_tensor(context, mesh, &partial, STN_DTYPE_F32, 1, shape, NULL, start);
    refused(context, add_one(o, "q", pending), STN_ERR_PARTIAL,
            "optimizer: 'q' is Partial on mesh axis 0, wanted Shard or Replicate");
    refused(context, add_one(o, "q", stn_cast(fixed, STN_DTYPE_BF16)), STN_ERR_DTYPE,
            "optimizer: 'q' is bf16, wanted f32 or f64");
    stn_tensor *more = parameter(context, mesh, stn_shard(0), STN_DTYPE_F32);
    const stn_named_tensor both[] = {{"q", more}, {"r", fixed}};
    const stn_parameter_group half = {.size = sizeof half, .n = 2, .parameters = both};
    refused(context, stn_optimizer_add_group(o, &half), STN_ERR_STATE,
            "optimizer: 'r' does not require grad, wanted a leaf that does");
    CHECK_STATUS(add_one(o, "q", more), STN_OK); /* nothing of the group is there */
    refused(context, stn_clip_grad_norm(context, 1, &p, 0, NULL), STN_ERR_ARGUMENT,
            "clip_grad_norm: most got 0, wanted more than 0");
    refused(context, stn_clip_grad_norm(context, 2, (stn_tensor *[]){p, p}, 1, NULL), STN_ERR_ARGUMENT,
            "clip_grad_norm: parameters[1] stands in the list before");
    refused(context, stn_grad_unscale(context, 3, (stn_tensor *[]){p, more, p}, 2, NULL), STN_ERR_ARGUMENT,
            "grad_unscale: parameters[2] stands in the list before");
    stn_tensor *result = stn_mul_number(p, 2);
    CHECK_STATUS(stn_retain_grad(result), STN_OK);
    CHECK_STATUS(stn_backward(stn_sum(result, 0, NULL, 0)), STN_OK);
    refused(context, stn_clip_grad_norm(context, 1, &result, 1, NULL), STN_ERR_STATE,
            "clip_grad_norm: parameters[0] is the result of an op, wanted a leaf");
    refused(context, stn_grad_unscale(context, 1, &result, 2, NULL), STN_ERR_STATE,
            "grad_unscale: parameters[0] is the result of an op, wanted a leaf");
    stn_optimizer_destroy(&o);
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(2, refusals_body, NULL);
}

/* What a graph has saved of a parameter was changed on ranks without a chunk of it too. */
static stn_status stale_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    static const char *const text = "stn_backward: 'input' of mul was changed in place after it was saved";
    stn_optimizer *o = NULL;
    stn_average *average = NULL;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *p = parameter(context, mesh, stn_shard(0), STN_DTYPE_F64);
    CHECK_STATUS(stn_sgd_create(context, NULL, &o), STN_OK);
    CHECK_STATUS(add_one(o, "p", p), STN_OK);
    CHECK_STATUS(stn_average_create(context, 1, &(stn_named_tensor){"p", p}, &average), STN_OK);
    give_gradient(context, p, 0);
    stn_tensor *loss = stn_sum(stn_mul(p, p), 0, NULL, 0);
    CHECK_STATUS(stn_optimizer_step(o), STN_OK);
    CHECK_STATUS(stn_backward(loss), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, text);
    loss = stn_sum(stn_mul(p, p), 0, NULL, 0);
    CHECK_STATUS(stn_average_swap(average), STN_OK);
    CHECK_STATUS(stn_backward(loss), STN_ERR_STATE);
    CHECK_ERROR_PART(context, STN_ERR_STATE, text);
    stn_average_destroy(&average);
    stn_optimizer_destroy(&o);
    return stn_scope_end(context);
}

/* The first would be launched for the second, whose rate is another, before the third is looked at. */
static stn_status pending_body(stn_context *context, void *arg)
{
    enum { PARAMETERS = 3 };
    static const double rates[PARAMETERS] = {0.5, 0.25, 0.125};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement places[PARAMETERS] = {stn_shard(0), stn_shard(0), stn_replicate()};
    stn_tensor *p[PARAMETERS];
    stn_optimizer *o = NULL;
    double want[N];
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_sgd_create(context, NULL, &o), STN_OK);
    for (int k = 0; k < PARAMETERS; k++) {
        p[k] = parameter(context, mesh, places[k], STN_DTYPE_F64);
        const stn_named_tensor named = {(const char *[]){"a", "b", "c"}[k], p[k]};
        const stn_parameter_group group = {sizeof group, 1, &named, rates[k], 0, 0};
        CHECK_STATUS(stn_optimizer_add_group(o, &group), STN_OK);
        stn_no_sync_begin(context);
        give_gradient(context, p[k], 0);
        stn_no_sync_end(context);
    }
    CHECK_STATUS(stn_optimizer_step(o), STN_ERR_PARTIAL);
    CHECK_ERROR_PART(context, STN_ERR_PARTIAL, "a reduction is pending");
    CHECK_STATUS(stn_grad_sync(context, PARAMETERS, p), STN_OK);
    CHECK_STATUS(stn_optimizer_step(o), STN_OK);
    for (int k = 0; k < PARAMETERS; k++) {
        for (int i = 0; i < N; i++)
            want[i] = start(i) - rates[k] * slope(i, 0);
        check_values(p[k], want, 1e-13);
    }
    stn_optimizer_destroy(&o);
    return stn_scope_end(context);
}

static void a_step_that_finds_a_pending_gradient_changes_nothing(void)
{
    test_ranks(2, pending_body, NULL);
}

static void all_ranks_refuse_what_saved_a_parameter_before_a_step(void)
{
    test_ranks(3, stale_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"steps_are_those_of_plain_loops", steps_are_those_of_plain_loops},
        {"lists_longer_than_a_kernel_takes_are_cut", lists_longer_than_a_kernel_takes_are_cut},
        {"clipping_counts_each_element_once", clipping_counts_each_element_once},
        {"gradients_are_unscaled_and_known_to_be_finite_on_all_ranks",
         gradients_are_unscaled_and_known_to_be_finite_on_all_ranks},
        {"averages_follow_and_change_places", averages_follow_and_change_places},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
        {"all_ranks_refuse_what_saved_a_parameter_before_a_step",
         all_ranks_refuse_what_saved_a_parameter_before_a_step},
        {"a_step_that_finds_a_pending_gradient_changes_nothing", a_step_that_finds_a_pending_gradient_changes_nothing},
    };
    return TEST_MAIN(argc, argv, cases);
}
