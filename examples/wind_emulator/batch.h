/* Batches: samples of months as tensors, their anomalies taken against climatologies of chosen years. */
#ifndef WIND_EMULATOR_BATCH_H
#define WIND_EMULATOR_BATCH_H

#include "data.h"

#include <stdint.h>

/* Of a target month: which training years its climatologies are made of (bit y: year y), and the sign it is given. */
struct sample {
    int month;
    uint64_t years;
    float sign;
};

/* Anomalies (n, components, rows, columns) in units. */
struct batch {
    stn_tensor *lag[LAGS + 1];     /* lag[0] is the truth, lag[k] k months before it */
    stn_tensor *setting;           /* (n, GEOGRAPHY + 2, …): where a cell lies, the calendar month of the target */
    stn_tensor *weight;            /* of the squared errors: the data's, or by element where values are missing */
};

enum { MOST_YEARS = 64 };

/* Against all training years, with the sign as it is. */
struct sample sample_plain(const struct data *data, int month);

/* Tensors of the innermost scope; a failure is the context's. */
void batch_make(const struct data *data, int n, const struct sample *samples, struct batch *batch);

/* Parts of a batch. The setting knows months after the data's last one, too. */
stn_tensor *batch_setting(const struct data *data, int n, const struct sample *samples);

stn_tensor *batch_lag(const struct data *data, int n, const struct sample *samples, int lag);

/* Weights of a lag's months: the data's, or by element where values are missing. */
stn_tensor *batch_weight(const struct data *data, int n, const struct sample *samples, int lag);

/* The field of `lag` months before as a forecast: an anomaly from the target month's climatology. */
stn_tensor *batch_persistence(const struct data *data, int n, const struct sample *samples, int lag);

#endif
