#include "train.h"

#include <stdlib.h>

static const double RATE = 1e-3, DECAY = 1e-2, AVERAGE_DECAY = 0.98;

enum { LEAST_YEARS = 3 };

int training_targets(const struct data *data)
{
    return data->first_test - FIRST_TARGET;
}

int training_batches(const struct data *data)
{
    return (training_targets(data) + BATCH - 1) / BATCH;
}

stn_status training_create(const struct data *data, struct model *model, uint64_t seed, int epochs, struct training *t)
{
    const stn_adamw_options options = {.size = sizeof options, .rate = RATE, .weight_decay = DECAY};
    const stn_parameter_group groups[] = {
        {sizeof groups[0], PARAMETERS - MODEL_FACTORS, model->parameter, 0, 0, 0},
        {sizeof groups[0], MODEL_FACTORS, model->parameter + PARAMETERS - MODEL_FACTORS, 0, 1, 0}};
    *t = (struct training){.data = data, .model = model, .seed = seed, .epochs = epochs};
    t->order = malloc((size_t)training_targets(data) * sizeof *t->order);
    stn_status status = stn_adamw_create(data->context, &options, &t->optimizer);
    for (int g = 0; g < 2 && status == STN_OK; g++)
        status = stn_optimizer_add_group(t->optimizer, &groups[g]);
    if (status == STN_OK)
        status = stn_average_create(data->context, PARAMETERS, model->parameter, &t->average);
    return status == STN_OK && !t->order ? STN_ERR_MEMORY : status;
}

void training_fini(struct training *t)
{
    stn_average_destroy(&t->average);
    stn_optimizer_destroy(&t->optimizer);
    free(t->order);
}

/* A 64-bit linear congruential generator (Knuth's MMIX constants): the upper bits of its state. */
static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* Fisher and Yates. */
static void shuffle(uint64_t *state, int n, int *items)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)draw(state, (uint64_t)(i + 1)), swap = items[i];
        items[i] = items[j];
        items[j] = swap;
    }
}

static uint64_t start(uint64_t seed, uint64_t what, uint64_t which)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + what * 0xbf58476d1ce4e5b9u + which;
    for (int i = 0; i < 4; i++)
        draw(&state, 2);
    return state;
}

static void begin_epoch(struct training *t, int64_t epoch)
{
    uint64_t state = start(t->seed, 1, (uint64_t)epoch);
    for (int i = 0; i < training_targets(t->data); i++)
        t->order[i] = FIRST_TARGET + i;
    shuffle(&state, training_targets(t->data), t->order);
}

/* A random subset of the other years, from three to all of them, and a random sign. */
static struct sample augment(const struct training *t, int month, uint64_t number)
{
    struct sample sample = sample_plain(t->data, month);
    uint64_t state = start(t->seed, 2, number);
    int others[MOST_YEARS], n = 0;
    for (int y = 0; y < t->data->years && y < MOST_YEARS; y++)
        if (y != month / YEAR && y != (month - LAGS) / YEAR)
            others[n++] = y;
    if (n >= LEAST_YEARS) {
        int kept = LEAST_YEARS + (int)draw(&state, (uint64_t)(n - LEAST_YEARS + 1));
        shuffle(&state, n, others);
        sample.years = 0;
        for (int i = 0; i < kept; i++)
            sample.years |= UINT64_C(1) << others[i];
    }
    sample.sign = draw(&state, 2) ? 1 : -1;
    return sample;
}

/* After step k. */
static double average_decay(int64_t k)
{
    double early = (double)(1 + k) / (double)(10 + k);
    return early < AVERAGE_DECAY ? early : AVERAGE_DECAY;
}

static stn_status update(struct training *t)
{
    int64_t total = (int64_t)t->epochs * training_batches(t->data);
    stn_optimizer_set_rate_factor(t->optimizer, stn_schedule_cosine(t->step, 0, total, 0));
    stn_status status = stn_optimizer_step(t->optimizer);
    if (status == STN_OK)
        status = stn_optimizer_zero_grad(t->optimizer);
    t->step++;
    return status == STN_OK ? stn_average_update(t->average, average_decay(t->step)) : status;
}

stn_status training_step(struct training *t, double *loss, int *samples, training_look look, void *arg)
{
    struct sample sample[BATCH];
    struct batch batch;
    int place = (int)(t->step % training_batches(t->data)), left = training_targets(t->data) - place * BATCH,
        n = left < BATCH ? left : BATCH;
    if (place == 0)
        begin_epoch(t, t->step / training_batches(t->data));
    for (int i = 0; i < n; i++)
        sample[i] = augment(t, t->order[place * BATCH + i], (uint64_t)t->step * BATCH + (uint64_t)i);
    *samples = n;
    stn_scope_begin(t->data->context);
    batch_make(t->data, n, sample, &batch);
    stn_tensor *value = stn_mse_loss(model_forward(t->model, &batch, 1), batch.lag[0], batch.weight, STN_REDUCE_MEAN);
    if (stn_backward(value) == STN_OK && (!look || look(t, arg) == STN_OK))
        update(t);
    stn_item(value, loss);
    return stn_scope_end(t->data->context);
}
