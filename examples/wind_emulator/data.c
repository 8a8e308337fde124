#include "data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double WIND_UNIT = 2; /* m/s */
static const double RELIEF_UNIT = 2000; /* m */

static double radians(double degrees)
{
    return degrees * acos(-1.0) / 180;
}

size_t data_cells(const struct data *d)
{
    return d->tile.rows * d->tile.columns;
}

size_t data_at(const struct data *d, int month, int component)
{
    return ((size_t)month * (size_t)d->components + (size_t)component) * data_cells(d);
}

stn_status data_spec(const struct data *d, int64_t n, int64_t channels, const stn_spec **out)
{
    const stn_placement cut[AXES] = {stn_shard(0), stn_shard(2), stn_shard(3)};
    const int64_t shape[] = {n, channels, (int64_t)d->grid.rows, (int64_t)d->grid.columns};
    return stn_spec_create(d->context, d->mesh, cut, STN_DTYPE_F32, 4, shape, NULL, out);
}

/* Reading. Each returns 1, or 0 with one line in `error`. */

static void source_path(const struct source *s, char *path, size_t size)
{
    if (s->file)
        snprintf(path, size, "%s", s->file);
    else
        snprintf(path, size, "%s/monthly_navy_winds.cdf", s->folder);
}

static int read_grids(struct data *d, const struct source *source, const char *path, char *error, size_t size)
{
    if (!grid_read(path, source->variables[0], 3, &d->grid, error, size))
        return 0;
    for (int c = 1; c < source->components; c++) {
        struct grid other;
        int ok = grid_read(path, source->variables[c], 3, &other, error, size),
            same = ok && grid_equal(&d->grid, &other);
        grid_fini(&other);
        if (ok && !same)
            snprintf(error, size, "%s: %s and %s lie on different grids", path, source->variables[0],
                     source->variables[c]);
        if (!same)
            return 0;
    }
    if (d->grid.times >= LEAST_MONTHS && d->grid.times < 100000 && d->grid.rows >= 3 && d->grid.columns >= 3)
        return 1;
    snprintf(error, size, "%s: %s: %zu months of %zu x %zu cells, wanted at least %d of 3 x 3", path,
             source->variables[0], d->grid.times, d->grid.rows, d->grid.columns, LEAST_MONTHS);
    return 0;
}

static int allocate(struct data *d, char *error, size_t size)
{
    size_t n = (size_t)d->months * (size_t)d->components * data_cells(d) + 1;
    d->field = malloc(n * sizeof *d->field);
    d->present = malloc(n);
    d->geography = malloc((GEOGRAPHY * data_cells(d) + 1) * sizeof *d->geography);
    if (d->field && d->present && d->geography)
        return 1;
    snprintf(error, size, "no memory for %d months of %d variables", d->months, d->components);
    return 0;
}

/* One variable of all months, interleaved with the others. */
static int read_component(struct data *d, const char *path, const char *variable, int component, size_t *missing,
                          char *error, size_t size)
{
    size_t n = data_cells(d), all = (size_t)d->months * n;
    float *values = malloc((all + 1) * sizeof *values);
    uint8_t *present = malloc(all + 1);
    int ok = values && present && tile_read(path, variable, &d->tile, &d->grid, values, present, missing, error, size);
    if (!values || !present)
        snprintf(error, size, "no memory for %d months of %s", d->months, variable);
    for (int t = 0; ok && t < d->months; t++) {
        memcpy(d->field + data_at(d, t, component), values + (size_t)t * n, n * sizeof *values);
        memcpy(d->present + data_at(d, t, component), present + (size_t)t * n, n);
    }
    free(values);
    free(present);
    return ok;
}

