/* Scores on the test months, in m/s. */
#ifndef WIND_EMULATOR_SCORES_H
#define WIND_EMULATOR_SCORES_H

#include "train.h"

struct scores {
    double emulator, climatology, persistence, damped_persistence; /* RMSE, m/s */
    double damping; /* the factor of damped persistence, fitted on the training months */
};

/* Collective over the mesh: every sum over the globe is one over tensors. */
stn_status scores_compute(const struct winds *winds, const struct model *model, struct scores *scores);

#endif
