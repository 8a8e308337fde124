/* Training: which samples a step sees, the loss over the globe, the step. */
#ifndef WIND_EMULATOR_TRAIN_H
#define WIND_EMULATOR_TRAIN_H

#include "model.h"

enum { BATCH = 8, FIRST_TARGET = LAGS };

struct training {
    const struct data *data;
    struct model *model;
    stn_optimizer *optimizer;
    stn_average *average;   /* of the parameters: what is scored */
    uint64_t seed;
    int epochs;
    int64_t step;
    int *order;             /* target months of the present epoch */
};

/* Everything that a training needs beside the data; lives until training_fini. */
stn_status training_create(const struct data *data, struct model *model, uint64_t seed, int epochs,
                           struct training *training);
void training_fini(struct training *training);

int training_targets(const struct data *data);  /* samples of an epoch */
int training_batches(const struct data *data);  /* steps of an epoch */

/* The next step: begins a new epoch where the last one has ended. *loss is its loss; `look`, if not NULL, is called
 * between backward and the optimizer's step. */
typedef stn_status (*training_look)(struct training *training, void *arg);
stn_status training_step(struct training *training, double *loss, int *samples, training_look look, void *arg);

#endif