/* Relief at the cells' centres, bilinear between those of its own grid, which goes around the globe. */
static int read_relief(struct data *d, const struct source *source, char *error, size_t size)
{
    char path[512];
    struct grid grid = {0};
    size_t missing;
    snprintf(path, sizeof path, "%s/etopo120.cdf", source->folder);
    int ok = grid_read(path, "ROSE", 2, &grid, error, size);
    const struct tile whole = {0, grid.rows, 0, grid.columns};
    float *height = malloc((grid.rows * grid.columns + 1) * sizeof *height);
    uint8_t *present = malloc(grid.rows * grid.columns + 1);
    if (ok && (!height || !present || grid.rows < 2 || grid.columns < 2)) {
        snprintf(error, size, "%s: no relief of %zu x %zu cells", path, grid.rows, grid.columns);
        ok = 0;
    }
    ok = ok && tile_read(path, "ROSE", &whole, &grid, height, present, &missing, error, size);
    double row_step = ok ? grid.latitude[1] - grid.latitude[0] : 1,
           column_step = ok ? grid.longitude[1] - grid.longitude[0] : 1;
    for (size_t r = 0; ok && r < d->tile.rows; r++)
        for (size_t c = 0; c < d->tile.columns; c++) {
            double y = (d->grid.latitude[d->tile.first_row + r] - grid.latitude[0]) / row_step;
            double x = fmod((d->grid.longitude[d->tile.first_column + c] - grid.longitude[0]) / column_step +
                                2 * (double)grid.columns,
                            (double)grid.columns);
            y = fmin(fmax(y, 0), (double)(grid.rows - 1));
            size_t i = (size_t)fmin(floor(y), (double)(grid.rows - 2)), j = (size_t)floor(x) % grid.columns,
                   k = (j + 1) % grid.columns;
            double fy = y - (double)i, fx = x - floor(x);
            const float *low = height + i * grid.columns, *high = low + grid.columns;
            double value = (1 - fy) * ((1 - fx) * (double)low[j] + fx * (double)low[k]) +
                           fy * ((1 - fx) * (double)high[j] + fx * (double)high[k]);
            d->geography[2 * data_cells(d) + r * d->tile.columns + c] = (float)(value / RELIEF_UNIT);
        }
    free(height);
    free(present);
    grid_fini(&grid);
    return ok;
}

static void set_angles(struct data *d)
{
    size_t n = data_cells(d);
    for (size_t i = 0; i < n; i++) {
        double latitude = radians(d->grid.latitude[d->tile.first_row + i / d->tile.columns]);
        double longitude = radians(d->grid.longitude[d->tile.first_column + i % d->tile.columns]);
        d->geography[i] = (float)sin(latitude);
        d->geography[n + i] = (float)cos(latitude);
        d->geography[3 * n + i] = (float)(sin(longitude) * cos(latitude));
        d->geography[4 * n + i] = (float)(cos(longitude) * cos(latitude));
    }
}

static int read_all(struct data *d, const struct source *source, const char *path, size_t *missing, char *error,
                    size_t size)
{
    if (!allocate(d, error, size) || !read_relief(d, source, error, size))
        return 0;
    set_angles(d);
    *missing = 0;
    for (int c = 0; c < d->components; c++) {
        size_t here = 0;
        if (!read_component(d, path, source->variables[c], c, &here, error, size))
            return 0;
        *missing += here;
    }
    return 1;
}

/* Sums over the globe */

/* Adds numbers up over the ranks that hold different parts of the globe. */
static stn_status sum_over_globe(const struct data *d, int64_t n, const double *here, double *out)
{
    /* Rows of the ranks' numbers, of which the columns are summed; replicas along the data axis are one. */
    int64_t parts = stn_mesh_axis_size(d->mesh, AXIS_LATITUDE) * (int64_t)stn_mesh_axis_size(d->mesh, AXIS_LONGITUDE);
    const int64_t shape[] = {parts, n};
    const stn_placement cut[AXES] = {stn_replicate(), stn_shard(0), stn_shard(0)};
    const stn_spec *spec;
    stn_status status = stn_spec_create(d->context, d->mesh, cut, STN_DTYPE_F64, 2, shape, NULL, &spec);
    if (status != STN_OK)
        return status;
    stn_scope_begin(d->context);
    stn_tensor *rows = stn_from_host(d->context, spec, here);
    stn_tensor *total = stn_full_tensor(stn_sum(rows, 1, (int[]){0}, 0));
    stn_to_host(total, out, (size_t)n * sizeof *out);
    stn_spec_release(&spec);
    return stn_scope_end(d->context);
}

