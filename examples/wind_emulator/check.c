#include "check.h"

#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, LOOKS = 2, FIRST_LOOK = 1 /* the second step, from 0 */ };

static const double LOSS_BOUND = 1e-5, GRADIENT_BOUND = 1e-5, PARAMETER_BOUND = 1e-3;

/* What a training left: losses, the gradients of steps 2 and 3, the parameters at the end. */
struct record {
    double loss[STEPS];
    float *gradient[LOOKS][PARAMETERS], *parameter[PARAMETERS];
    int64_t n[PARAMETERS];
};

static void record_fini(struct record *r)
{
    for (int k = 0; k < PARAMETERS; k++) {
        for (int l = 0; l < LOOKS; l++)
            free(r->gradient[l][k]);
        free(r->parameter[k]);
    }
}

/* The whole tensor, on every rank; NULL: zeros. */
static stn_status keep(stn_tensor *tensor, int64_t n, float **out)
{
    *out = calloc((size_t)n + 1, sizeof **out);
    if (!*out)
        return STN_ERR_MEMORY;
    return tensor ? stn_to_host(stn_full_tensor(tensor), *out, (size_t)n * sizeof **out) : STN_OK;
}

static stn_status keep_gradients(struct training *t, void *arg)
{
    struct record *r = arg;
    int64_t look = t->step - FIRST_LOOK;
    stn_status status = STN_OK;
    for (int k = 0; k < PARAMETERS && look >= 0 && look < LOOKS && status == STN_OK; k++) {
        stn_tensor *grad = NULL;
        r->n[k] = stn_spec_numel(stn_tensor_spec(t->model->parameter[k].tensor));
        status = stn_grad_of(t->model->parameter[k].tensor, &grad);
        if (status == STN_OK)
            status = keep(grad, r->n[k], &r->gradient[look][k]);
    }
    return status;
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
    stn_scope_begin(data->context);
    for (int k = 0; k < PARAMETERS && status == STN_OK; k++)
        status = keep(model.parameter[k].tensor, r->n[k], &r->parameter[k]);
    stn_status ended = stn_scope_end(data->context);
    training_fini(&training);
    model_fini(&model);
    return status != STN_OK ? status : ended;
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
static double distance(int64_t n, const float *a, const float *b)
{
    double square = 0, difference = 0;
    for (int64_t i = 0; i < n; i++) {
        square += (double)a[i] * (double)a[i];
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return square == 0 && difference == 0 ? -1 : sqrt(difference / square);
}

/* The worst of a list of tensors, and how many of them could be compared; NaN is worst of all. */
static double worst(const struct record *one, float *const *a, float *const *b, int *compared)
{
    double most = 0;
    *compared = 0;
    for (int k = 0; k < PARAMETERS; k++) {
        double d = distance(one->n[k], a[k], b[k]);
        *compared += d >= 0 || isnan(d);
        most = d > most || isnan(d) ? d : most;
    }
    return most;
}

static int verdict(const char *what, int compared, int of, double found, double bound)
{
    int ok = compared > 0 && found <= bound;
    printf("check: %-22s %2d of %2d compared, differ by at most %.1e (bound %.0e): %s\n", what, compared, of, found,
           bound, ok ? "agree" : "DO NOT AGREE");
    return ok;
}

static int compare(const struct record *one, const struct record *many, int ranks)
{
    double loss = 0;
    int compared, ok;
    for (int s = 0; s < STEPS; s++) {
        double d = fabs(one->loss[s] - many->loss[s]) / fabs(one->loss[s]);
        loss = d > loss || isnan(d) ? d : loss;
        printf("step %2d: loss %.8f on 1 rank, %.8f on %d\n", s + 1, one->loss[s], many->loss[s], ranks);
    }
    ok = verdict("losses", STEPS, STEPS, loss, LOSS_BOUND);
    for (int l = 0; l < LOOKS; l++) {
        char what[32];
        double found = worst(one, one->gradient[l], many->gradient[l], &compared);
        snprintf(what, sizeof what, "gradients of step %d", l + FIRST_LOOK + 1);
        ok &= verdict(what, compared, PARAMETERS, found, GRADIENT_BOUND);
    }
    double found = worst(one, one->parameter, many->parameter, &compared);
    return ok & verdict("parameters at the end", compared, PARAMETERS, found, PARAMETER_BOUND);
}

stn_status check_run(stn_context *context, const struct options *o, int *agrees)
{
    struct record many = {0}, one = {0};
    stn_status status = read_and_train(context, o->mesh, o, &many);
    if (status == STN_OK && stn_context_rank(context) == 0) {
        status = train_alone(o, &one);
        *agrees = status == STN_OK && compare(&one, &many, stn_context_size(context));
    }
    record_fini(&one);
    record_fini(&many);
    return status;
}
