#include "check.h"

#include "rollout.h"
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, LOOKS = 2, FIRST_LOOK = 1 /* the second step, from 0 */ };

/* The roll-out: months ahead, and months that it begins at, an odd number on purpose. */
enum { LEADS = 5, STARTS = 3, GRADIENTS = PARAMETERS + LAGS };

static const double LOSS_BOUND = 1e-5, GRADIENT_BOUND = 1e-5, PARAMETER_BOUND = 1e-3;
/* A roll-out begins with parameters that differ by some 2e-6 already; each step adds to what comes of that. */
static const double ROLLOUT_BOUND = 5e-5;

/* The whole tensor. */
struct kept {
    int64_t n;
    float *values;
};

/* What a training left: losses, the gradients of steps 2 and 3, the parameters at the end; then the forecasts of a
 * roll-out, its loss at the end and that loss's gradients by the parameters and by the fields that it begins from. */
struct record {
    double loss[STEPS], last_loss;
    struct kept gradient[LOOKS][PARAMETERS], parameter[PARAMETERS], forecast[LEADS], last_gradient[GRADIENTS];
};

static void kept_fini(int n, struct kept *kept)
{
    for (int i = 0; i < n; i++)
        free(kept[i].values);
}

static void record_fini(struct record *r)
{
    for (int l = 0; l < LOOKS; l++)
        kept_fini(PARAMETERS, r->gradient[l]);
    kept_fini(PARAMETERS, r->parameter);
    kept_fini(LEADS, r->forecast);
    kept_fini(GRADIENTS, r->last_gradient);
}

/* On every rank. NULL: zeros, in the shape of `like`. */
static stn_status keep(stn_tensor *tensor, stn_tensor *like, struct kept *out)
{
    out->n = stn_spec_numel(stn_tensor_spec(like));
    out->values = calloc((size_t)out->n + 1, sizeof *out->values);
    if (!out->values)
        return STN_ERR_MEMORY;
    return tensor ? stn_to_host(stn_full_tensor(tensor), out->values, (size_t)out->n * sizeof *out->values) : STN_OK;
}

static stn_status keep_gradients(struct training *t, void *arg)
{
    struct record *r = arg;
    int64_t look = t->step - FIRST_LOOK;
    stn_status status = STN_OK;
    for (int k = 0; k < PARAMETERS && look >= 0 && look < LOOKS && status == STN_OK; k++) {
        stn_tensor *parameter = t->model->parameter[k].tensor, *grad = NULL;
        status = stn_grad_of(parameter, &grad);
        if (status == STN_OK)
            status = keep(grad, parameter, &r->gradient[look][k]);
    }
    return status;
}

static stn_status keep_parameters(const struct model *model, struct record *r)
{
    stn_status status = STN_OK;
    stn_scope_begin(model->data->context);
    for (int k = 0; k < PARAMETERS && status == STN_OK; k++)
        status = keep(model->parameter[k].tensor, model->parameter[k].tensor, &r->parameter[k]);
    stn_status ended = stn_scope_end(model->data->context);
    return status != STN_OK ? status : ended;
}

/* Backward through all steps of the roll-out. */
static stn_status keep_last_gradients(const struct rollout *rollout, stn_tensor *forecast, stn_tensor *const *wanted,
                                      struct record *r)
{
    const struct data *d = rollout->model->data;
    struct sample target[STARTS];
    stn_tensor *gradient[GRADIENTS];
    for (int i = 0; i < STARTS; i++)
        target[i] = sample_plain(d, rollout->sample[i].month - 1);
    stn_tensor *loss =
        stn_mse_loss(forecast, batch_lag(d, STARTS, target, 0), batch_weight(d, STARTS, target, 0), STN_REDUCE_MEAN);
    stn_status status = stn_grad(d->context, 1, &loss, NULL, GRADIENTS, wanted, 0, 0, gradient);
    if (status == STN_OK)
        status = stn_item(loss, &r->last_loss);
    for (int k = 0; k < GRADIENTS && status == STN_OK; k++)
        status = keep(gradient[k], wanted[k], &r->last_gradient[k]);
    return status;
}

static stn_status roll_out(const struct model *model, struct record *r)
{
    stn_context *context = model->data->context;
    struct rollout rollout;
    stn_tensor *wanted[GRADIENTS], *starts[LAGS] = {NULL}, *forecast = NULL;
    stn_scope_begin(context);
    stn_status status = rollout_begin(model, STARTS, &rollout);
    for (int k = 0; k < PARAMETERS; k++)
        wanted[k] = model->parameter[k].tensor;
    for (int lag = 0; lag < LAGS && status == STN_OK; lag++) {
        wanted[PARAMETERS + lag] = starts[lag] = stn_tensor_retain(rollout.lag[lag + 1]);
        status = stn_set_requires_grad(wanted[PARAMETERS + lag], 1);
    }
    for (int l = 0; l < LEADS && status == STN_OK; l++) {
        forecast = rollout_step(&rollout);
        status = keep(forecast, forecast, &r->forecast[l]);
    }
    if (status == STN_OK)
        status = keep_last_gradients(&rollout, forecast, wanted, r);
    rollout_end(&rollout);
    for (int lag = 0; lag < LAGS; lag++)
        stn_tensor_release(&starts[lag]);
    stn_status ended = stn_scope_end(context);
    return status != STN_OK ? status : ended;
}