/* Cells without a value in any month count for nothing; a file of such cells alone is refused. */
static stn_status settle(struct data *d, const char *path, size_t missing, char *error, size_t size)
{
    size_t n = (size_t)d->months * (size_t)d->components * data_cells(d);
    double here[] = {(double)missing, (double)n, 0, 0}, all[4];
    for (int t = 0; t < d->first_test; t++)
        for (int c = 0; c < d->components; c++)
            for (size_t i = 0; i < data_cells(d); i++)
                here[2] += (double)(d->field[data_at(d, t, c) + i] * d->field[data_at(d, t, c) + i]);
    stn_status status = sum_over_globe(d, 4, here, all);
    if (status != STN_OK)
        return status;
    if (all[0] == all[1]) {
        snprintf(error, size, "%s: all values are missing", path);
        return STN_ERR_IO;
    }
    if (all[0] == 0) {
        free(d->present);
        d->present = NULL;
    }
    if (d->unit == 0)
        d->unit = sqrt(all[2] / ((all[1] - all[0]) * d->first_test / d->months));
    for (size_t i = 0; i < n; i++)
        d->field[i] /= (float)d->unit;
    return STN_OK;
}

static stn_status make_weight(struct data *d)
{
    const stn_spec *spec;
    double here = 0, all;
    size_t n = data_cells(d);
    float *values = malloc((n + 1) * sizeof *values);
    if (!values)
        return STN_ERR_MEMORY;
    for (size_t i = 0; i < n; i++)
        here += fmax((double)d->geography[n + i], 0);
    stn_status status = sum_over_globe(d, 1, &here, &all);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(fmax((double)d->geography[n + i], 0) / all);
    /* The one sample stays on every rank of the data axis. */
    const stn_placement cut[AXES] = {stn_replicate(), stn_shard(2), stn_shard(3)};
    const int64_t shape[] = {1, 1, (int64_t)d->grid.rows, (int64_t)d->grid.columns};
    if (status == STN_OK)
        status = stn_spec_create(d->context, d->mesh, cut, STN_DTYPE_F32, 4, shape, NULL, &spec);
    if (status == STN_OK) {
        d->weight = stn_from_host(d->context, spec, values);
        stn_spec_release(&spec);
        status = stn_context_status(d->context);
    }
    free(values);
    return status;
}

static stn_status place(struct data *d, const int mesh[AXES])
{
    static const char *const names[AXES] = {"data", "latitude", "longitude"};
    const stn_spec *spec;
    stn_status status = stn_mesh_create(d->context, AXES, mesh, names, NULL, &d->mesh);
    if (status == STN_OK)
        status = data_spec(d, 1, 1, &spec);
    if (status != STN_OK)
        return status;
    /* Which rows and columns are this rank's does not depend on the samples that it has. */
    const int64_t *shape = stn_spec_local_shape(spec), *offset = stn_spec_local_offset(spec);
    d->tile = (struct tile){(size_t)offset[2], (size_t)shape[2], (size_t)offset[3], (size_t)shape[3]};
    stn_spec_release(&spec);
    return STN_OK;
}

stn_status data_read(stn_context *context, const int mesh[AXES], const struct source *source, struct data *data)
{
    char path[512], error[640] = "";
    size_t missing = 0;
    *data = (struct data){.context = context, .components = source->components, .unit = source->file ? 0 : WIND_UNIT};
    source_path(source, path, sizeof path);
    int ok = read_grids(data, source, path, error, sizeof error);
    stn_status status = stn_agree(context, ok ? STN_OK : STN_ERR_IO, error);
    if (status != STN_OK)
        return status;
    data->months = (int)data->grid.times;
    data->first_test = data->months - TEST_MONTHS;
    data->years = (data->first_test + YEAR - 1) / YEAR;
    status = place(data, mesh);
    if (status != STN_OK)
        return status;
    ok = read_all(data, source, path, &missing, error, sizeof error);
    status = stn_agree(context, ok ? STN_OK : STN_ERR_IO, error);
    if (status == STN_OK) {
        status = settle(data, path, missing, error, sizeof error);
        status = stn_agree(context, status, error);
    }
    return status == STN_OK ? make_weight(data) : status;
}

void data_fini(struct data *data)
{
    stn_tensor_release(&data->weight);
    grid_fini(&data->grid);
    free(data->field);
    free(data->present);
    free(data->geography);
}
