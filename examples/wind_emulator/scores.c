#include "scores.h"

#include <math.h>
#include <stdlib.h>

enum { TESTS = MONTHS - FIRST_TEST };

static double rmse(const struct winds *w, stn_tensor *prediction, stn_tensor *target)
{
    double square = NAN;
    stn_item(train_loss(w, prediction, target), &square);
    return UNIT * sqrt(square);
}

/* sum of weight a b over the globe. */
static double product(const struct winds *w, stn_tensor *a, stn_tensor *b)
{
    double value = NAN;
    stn_item(stn_sum(stn_mul(stn_mul(a, b), w->weight), 0, NULL, 0), &value);
    return value;
}

static void months(int first, int n, int *out)
{
    for (int i = 0; i < n; i++)
        out[i] = first + i;
}

/* Least squares of a(t) = f a(t - 1) over the training months. */
static double fit_damping(const struct winds *w)
{
    int targets[TARGETS];
    months(FIRST_TARGET, TARGETS, targets);
    stn_tensor *before = winds_lag(w, TARGETS, targets, 1), *now = winds_lag(w, TARGETS, targets, 0);
    return product(w, before, now) / product(w, before, before);
}

/* The last month's field as the forecast, as an anomaly of the target month. */
static stn_tensor *last_field(const struct winds *w, const int *targets)
{
    int64_t n = COMPONENTS * w->my_rows * w->columns;
    float *data = malloc((size_t)(TESTS * n + 1) * sizeof *data);
    if (!data)
        return NULL;
    for (int s = 0; s < TESTS; s++)
        for (int64_t i = 0; i < n; i++)
            data[s * n + i] = w->field[(targets[s] - 1) * n + i] - w->climatology[(targets[s] % YEAR) * n + i];
    stn_tensor *tensor = winds_tensor(w, TESTS, COMPONENTS, data);
    free(data);
    return tensor;
}

stn_status scores_compute(const struct winds *winds, const struct model *model, struct scores *scores)
{
    int targets[TESTS];
    months(FIRST_TEST, TESTS, targets);
    stn_scope_begin(winds->context);
    stn_no_grad_begin(winds->context);
    stn_tensor *truth = winds_lag(winds, TESTS, targets, 0), *last = winds_lag(winds, TESTS, targets, 1);
    scores->damping = fit_damping(winds);
    scores->climatology = rmse(winds, stn_mul_number(truth, 0), truth);
    scores->persistence = rmse(winds, last_field(winds, targets), truth);
    scores->damped_persistence = rmse(winds, stn_mul_number(last, scores->damping), truth);
    scores->emulator = rmse(winds, model_forward(model, winds_inputs(winds, TESTS, targets), last), truth);
    stn_no_grad_end(winds->context);
    return stn_scope_end(winds->context);
}
