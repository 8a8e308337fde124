#include "netcdf_tile.h"

#include <netcdf.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Where messages go, and what they are about. */
struct subject {
    const char *path, *variable;
    char *error;
    size_t size;
};

static int failed(const struct subject *s, const char *what, int code)
{
    snprintf(s->error, s->size, "%s: %s: %s", s->path, what, nc_strerror(code));
    return 0;
}

/* NetCDF-C reads past the end of a short file of the classic formats without a word, so its variables' bytes are
 * counted. HDF5 files tell. */
static int is_whole(int file, const struct subject *s)
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
        if (nc_inq_var(file, v, NULL, &type, &ndims, dims, NULL) != NC_NOERR ||
            nc_inq_type(file, type, NULL, &bytes) != NC_NOERR)
            continue;
        for (int d = 0; d < ndims; d++) {
            size_t length = 0;
            nc_inq_dimlen(file, dims[d], &length);
            bytes *= length;
        }
        wanted += (long long)bytes;
    }
    if (stat(s->path, &status) == 0 && status.st_size >= wanted)
        return 1;
    snprintf(s->error, s->size, "%s: truncated: %lld bytes, wanted more than %lld", s->path, (long long)status.st_size,
             wanted);
    return 0;
}

static int open_file(const struct subject *s, int *file)
{
    int code = nc_open(s->path, NC_NOWRITE, file);
    if (code != NC_NOERR)
        return failed(s, "cannot be opened", code);
    if (is_whole(*file, s))
        return 1;
    nc_close(*file);
    return 0;
}

/* The coordinate variable of a dim bears its name. */
static int read_coordinate(int file, int dim, size_t length, const char *what, double **out, const struct subject *s)
{
    char name[NC_MAX_NAME + 1];
    int id, code = nc_inq_dimname(file, dim, name);
    if (code == NC_NOERR)
        code = nc_inq_varid(file, name, &id);
    *out = malloc((length + 1) * sizeof **out);
    if (code == NC_NOERR)
        code = *out ? nc_get_var_double(file, id, *out) : NC_ENOMEM;
    return code == NC_NOERR ? 1 : failed(s, what, code);
}

static int read_grid(int file, int wanted_dims, struct grid *grid, const struct subject *s)
{
    int id, ndims = 0, dims[NC_MAX_VAR_DIMS], code = nc_inq_varid(file, s->variable, &id);
    if (code == NC_NOERR)
        code = nc_inq_varndims(file, id, &ndims);
    if (code != NC_NOERR)
        return failed(s, s->variable, code);
    if (ndims != wanted_dims) {
        snprintf(s->error, s->size, "%s: %s has %d dims, wanted %s", s->path, s->variable, ndims,
                 wanted_dims == 3 ? "(time, latitude, longitude)" : "(latitude, longitude)");
        return 0;
    }
    code = nc_inq_vardimid(file, id, dims);
    size_t *lengths[] = {&grid->times, &grid->rows, &grid->columns};
    grid->times = 1;
    for (int d = 0; d < ndims && code == NC_NOERR; d++)
        code = nc_inq_dimlen(file, dims[d], lengths[3 - ndims + d]);
    if (code != NC_NOERR)
        return failed(s, s->variable, code);
    return read_coordinate(file, dims[ndims - 2], grid->rows, "latitude", &grid->latitude, s) &&
           read_coordinate(file, dims[ndims - 1], grid->columns, "longitude", &grid->longitude, s);
}

int grid_read(const char *path, const char *variable, int ndims, struct grid *grid, char *error, size_t error_size)
{
    const struct subject s = {path, variable, error, error_size};
    int file, ok;
    *grid = (struct grid){0};
    pthread_mutex_lock(&lock);
    ok = open_file(&s, &file);
    if (ok) {
        ok = read_grid(file, ndims, grid, &s);
        nc_close(file);
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

void grid_fini(struct grid *grid)
{
    free(grid->latitude);
    free(grid->longitude);
    grid->latitude = grid->longitude = NULL;
}

int grid_equal(const struct grid *a, const struct grid *b)
{
    return a->times == b->times && a->rows == b->rows && a->columns == b->columns &&
           memcmp(a->latitude, b->latitude, a->rows * sizeof *a->latitude) == 0 &&
           memcmp(a->longitude, b->longitude, a->columns * sizeof *a->longitude) == 0;
}

/* The numbers of an attribute; `missing` where it has none. */
static double attribute(int file, int id, const char *name, double missing)
{
    double value;
    size_t length;
    if (nc_inq_attlen(file, id, name, &length) != NC_NOERR || length != 1 ||
        nc_get_att_double(file, id, name, &value) != NC_NOERR)
        return missing;
    return value;
}

/* Values are compared as they stand in the file, before they are unpacked. */
static size_t unpack(int file, int id, const double *raw, size_t n, float *out, uint8_t *present)
{
    double fill = attribute(file, id, "_FillValue", NAN), missing = attribute(file, id, "missing_value", NAN);
    double scale = attribute(file, id, "scale_factor", 1), offset = attribute(file, id, "add_offset", 0);
    size_t n_missing = 0;
    for (size_t i = 0; i < n; i++) {
        present[i] = isfinite(raw[i]) && raw[i] != fill && raw[i] != missing;
        out[i] = present[i] ? (float)(raw[i] * scale + offset) : 0;
        n_missing += !present[i];
    }
    return n_missing;
}

static int read_tile(int file, const struct tile *tile, const struct grid *grid, float *out, uint8_t *present,
                     size_t *n_missing, const struct subject *s)
{
    int id = 0, ndims = 0, code = nc_inq_varid(file, s->variable, &id);
    if (code == NC_NOERR)
        code = nc_inq_varndims(file, id, &ndims);
    size_t n = grid->times * tile->rows * tile->columns;
    size_t start[] = {0, tile->first_row, tile->first_column}, count[] = {grid->times, tile->rows, tile->columns};
    double *raw = malloc((n + 1) * sizeof *raw);
    if (!raw)
        code = NC_ENOMEM;
    if (code == NC_NOERR && n > 0)
        code = nc_get_vara_double(file, id, start + 3 - ndims, count + 3 - ndims, raw);
    if (code == NC_NOERR)
        *n_missing = unpack(file, id, raw, n, out, present);
    free(raw);
    return code == NC_NOERR ? 1 : failed(s, s->variable, code);
}

int tile_read(const char *path, const char *variable, const struct tile *tile, const struct grid *grid, float *out,
              uint8_t *present, size_t *n_missing, char *error, size_t error_size)
{
    const struct subject s = {path, variable, error, error_size};
    int file, ok;
    pthread_mutex_lock(&lock);
    ok = open_file(&s, &file);
    if (ok) {
        ok = read_tile(file, tile, grid, out, present, n_missing, &s);
        nc_close(file);
    }
    pthread_mutex_unlock(&lock);
    return ok;
}
