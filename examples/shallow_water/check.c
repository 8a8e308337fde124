#include "check.h"

#include "assimilate.h"
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 30, ZONAL_ROWS = 14, STEPS = 60, HOURS = 24, WINDOW = 24, ITERATIONS = 30 };

/* What a run leaves behind, to be compared between meshes. */
struct outcome {
    enum scenario scenario;
    double volume[2]; /* before and after */
    double *state;    /* whole, at the end */
    size_t bytes;     /* of the state */
    double balance;   /* how far a steady flow has moved */
    double slope[2];  /* of the misfit along a direction: by the adjoint, and by differences */
    double misfit[2]; /* at first, and the least */
    double apart;     /* the gradient of a sum from that of the sum of products with ones */
};

static int is_first(const struct model *m)
{
    return stn_context_rank(m->context) == 0;
}

static stn_status run_steps(const struct model *m, void *arg)
{
    const size_t bytes = (size_t)(FIELDS * m->grid->rows * m->grid->columns) * sizeof(double);
    struct outcome *out = arg;
    stn_tensor *state = model_start(m, out->scenario, 1);
    const double before = model_volume(m, state);
    stn_status status = model_advance(m, &state, STEPS);
    const double after = model_volume(m, state);
    stn_scope_begin(m->context);
    stn_tensor *whole = stn_full_tensor(state);
    if (is_first(m)) {
        out->volume[0] = before, out->volume[1] = after;
        out->bytes = bytes;
        out->state = malloc(bytes);
        if (out->state)
            stn_to_host(whole, out->state, bytes);
    }
    stn_status read = stn_scope_end(m->context);
    stn_tensor_release(&state);
    return status == STN_OK ? read : status;
}

static stn_status run_zonal(const struct model *m, void *arg)
{
    stn_tensor *first = model_start(m, ZONAL, 1), *state = stn_tensor_retain(first);
    stn_status status = model_advance(m, &state, (int)(HOURS * 3600 / m->dt));
    const double moved = model_difference(m, state, first);
    if (is_first(m))
        ((struct outcome *)arg)->balance = moved;
    stn_tensor_release(&state);
    stn_tensor_release(&first);
    return status;
}

/* The height of the drop, and what is seen of it at the window's end. */
static stn_status observe(const struct model *m, int steps, double size, stn_tensor **height, stn_tensor **observed)
{
    stn_tensor *state = model_start(m, DROP, size);
    stn_scope_begin(m->context);
    stn_status status = stn_scope_end_keep(m->context, stn_clone(model_height(state)), height);
    if (status == STN_OK)
        status = model_advance(m, &state, steps);
    stn_scope_begin(m->context);
    stn_status kept = stn_scope_end_keep(m->context, stn_clone(model_height(state)), observed);
    stn_tensor_release(&state);
    return status == STN_OK ? kept : status;
}

static double misfit_at(const struct model *m, const struct assimilation *a, stn_tensor *height, stn_tensor *direction,
                        double along, stn_tensor *observed)
{
    double misfit = NAN;
    stn_scope_begin(m->context);
    stn_no_grad_begin(m->context);
    stn_item(assimilation_misfit(m, a, stn_add_scaled(height, direction, along), observed), &misfit);
    stn_no_grad_end(m->context);
    stn_scope_end(m->context);
    return misfit;
}

static stn_status run_slope(const struct model *m, void *arg)
{
    const struct assimilation a = {.steps = WINDOW, .segment = 7};
    struct outcome *out = arg;
    stn_tensor *height, *observed, *gradient = NULL;
    double slope[2] = {NAN, NAN};
    stn_status status = observe(m, WINDOW, 1, &height, &observed);
    if (status != STN_OK)
        return status;
    stn_scope_begin(m->context);
    stn_tensor *direction = stn_normal(m->context, stn_tensor_spec(height), 0, 1), *leaf = stn_add_number(height, 5);
    stn_set_requires_grad(leaf, 1);
    stn_backward(assimilation_misfit(m, &a, leaf, observed));
    if (stn_grad_of(leaf, &gradient) == STN_OK)
        stn_item(stn_sum(stn_mul(gradient, direction), 0, NULL, 0), &slope[0]);
    const double width = 1e-3;
    slope[1] = (misfit_at(m, &a, stn_detach(leaf), direction, width, observed) -
                misfit_at(m, &a, stn_detach(leaf), direction, -width, observed)) /
               (2 * width);
    if (is_first(m))
        memcpy(out->slope, slope, sizeof slope);
    status = stn_scope_end(m->context);
    stn_tensor_release(&height);
    stn_tensor_release(&observed);
    return status;
}

/* The gradient of a sum of tendencies, or of their products with `factors`. */
static stn_tensor *gradient_of_sum(stn_tensor *state, stn_tensor *factors)
{
    stn_tensor *gradient = NULL, *leaf = stn_detach(state);
    stn_set_requires_grad(leaf, 1);
    stn_tensor *tendency = tendency_of(leaf);
    stn_backward(stn_sum(factors ? stn_mul(tendency, factors) : tendency, 0, NULL, 0));
    stn_grad_of(leaf, &gradient);
    return gradient;
}

