/* Training: batches in an order that the seed decides, a loss over the globe, a step. */
#ifndef WIND_EMULATOR_TRAIN_H
#define WIND_EMULATOR_TRAIN_H

#include "model.h"

enum { BATCH = 8, TARGETS = FIRST_TEST - FIRST_TARGET };

/* Area-weighted mean square of prediction minus target over the globe, components and samples: one number, on the mesh. */
stn_tensor *train_loss(const struct winds *winds, stn_tensor *prediction, stn_tensor *target);

/* The order of the target months in an epoch. */
void train_shuffle(uint64_t seed, int epoch, int order[TARGETS]);

/* One step on `n` target months; *loss is its loss. */
stn_status train_step(const struct winds *winds, struct model *model, int n, const int *targets, double *loss);

/* All batches of an epoch; *loss is their mean. */
stn_status train_epoch(const struct winds *winds, struct model *model, uint64_t seed, int epoch, double *loss);

#endif
