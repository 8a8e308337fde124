/* The emulator: a network of three levels on the globe's grid that corrects two damping factors per cell.
 *
 *     a(t) = (f1 + y2) a(t-1) + (f2 + y3) a(t-2) + y1,   (y1, y2, y3) = network(a(t-1), a(t-2), setting) */
#ifndef WIND_EMULATOR_MODEL_H
#define WIND_EMULATOR_MODEL_H

#include "batch.h"

enum { CONVOLUTIONS = 5, HIDDEN_CONVOLUTIONS = 4, PARAMETERS = 2 * CONVOLUTIONS + 2 * HIDDEN_CONVOLUTIONS + 2 };

struct model {
    const struct data *data;
    stn_named_tensor parameter[PARAMETERS]; /* on every rank */
};

/* Parameters drawn by the seed, the same on any number of ranks. They outlive scopes until model_fini. */
stn_status model_create(const struct data *data, uint64_t seed, struct model *model);
void model_fini(struct model *model);

/* How many of the parameters, the last ones, are damping factors, which do not decay. */
enum { MODEL_FACTORS = 2 };

/* The predicted anomaly. `training` 1: with dropout. */
stn_tensor *model_forward(const struct model *model, const struct batch *batch, int training);

#endif
