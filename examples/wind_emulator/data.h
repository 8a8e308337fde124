/* The data: monthly means on a grid, this rank's rows and columns only, as anomalies from climatologies. */
#ifndef WIND_EMULATOR_DATA_H
#define WIND_EMULATOR_DATA_H

#include "common/netcdf_tile.h"

#include <shardtensor/shardtensor.h>

enum {
    YEAR = 12,          /* months */
    TEST_MONTHS = 24,   /* the last ones of a file */
    LEAST_MONTHS = 36,
    LAGS = 2,           /* months that a forecast starts from */
    MOST_LEAD = LEAST_MONTHS - TEST_MONTHS - LAGS, /* so many months ahead the shortest file can still be fitted to */
    GEOGRAPHY = 5,      /* sin and cos of latitude, relief, sin and cos of longitude times cos of latitude */
    MOST_COMPONENTS = 8
};

/* The mesh's axes. */
enum { AXIS_DATA, AXIS_LATITUDE, AXIS_LONGITUDE, AXES };

struct source {
    const char *folder;                      /* of the winds and the relief */
    const char *file;                        /* NULL: the winds */
    const char *variables[MOST_COMPONENTS];
    int components;
};

struct data {
    stn_context *context;
    const stn_mesh *mesh;
    struct grid grid;                        /* of the globe */
    struct tile tile;                        /* this rank's */
    int components, months, first_test;      /* months before first_test are for training */
    int years;                               /* of training, the last one perhaps not whole */
    double unit;                             /* of the fields, in the file's units */
    float *field;                            /* [months][components][tile] in units */
    uint8_t *present;                        /* the same; NULL: everything is */
    float *geography;                        /* [GEOGRAPHY][tile] */
    stn_tensor *weight;                      /* (1, 1, rows, columns): cos(latitude), its sum over the globe 1 */
};

/* Reads this rank's part. Collective: what one rank finds wrong with a file is the failure of all (STN_ERR_IO). `mesh`
 * sizes multiply to the world's. What is read outlives scopes until data_fini. */
stn_status data_read(stn_context *context, const int mesh[AXES], const struct source *source, struct data *data);
void data_fini(struct data *data);

size_t data_cells(const struct data *data); /* of the tile */

/* Offset of a month's field in `field` and `present`. */
size_t data_at(const struct data *data, int month, int component);

/* A tensor (n, channels, rows, columns) cut along all axes of the mesh. */
stn_status data_spec(const struct data *data, int64_t n, int64_t channels, const stn_spec **out);

#endif
