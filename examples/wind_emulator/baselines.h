/* Linear forecasts, their coefficients fitted on the training months. */
#ifndef WIND_EMULATOR_BASELINES_H
#define WIND_EMULATOR_BASELINES_H

#include "batch.h"

struct baselines {
    double damping;           /* a(t) = damping a(t - lead), area-weighted least squares */
    stn_tensor *cell;         /* (1, components, rows, columns): the same for each cell and component */
    stn_tensor *lag[LAGS];    /* of a(t - lead) and a(t - lead - 1), from sums of products that are smoothed */
};

/* For forecasts `lead` months ahead. Tensors of the innermost scope; a failure is the context's. */
void baselines_fit(const struct data *data, int lead, struct baselines *baselines);

#endif
