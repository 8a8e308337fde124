/* Scores of forecasts on the test months: the emulator's and those that it has to beat. Every sum over the globe is one
 * over tensors. */
#ifndef WIND_EMULATOR_SCORES_H
#define WIND_EMULATOR_SCORES_H

#include "model.h"

enum method {
    EMULATOR,
    TWO_LAGS_PER_CELL,
    DAMPED_PERSISTENCE_PER_CELL,
    DAMPED_PERSISTENCE,
    ANOMALY_PERSISTENCE,
    PERSISTENCE,
    CLIMATOLOGY,
    METHODS
};

extern const char *const method_names[METHODS];

struct scores {
    double rmse[METHODS]; /* in the file's units */
    double acc[METHODS];  /* anomaly correlation; NaN for climatology, which has none */
    double damping;       /* the one factor of damped persistence, for this lead */
};

/* One month ahead, for all test months. Collective over the mesh, as the next one. */
stn_status scores_compute(const struct data *data, const struct model *model, struct scores *scores);

/* Of the emulator's `forecast` of the samples' months, made `lead` months ahead, and of the others' for the same months
 * from the same time. In the caller's scope, without a graph; a failure is the context's. */
void scores_of(const struct data *data, int n, const struct sample *samples, int lead, stn_tensor *forecast,
               struct scores *scores);

/* The emulator's forecast of one month and the truth, whole, in the file's units, [components][rows][columns] each: on
 * every rank. */
stn_status scores_fields(const struct data *data, const struct model *model, int month, float *forecast, float *truth);

#endif
