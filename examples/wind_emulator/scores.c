#include "scores.h"

#include "baselines.h"

#include <math.h>

const char *const method_names[METHODS] = {"emulator",           "two_lags_per_cell", "damped_persistence_per_cell", "damped_persistence",
                                           "anomaly_persistence", "persistence",       "climatology"};

/* What came, and how much each cell counts. */
struct truth {
    stn_tensor *field, *weight;
};

static double rmse(const struct data *d, stn_tensor *forecast, const struct truth *truth)
{
    double square = NAN;
    stn_item(stn_mse_loss(forecast, truth->field, truth->weight, STN_REDUCE_MEAN), &square);
    return d->unit * sqrt(square);
}

/* Of two fields, for each month and component: the sum over the globe of weight a b. */
static stn_tensor *inner(stn_tensor *a, stn_tensor *b, stn_tensor *weight)
{
    return stn_sum(stn_mul(stn_mul(a, b), weight), 2, (int[]){2, 3}, 0);
}

static double correlation(stn_tensor *forecast, const struct truth *truth)
{
    double value = NAN;
    stn_tensor *w = truth->weight;
    stn_tensor *norms = stn_sqrt(stn_mul(inner(forecast, forecast, w), inner(truth->field, truth->field, w)));
    stn_item(stn_mean(stn_div(inner(forecast, truth->field, w), norms), 0, NULL, 0), &value);
    return value;
}

/* Those of the emulator's rivals. */
static void make_forecasts(const struct data *d, int n, const struct sample *samples, int lead,
                           const struct baselines *b, stn_tensor *forecast[METHODS])
{
    stn_tensor *last = batch_lag(d, n, samples, lead), *before = batch_lag(d, n, samples, lead + 1);
    forecast[TWO_LAGS_PER_CELL] = stn_add(stn_mul(b->lag[0], last), stn_mul(b->lag[1], before));
    forecast[DAMPED_PERSISTENCE_PER_CELL] = stn_mul(b->cell, last);
    forecast[DAMPED_PERSISTENCE] = stn_mul_number(last, b->damping);
    forecast[ANOMALY_PERSISTENCE] = last;
    forecast[PERSISTENCE] = batch_persistence(d, n, samples, lead);
    forecast[CLIMATOLOGY] = stn_mul_number(last, 0);
}

void scores_of(const struct data *d, int n, const struct sample *samples, int lead, stn_tensor *emulator,
               struct scores *scores)
{
    const struct truth truth = {batch_lag(d, n, samples, 0), batch_weight(d, n, samples, 0)};
    struct baselines baselines;
    stn_tensor *forecast[METHODS] = {[EMULATOR] = emulator};
    baselines_fit(d, lead, &baselines);
    make_forecasts(d, n, samples, lead, &baselines, forecast);
    scores->damping = baselines.damping;
    for (int m = 0; m < METHODS; m++) {
        scores->rmse[m] = rmse(d, forecast[m], &truth);
        scores->acc[m] = m == CLIMATOLOGY ? NAN : correlation(forecast[m], &truth);
    }
}

stn_status scores_compute(const struct data *d, const struct model *model, struct scores *scores)
{
    struct sample samples[TEST_MONTHS];
    struct batch batch;
    for (int i = 0; i < TEST_MONTHS; i++)
        samples[i] = sample_plain(d, d->first_test + i);
    stn_scope_begin(d->context);
    stn_no_grad_begin(d->context);
    batch_make(d, TEST_MONTHS, samples, &batch);
    scores_of(d, TEST_MONTHS, samples, 1, model_forward(model, &batch, 0), scores);
    stn_no_grad_end(d->context);
    return stn_scope_end(d->context);
}

static void fetch(const struct data *d, stn_tensor *field, float *out)
{
    size_t bytes = (size_t)d->components * d->grid.rows * d->grid.columns * sizeof *out;
    stn_to_host(stn_full_tensor(stn_mul_number(field, d->unit)), out, bytes);
}

stn_status scores_fields(const struct data *d, const struct model *model, int month, float *forecast, float *truth)
{
    const struct sample sample = sample_plain(d, month);
    struct batch batch;
    stn_scope_begin(d->context);
    stn_no_grad_begin(d->context);
    batch_make(d, 1, &sample, &batch);
    fetch(d, model_forward(model, &batch, 0), forecast);
    fetch(d, batch.lag[0], truth);
    stn_no_grad_end(d->context);
    return stn_scope_end(d->context);
}
