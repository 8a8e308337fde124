/* Linear forecasts, their coefficients fitted on the training months. */
#ifndef WIND_EMULATOR_BASELINES_H
#define WIND_EMULATOR_BASELINES_H

#include "batch.h"

struct baselines {
    double damping;           /* a(t) = damping a(t-1), area-weighted least squares */
    stn_tensor *cell;         /* (1, components, rows, columns): the same for each cell and component */
    stn_tensor *lag[LAGS];    /* two lags, from sums of products that are smoothed */
};

/* Tensors of the innermost scope; a failure is the context's. */
void baselines_fit(const struct data *data, struct baselines *baselines);

#endif
