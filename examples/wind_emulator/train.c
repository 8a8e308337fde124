#include "train.h"

stn_tensor *train_loss(const struct winds *winds, stn_tensor *prediction, stn_tensor *target)
{
    stn_tensor *error = stn_add_scaled(prediction, target, -1);
    stn_tensor *sum = stn_sum(stn_mul(stn_mul(error, error), winds->weight), 0, NULL, 0);
    return stn_mul_number(sum, 1.0 / (COMPONENTS * (double)stn_tensor_shape(prediction)[0]));
}

/* Fisher and Yates, from a 64-bit linear congruential generator (Knuth's MMIX constants). */
void train_shuffle(uint64_t seed, int epoch, int order[TARGETS])
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + (uint64_t)epoch + 1;
    for (int i = 0; i < TARGETS; i++)
        order[i] = FIRST_TARGET + i;
    for (int i = TARGETS - 1; i > 0; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int j = (int)((state >> 33) % (uint64_t)(i + 1)), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

stn_status train_step(const struct winds *winds, struct model *model, int n, const int *targets, double *loss)
{
    stn_scope_begin(winds->context);
    stn_tensor *prediction = model_forward(model, winds_inputs(winds, n, targets), winds_lag(winds, n, targets, 1));
    stn_tensor *value = train_loss(winds, prediction, winds_lag(winds, n, targets, 0));
    stn_backward(value);
    model_step(model);
    stn_item(value, loss);
    return stn_scope_end(winds->context);
}

stn_status train_epoch(const struct winds *winds, struct model *model, uint64_t seed, int epoch, double *loss)
{
    int order[TARGETS];
    double sum = 0;
    train_shuffle(seed, epoch, order);
    for (int first = 0; first < TARGETS; first += BATCH) {
        int n = TARGETS - first < BATCH ? TARGETS - first : BATCH;
        double one = 0;
        stn_status status = train_step(winds, model, n, order + first, &one);
        if (status != STN_OK)
            return status;
        sum += one * n;
    }
    *loss = sum / TARGETS;
    return STN_OK;
}
