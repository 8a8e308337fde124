#include "winds.h"

#include "common/netcdf_tile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const variables[COMPONENTS] = {"UWND", "VWND"};

static int64_t cells(const struct winds *w)
{
    return w->my_rows * w->columns;
}

static float *at(const struct winds *w, float *data, int month, int component)
{
    return data + ((int64_t)month * COMPONENTS + component) * cells(w);
}

/* One component of all months, interleaved with the other. */
static int read_component(struct winds *w, const char *path, int component, const struct grid *grid, char *error, size_t size)
{
    size_t n = (size_t)cells(w);
    float *tile = malloc((MONTHS * n + 1) * sizeof *tile);
    int ok = tile && tile_read(path, variables[component], (size_t)w->first_row, (size_t)w->my_rows, grid, tile, error, size);
    if (!tile)
        snprintf(error, size, "no memory for %d months of %s", MONTHS, variables[component]);
    for (int t = 0; ok && t < MONTHS; t++)
        for (size_t i = 0; i < n; i++)
            at(w, w->field, t, component)[i] = tile[(size_t)t * n + i] / (float)UNIT;
    free(tile);
    return ok;
}

/* Monthly means of the months before the test. */
static void take_climatology(struct winds *w)
{
    int64_t n = COMPONENTS * cells(w);
    for (int m = 0; m < YEAR; m++)
        for (int64_t i = 0; i < n; i++) {
            double sum = 0;
            for (int t = m; t < FIRST_TEST; t += YEAR)
                sum += at(w, w->field, t, 0)[i];
            at(w, w->climatology, m, 0)[i] = (float)(sum / (FIRST_TEST / YEAR));
        }
    for (int t = 0; t < MONTHS; t++)
        for (int64_t i = 0; i < n; i++)
            at(w, w->anomaly, t, 0)[i] = at(w, w->field, t, 0)[i] - at(w, w->climatology, t % YEAR, 0)[i];
}

static stn_status place_rows(struct winds *w)
{
    stn_context *context = w->context;
    int ranks = stn_context_size(context);
    const char *names[] = {"latitude"};
    stn_placement shard = stn_shard(0);
    int64_t shape[] = {w->rows, 1};
    stn_status status = stn_mesh_create(context, 1, &ranks, names, NULL, &w->mesh);
    if (status == STN_OK)
        status = stn_spec_create(context, w->mesh, &shard, STN_DTYPE_F32, 2, shape, NULL, &w->weight_spec);
    if (status != STN_OK)
        return status;
    w->first_row = stn_spec_local_offset(w->weight_spec)[0];
    w->my_rows = stn_spec_local_shape(w->weight_spec)[0];
    return STN_OK;
}

/* cos(latitude), divided by its sum over all cells of the globe: the sum runs over the ranks. */
static stn_status make_weight(struct winds *w, const struct grid *grid)
{
    stn_context *context = w->context;
    float *cosines = malloc((size_t)(w->my_rows + 1) * sizeof *cosines);
    if (!cosines)
        return STN_ERR_MEMORY;
    for (int64_t r = 0; r < w->my_rows; r++)
        cosines[r] = (float)cos(grid->latitude[w->first_row + r] * acos(-1.0) / 180);
    stn_scope_begin(context);
    stn_tensor *raw = stn_from_host(context, w->weight_spec, cosines);
    double sum = 0;
    stn_item(stn_sum(raw, 0, NULL, 0), &sum);
    stn_tensor *weight = stn_mul_number(raw, 1 / (sum * (double)w->columns));
    free(cosines);
    return stn_scope_end_keep(context, weight, &w->weight);
}

static int check_grid(const char *path, const struct grid *grid, char *error, size_t size)
{
    if (grid->times == MONTHS && grid->rows > 0 && grid->columns > 0)
        return 1;
    snprintf(error, size, "%s: %zu months of %zu x %zu cells, wanted %d months", path, grid->times, grid->rows, grid->columns, MONTHS);
    return 0;
}

static int read_fields(struct winds *w, const char *path, const struct grid *grid, char *error, size_t size)
{
    size_t n = (size_t)cells(w) * COMPONENTS;
    w->field = malloc((MONTHS * n + 1) * sizeof(float));
    w->anomaly = malloc((MONTHS * n + 1) * sizeof(float));
    w->climatology = malloc((YEAR * n + 1) * sizeof(float));
    if (!w->field || !w->anomaly || !w->climatology) {
        snprintf(error, size, "no memory for %d months of winds", MONTHS);
        return 0;
    }
    for (int c = 0; c < COMPONENTS; c++)
        if (!read_component(w, path, c, grid, error, size))
            return 0;
    take_climatology(w);
    return 1;
}

stn_status winds_read(stn_context *context, const char *folder, struct winds *winds)
{
    char path[400], error[512] = "";
    struct grid grid;
    *winds = (struct winds){.context = context};
    snprintf(path, sizeof path, "%s/monthly_navy_winds.cdf", folder);
    int ok = grid_read(path, variables[0], &grid, error, sizeof error) && check_grid(path, &grid, error, sizeof error);
    stn_status status = stn_agree(context, ok ? STN_OK : STN_ERR_IO, error);
    if (status == STN_OK) {
        winds->rows = (int64_t)grid.rows;
        winds->columns = (int64_t)grid.columns;
        status = place_rows(winds);
    }
    if (status == STN_OK) {
        ok = read_fields(winds, path, &grid, error, sizeof error);
        status = stn_agree(context, ok ? STN_OK : STN_ERR_IO, error);
    }
    if (status == STN_OK)
        status = make_weight(winds, &grid);
    grid_fini(&grid);
    return status;
}

void winds_fini(struct winds *winds)
{
    stn_tensor_release(&winds->weight);
    stn_spec_release(&winds->weight_spec);
    free(winds->field);
    free(winds->anomaly);
    free(winds->climatology);
}

stn_tensor *winds_tensor(const struct winds *winds, int64_t n, int64_t channels, const float *data)
{
    const stn_spec *spec;
    stn_placement shard = stn_shard(2);
    int64_t shape[] = {n, channels, winds->rows, winds->columns};
    if (stn_spec_create(winds->context, winds->mesh, &shard, STN_DTYPE_F32, 4, shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *tensor = stn_from_host(winds->context, spec, data);
    stn_spec_release(&spec);
    return tensor;
}

static stn_tensor *stack(const struct winds *w, int n, const int *targets, int first_lag, int n_lags)
{
    size_t month = (size_t)cells(w) * COMPONENTS;
    float *data = malloc(((size_t)n * (size_t)n_lags * month + 1) * sizeof *data);
    if (!data)
        return NULL;
    for (int s = 0; s < n; s++)
        for (int l = 0; l < n_lags; l++)
            memcpy(data + ((size_t)s * (size_t)n_lags + (size_t)l) * month, at(w, w->anomaly, targets[s] - first_lag - l, 0),
                   month * sizeof *data);
    stn_tensor *tensor = winds_tensor(w, n, (int64_t)n_lags * COMPONENTS, data);
    free(data);
    return tensor;
}

stn_tensor *winds_inputs(const struct winds *winds, int n, const int *targets)
{
    return stack(winds, n, targets, 1, LAGS);
}

stn_tensor *winds_lag(const struct winds *winds, int n, const int *targets, int lag)
{
    return stack(winds, n, targets, lag, 1);
}