/* The cotangent of what is summed is one number that stands for all elements: a view. */
static stn_status run_sums(const struct model *m, void *arg)
{
    double apart = NAN;
    stn_tensor *state = model_start(m, DROP, 1);
    stn_scope_begin(m->context);
    stn_tensor *plain = gradient_of_sum(state, NULL),
               *weighted = gradient_of_sum(state, stn_ones(m->context, stn_tensor_spec(state)));
    stn_item(stn_max(stn_abs(stn_sub(plain, weighted))), &apart);
    if (is_first(m))
        ((struct outcome *)arg)->apart = apart;
    stn_status status = stn_scope_end(m->context);
    stn_tensor_release(&state);
    return status;
}

static void keep_first(void *arg, int iteration, double misfit)
{
    if (iteration == 0)
        *(double *)arg = misfit;
}

static stn_status run_assimilation(const struct model *m, void *arg)
{
    const struct assimilation a = {.steps = WINDOW, .segment = 6, .iterations = ITERATIONS};
    double misfit[2] = {NAN, NAN};
    stn_tensor *height, *observed, *guess;
    stn_status status = observe(m, WINDOW, 1, &height, &observed);
    if (status != STN_OK)
        return status;
    stn_scope_begin(m->context);
    status = stn_scope_end_keep(m->context, stn_add_number(stn_mul_number(height, 0), MODEL_DEPTH), &guess);
    if (status == STN_OK)
        status = assimilate(m, &a, observed, &guess, &misfit[1], keep_first, &misfit[0]);
    if (status == STN_OK && is_first(m))
        memcpy(((struct outcome *)arg)->misfit, misfit, sizeof misfit);
    stn_tensor_release(&guess);
    stn_tensor_release(&height);
    stn_tensor_release(&observed);
    return status;
}

static int run(enum scenario scenario, int64_t n, const int ranks[2], stn_status (*work)(const struct model *, void *),
               struct outcome *out)
{
    const struct job job = {scenario, n, {ranks[0], ranks[1]}, work, out};
    return job_run(&job);
}

static int report(const char *what, int holds)
{
    printf("%s  %s\n", holds ? "ok  " : "FAIL", what);
    return !holds;
}

static int report_water(const char *name, const struct outcome *alone, const struct outcome *shared)
{
    const double lost = fabs(shared->volume[1] / shared->volume[0] - 1);
    char text[160];
    snprintf(text, sizeof text, "%s, water after %d steps: %.1e of it is lost", name, STEPS, lost);
    int failed = report(text, lost < 1e-14);
    snprintf(text, sizeof text, "%s, the same bits on one rank and on the mesh: state", name);
    failed += report(text, alone->bytes == shared->bytes && memcmp(alone->state, shared->state, alone->bytes) == 0);
    snprintf(text, sizeof text, "%s, the same bits on one rank and on the mesh: volume", name);
    return failed + report(text, memcmp(alone->volume, shared->volume, sizeof alone->volume) == 0);
}

static int check_water(const char *name, enum scenario scenario, int64_t n, const int ranks[2])
{
    static const int one[2] = {1, 1};
    struct outcome alone = {.scenario = scenario}, shared = {.scenario = scenario};
    int failed = 1;
    const int ran = run(scenario, n, one, run_steps, &alone) && run(scenario, n, ranks, run_steps, &shared);
    if (ran && alone.state && shared.state)
        failed = report_water(name, &alone, &shared);
    free(alone.state);
    free(shared.state);
    return failed;
}

static int check_balance(const int ranks[2])
{
    struct outcome coarse = {.balance = NAN}, fine = {.balance = NAN};
    char text[160];
    if (!run(ZONAL, 12, ranks, run_zonal, &coarse) || !run(ZONAL, 24, ranks, run_zonal, &fine))
        return 1;
    snprintf(text, sizeof text,
             "steady zonal flow after %d hours: h has moved by %.1e, on a grid twice as fine by %.1e", HOURS,
             coarse.balance, fine.balance);
    return report(text, fine.balance < 1e-3 && fine.balance * 3 < coarse.balance);
}

static int check_gradient(const int ranks[2])
{
    struct outcome out = {.slope = {NAN, NAN}, .apart = NAN};
    char text[160];
    if (!run(DROP, 14, ranks, run_sums, &out) || !run(DROP, 14, ranks, run_slope, &out) ||
        !run(DROP, 16, ranks, run_assimilation, &out))
        return 1;
    snprintf(text, sizeof text, "slope of the misfit: %.9e by the adjoint, %.9e by differences", out.slope[0],
             out.slope[1]);
    int failed = report("the gradient of a plain sum", out.apart == 0);
    failed += report(text, fabs(out.slope[0] - out.slope[1]) < 1e-6 * fabs(out.slope[0]));
    snprintf(text, sizeof text, "misfit after %d adjoint runs: %.1e of the first", ITERATIONS,
             out.misfit[1] / out.misfit[0]);
    return failed + report(text, out.misfit[1] * 100 < out.misfit[0]);
}

int check_all(const int ranks[2])
{
    const int water = check_water("plane", DROP, ROWS, ranks) + check_water("sphere", ZONAL, ZONAL_ROWS, ranks);
    return water + check_balance(ranks) + check_gradient(ranks);
}
