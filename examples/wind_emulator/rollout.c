#include "rollout.h"

#include <math.h>

stn_status rollout_begin(const struct model *model, int starts, struct rollout *r)
{
    const struct data *d = model->data;
    *r = (struct rollout){.model = model, .starts = starts};
    for (int i = 0; i < starts; i++)
        r->sample[i] = sample_plain(d, d->first_test + i);
    stn_scope_begin(d->context);
    for (int lag = 1; lag <= LAGS; lag++)
        r->lag[lag] = stn_tensor_retain(batch_lag(d, starts, r->sample, lag));
    return stn_scope_end(d->context);
}

void rollout_end(struct rollout *r)
{
    for (int lag = 1; lag <= LAGS; lag++)
        stn_tensor_release(&r->lag[lag]);
}

stn_tensor *rollout_step(struct rollout *r)
{
    struct batch batch = {.setting = batch_setting(r->model->data, r->starts, r->sample)};
    for (int lag = 1; lag <= LAGS; lag++)
        batch.lag[lag] = r->lag[lag];
    stn_tensor *forecast = model_forward(r->model, &batch, 0);
    stn_tensor_release(&r->lag[LAGS]);
    for (int lag = LAGS; lag > 1; lag--)
        r->lag[lag] = r->lag[lag - 1];
    r->lag[1] = stn_tensor_retain(forecast);
    for (int i = 0; i < r->starts; i++)
        r->sample[i].month++;
    return forecast;
}

/* Mean and deviation over the globe, as rollout_scores has them. */
static void measure(const struct data *d, stn_tensor *field, double *mean, double *deviation)
{
    const int globe[] = {2, 3};
    double variance = NAN;
    *mean = NAN;
    stn_item(stn_max(stn_abs(stn_weighted_mean(field, d->weight, 2, globe, 0))), mean);
    stn_item(stn_mean(stn_weighted_var(field, d->weight, 2, globe, 0), 0, NULL, 0), &variance);
    *mean *= d->unit;
    *deviation = d->unit * sqrt(variance);
}

/* One month further, in a scope of its own: of many steps only the last fields are kept. */
static stn_status score_step(struct rollout *r, int lead, struct rollout_scores *s)
{
    const struct data *d = r->model->data;
    struct sample target[TEST_MONTHS];
    for (int i = 0; i < r->starts; i++)
        target[i] = r->sample[i];
    stn_scope_begin(d->context);
    stn_no_grad_begin(d->context);
    stn_tensor *forecast = rollout_step(r);
    measure(d, forecast, &s->mean[lead], &s->deviation[lead]);
    if (lead == 1)
        measure(d, batch_lag(d, r->starts, target, 0), &s->mean[0], &s->deviation[0]);
    if (lead <= s->leads)
        scores_of(d, r->starts, target, lead, forecast, &s->lead[lead - 1]);
    stn_no_grad_end(d->context);
    return stn_scope_end(d->context);
}

stn_status rollout_score(const struct model *model, int leads, struct rollout_scores *scores)
{
    struct rollout rollout;
    *scores = (struct rollout_scores){.leads = leads, .starts = TEST_MONTHS - leads + 1};
    stn_status status = rollout_begin(model, scores->starts, &rollout);
    for (int lead = 1; lead <= FREE_RUN && status == STN_OK; lead++)
        status = score_step(&rollout, lead, scores);
    rollout_end(&rollout);
    return status;
}
