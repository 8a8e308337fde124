/* The data: monthly mean winds as anomalies, this rank's latitudes only. */
#ifndef WIND_EMULATOR_WINDS_H
#define WIND_EMULATOR_WINDS_H

#include <shardtensor/shardtensor.h>

/* Months: climatology over 0 … 107, training targets 2 … 107, test targets 108 … 131. */
enum { MONTHS = 132, YEAR = 12, FIRST_TARGET = 2, FIRST_TEST = 108, COMPONENTS = 2, LAGS = 2 };

struct winds {
    stn_context *context;
    const stn_mesh *mesh;
    int64_t rows, columns;             /* of the globe */
    int64_t first_row, my_rows;        /* this rank's */
    float *anomaly, *field;            /* [MONTHS][COMPONENTS][my_rows][columns], in units of 2 m/s */
    float *climatology;                /* [YEAR][COMPONENTS][my_rows][columns], the same units */
    const stn_spec *weight_spec;       /* (rows, 1), cut as the fields are */
    stn_tensor *weight;                /* cos(latitude), made to sum to 1 over the globe's cells */
};

/* Meters a second in one unit of the fields. */
static const double UNIT = 2.0;

/* Reads the rows of this rank and works out anomalies and weights. Collective: what one rank finds wrong with the file is the failure of
 * all (stn_agree). The winds outlive scopes; winds_fini releases them. */
stn_status winds_read(stn_context *context, const char *folder, struct winds *winds);
void winds_fini(struct winds *winds);

/* A tensor (n, channels, rows, columns), cut by latitude, from host memory that holds this rank's rows. */
stn_tensor *winds_tensor(const struct winds *winds, int64_t n, int64_t channels, const float *data);

/* Inputs (n, LAGS * COMPONENTS, …): anomalies of the months before each target, the last first. Targets (n, COMPONENTS, …). */
stn_tensor *winds_inputs(const struct winds *winds, int n, const int *targets);
stn_tensor *winds_lag(const struct winds *winds, int n, const int *targets, int lag);

#endif
