#include "netcdf_tile.h"

#include <netcdf.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int failed(const char *path, const char *what, int code, char *error, size_t size)
{
    snprintf(error, size, "%s: %s: %s", path, what, nc_strerror(code));
    return 0;
}

/* The variable's three dims and their lengths. */
static int find_field(int file, const char *path, const char *variable, int *id, int dims[3], struct grid *grid, char *error, size_t size)
{
    int ndims, code = nc_inq_varid(file, variable, id);
    if (code == NC_NOERR)
        code = nc_inq_varndims(file, *id, &ndims);
    if (code != NC_NOERR)
        return failed(path, variable, code, error, size);
    if (ndims != 3) {
        snprintf(error, size, "%s: %s has %d dims, wanted (time, latitude, longitude)", path, variable, ndims);
        return 0;
    }
    code = nc_inq_vardimid(file, *id, dims);
    size_t *lengths[] = {&grid->times, &grid->rows, &grid->columns};
    for (int d = 0; d < 3 && code == NC_NOERR; d++)
        code = nc_inq_dimlen(file, dims[d], lengths[d]);
    return code == NC_NOERR ? 1 : failed(path, variable, code, error, size);
}

static int read_latitude(int file, const char *path, int dim, struct grid *grid, char *error, size_t size)
{
    char name[NC_MAX_NAME + 1];
    int id, code = nc_inq_dimname(file, dim, name);
    if (code == NC_NOERR)
        code = nc_inq_varid(file, name, &id);
    grid->latitude = malloc((grid->rows + 1) * sizeof *grid->latitude);
    if (code == NC_NOERR)
        code = grid->latitude ? nc_get_var_double(file, id, grid->latitude) : NC_ENOMEM;
    return code == NC_NOERR ? 1 : failed(path, "latitude", code, error, size);
}

/* NetCDF-C reads past the end of a short file of the classic formats without a word, so its variables' bytes are counted. HDF5 files tell. */
static int is_whole(int file, const char *path, char *error, size_t size)
{
    int format, n_variables = 0;
    long long wanted = 0;
    struct stat status;
    if (nc_inq_format(file, &format) != NC_NOERR || format == NC_FORMAT_NETCDF4 || format == NC_FORMAT_NETCDF4_CLASSIC)
        return 1;
    nc_inq_nvars(file, &n_variables);
    for (int v = 0; v < n_variables; v++) {
        int ndims = 0, dims[NC_MAX_VAR_DIMS];
        nc_type type;
        size_t bytes = 0;
        if (nc_inq_var(file, v, NULL, &type, &ndims, dims, NULL) != NC_NOERR || nc_inq_type(file, type, NULL, &bytes) != NC_NOERR)
            continue;
        for (int d = 0; d < ndims; d++) {
            size_t length = 0;
            nc_inq_dimlen(file, dims[d], &length);
            bytes *= length;
        }
        wanted += (long long)bytes;
    }
    if (stat(path, &status) == 0 && status.st_size >= wanted)
        return 1;
    snprintf(error, size, "%s: truncated: %lld bytes, wanted more than %lld", path, (long long)status.st_size, wanted);
    return 0;
}

int grid_read(const char *path, const char *variable, struct grid *grid, char *error, size_t error_size)
{
    int file, id, dims[3];
    *grid = (struct grid){0};
    pthread_mutex_lock(&lock);
    int code = nc_open(path, NC_NOWRITE, &file);
    int ok = code == NC_NOERR ? 1 : failed(path, "cannot be opened", code, error, error_size);
    if (ok) {
        ok = is_whole(file, path, error, error_size) && find_field(file, path, variable, &id, dims, grid, error, error_size) &&
             read_latitude(file, path, dims[1], grid, error, error_size);
        nc_close(file);
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

void grid_fini(struct grid *grid)
{
    free(grid->latitude);
    grid->latitude = NULL;
}

/* Cells without a value cannot be trained on. */
static int all_present(int file, int id, const float *data, size_t n)
{
    float fill;
    if (nc_get_att_float(file, id, "missing_value", &fill) != NC_NOERR)
        fill = NAN;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(data[i]) || data[i] == fill)
            return 0;
    return 1;
}

int tile_read(const char *path, const char *variable, size_t first, size_t count, const struct grid *grid, float *out, char *error,
              size_t error_size)
{
    int file, id = 0, ok = 1;
    size_t start[] = {0, first, 0}, counts[] = {grid->times, count, grid->columns};
    pthread_mutex_lock(&lock);
    int code = nc_open(path, NC_NOWRITE, &file);
    if (code != NC_NOERR) {
        ok = failed(path, "cannot be opened", code, error, error_size);
    } else {
        code = nc_inq_varid(file, variable, &id);
        if (code == NC_NOERR && count > 0)
            code = nc_get_vara_float(file, id, start, counts, out);
        if (code != NC_NOERR)
            ok = failed(path, variable, code, error, error_size);
        else if (!all_present(file, id, out, grid->times * count * grid->columns)) {
            snprintf(error, error_size, "%s: %s has cells without a value", path, variable);
            ok = 0;
        }
        nc_close(file);
    }
    pthread_mutex_unlock(&lock);
    return ok;
}
