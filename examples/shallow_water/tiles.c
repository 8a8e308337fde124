#include "output.h"

#include <netcdf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER; /* NetCDF-C is not thread safe */

struct tile {
    const struct model *model;
    const double *values; /* FIELDS x rows x columns */
    int64_t rows, columns, first_row, first_column;
    double hours;
};

static int define(int file, const struct tile *t, int variable[FIELDS], int *latitude)
{
    static const char *const names[FIELDS] = {"h", "u", "v"}, *const units[FIELDS] = {"m", "m s-1", "m s-1"};
    const long long whole[] = {t->model->grid->rows, t->model->grid->columns},
                    first[] = {t->first_row, t->first_column};
    int dims[2], code = nc_def_dim(file, "y", (size_t)t->rows, &dims[0]);
    if (code == NC_NOERR)
        code = nc_def_dim(file, "x", (size_t)t->columns, &dims[1]);
    if (code == NC_NOERR)
        code = nc_def_var(file, "y", NC_DOUBLE, 1, dims, latitude);
    for (int f = 0; f < FIELDS && code == NC_NOERR; f++) {
        code = nc_def_var(file, names[f], NC_DOUBLE, 2, dims, &variable[f]);
        if (code == NC_NOERR)
            code = nc_put_att_text(file, variable[f], "units", f == H ? 1 : 5, units[f]);
    }
    if (code == NC_NOERR)
        code = nc_put_att_longlong(file, NC_GLOBAL, "whole_shape", NC_INT64, 2, whole);
    if (code == NC_NOERR)
        code = nc_put_att_longlong(file, NC_GLOBAL, "first_cell", NC_INT64, 2, first);
    if (code == NC_NOERR)
        code = nc_put_att_double(file, NC_GLOBAL, "hours", NC_DOUBLE, 1, &t->hours);
    return code == NC_NOERR ? nc_enddef(file) : code;
}

static int write_tile(const char *path, const struct tile *t)
{
    int file, latitude, variable[FIELDS], code = nc_create(path, NC_CLOBBER | NC_NETCDF4, &file);
    if (code != NC_NOERR)
        return code;
    code = define(file, t, variable, &latitude);
    if (code == NC_NOERR)
        code = nc_put_var_double(file, latitude, t->model->grid->y + t->first_row + 1);
    for (int f = 0; f < FIELDS && code == NC_NOERR; f++)
        code = nc_put_var_double(file, variable[f], t->values + f * t->rows * t->columns);
    const int closed = nc_close(file);
    return code != NC_NOERR ? code : closed;
}

stn_status output_tile(const struct model *m, stn_tensor *state, double hours, const char *folder, int number)
{
    const int64_t *shape = stn_tensor_local_shape(state), *first = stn_spec_local_offset(stn_tensor_spec(state));
    const size_t bytes = (size_t)(FIELDS * shape[1] * shape[2]) * sizeof(double);
    const int rank = stn_context_rank(m->context);
    char path[1100];
    if (bytes == 0)
        return STN_OK; /* more ranks than rows */
    double *values = malloc(bytes);
    stn_status status = values ? stn_to_host(state, values, bytes) : STN_ERR_MEMORY;
    if (status == STN_OK) {
        const struct tile tile = {m, values, shape[1], shape[2], first[1], first[2], hours};
        snprintf(path, sizeof path, "%s/tile_%04d_%05d.nc", folder, rank, number);
        pthread_mutex_lock(&one_at_a_time);
        const int code = write_tile(path, &tile);
        pthread_mutex_unlock(&one_at_a_time);
        if (code != NC_NOERR)
            fprintf(stderr, "shallow_water: %s: %s\n", path, nc_strerror(code));
        status = code == NC_NOERR ? STN_OK : STN_ERR_IO;
    }
    free(values);
    return status;
}