static stn_status train(const struct data *data, const struct options *o, struct record *r)
{
    struct model model;
    struct training training = {0};
    stn_status status = model_create(data, o->seed, &model);
    if (status == STN_OK)
        status = training_create(data, &model, o->seed, o->epochs, &training);
    for (int s = 0; s < STEPS && status == STN_OK; s++) {
        int samples;
        status = training_step(&training, &r->loss[s], &samples, keep_gradients, r);
    }
    if (status == STN_OK)
        status = keep_parameters(&model, r);
    if (status == STN_OK)
        status = roll_out(&model, r);
    training_fini(&training);
    model_fini(&model);
    return status;
}

static stn_status read_and_train(stn_context *context, const int mesh[AXES], const struct options *o, struct record *r)
{
    struct data data;
    stn_status status = data_read(context, mesh, &o->source, &data);
    if (status == STN_OK)
        status = train(&data, o, r);
    data_fini(&data);
    return status;
}

static stn_status train_alone(const struct options *o, struct record *r)
{
    static const int one[AXES] = {1, 1, 1};
    const stn_context_options options = {.size = sizeof options, .threads = o->threads, .seed = o->seed};
    stn_context *context;
    stn_status status = stn_context_create(&options, &context);
    if (status != STN_OK)
        return status;
    status = read_and_train(context, one, o, r);
    stn_context_destroy(&context);
    return status;
}

/* Relative distance in the 2-norm; -1 where both are zero. */
static double distance(const struct kept *a, const struct kept *b)
{
    double square = 0, difference = 0;
    for (int64_t i = 0; i < a->n; i++) {
        double x = (double)a->values[i], y = (double)b->values[i];
        square += x * x;
        difference += (x - y) * (x - y);
    }
    return square == 0 && difference == 0 ? -1 : sqrt(difference / square);
}

static double number_distance(double a, double b)
{
    return fabs(a - b) / fabs(a);
}

static int verdict(const char *what, int compared, int of, double found, double bound)
{
    int ok = compared > 0 && found <= bound;
    printf("check: %-25s %2d of %2d compared, differ by at most %.1e (bound %.0e): %s\n", what, compared, of, found,
           bound, ok ? "agree" : "DO NOT AGREE");
    return ok;
}

/* The worst of a list of tensors; NaN is worst of all. */
static int compare_tensors(const char *what, int n, const struct kept *one, const struct kept *many, double bound)
{
    double most = 0;
    int compared = 0;
    for (int k = 0; k < n; k++) {
        double d = distance(&one[k], &many[k]);
        compared += d >= 0 || isnan(d);
        most = d > most || isnan(d) ? d : most;
    }
    return verdict(what, compared, n, most, bound);
}

static int compare_training(const struct record *one, const struct record *many, int ranks)
{
    double loss = 0;
    for (int s = 0; s < STEPS; s++) {
        double d = number_distance(one->loss[s], many->loss[s]);
        loss = d > loss || isnan(d) ? d : loss;
        printf("step %2d: loss %.8f on 1 rank, %.8f on %d\n", s + 1, one->loss[s], many->loss[s], ranks);
    }
    int ok = verdict("losses", STEPS, STEPS, loss, LOSS_BOUND);
    for (int l = 0; l < LOOKS; l++) {
        char what[32];
        snprintf(what, sizeof what, "gradients of step %d", l + FIRST_LOOK + 1);
        ok &= compare_tensors(what, PARAMETERS, one->gradient[l], many->gradient[l], GRADIENT_BOUND);
    }
    return ok & compare_tensors("parameters at the end", PARAMETERS, one->parameter, many->parameter, PARAMETER_BOUND);
}

static int compare_rollout(const struct record *one, const struct record *many)
{
    int ok = compare_tensors("forecasts of a roll-out", LEADS, one->forecast, many->forecast, ROLLOUT_BOUND);
    ok &= verdict("loss of its end", 1, 1, number_distance(one->last_loss, many->last_loss), ROLLOUT_BOUND);
    const struct kept *a = one->last_gradient, *b = many->last_gradient;
    ok &= compare_tensors("gradients by parameters", PARAMETERS, a, b, ROLLOUT_BOUND);
    return ok & compare_tensors("gradients by first fields", LAGS, a + PARAMETERS, b + PARAMETERS, ROLLOUT_BOUND);
}

stn_status check_run(stn_context *context, const struct options *o, int *agrees)
{
    struct record many = {0}, one = {0};
    stn_status status = read_and_train(context, o->mesh, o, &many);
    if (status == STN_OK && stn_context_rank(context) == 0) {
        status = train_alone(o, &one);
        *agrees = status == STN_OK &&
                  (compare_training(&one, &many, stn_context_size(context)) & compare_rollout(&one, &many));
    }
    record_fini(&one);
    record_fini(&many);
    return status;
}
