#include "model.h"

#include <math.h>
#include <stdlib.h>

enum { PLANE_KM = 6000, BAND_NORTH = 60 };

int model_grid(enum scenario scenario, int64_t n, struct grid *grid, double *dt)
{
    const double side = PLANE_KM * 1e3, fastest = sqrt(EARTH_GRAVITY * MODEL_DEPTH);
    if (scenario == DROP) {
        *dt = 0.5 * side / (double)n / fastest;
        return grid_make_plane(n, n, side, side, 1e-4, grid);
    }
    /* Three times as many columns make cells square at the equator; the narrowest are half as wide. */
    *dt = 0.5 * EARTH_RADIUS * (2 * BAND_NORTH * PI / 180) / (double)n / 2 / (sqrt(29400.0) + 40);
    return grid_make_band(n, 3 * n, BAND_NORTH, grid);
}

static stn_status make_area(struct model *m)
{
    const int64_t *local = stn_spec_local_shape(m->spec), first = stn_spec_local_offset(m->spec)[1],
                  whole[] = {1, m->grid->rows, m->grid->columns};
    const int64_t rows = local[1], columns = local[2];
    const stn_placement cut[] = {stn_shard(1), stn_shard(2)};
    const stn_spec *spec;
    stn_status status = stn_spec_create(m->context, m->mesh, cut, STN_DTYPE_F64, 3, whole, NULL, &spec);
    double *area = malloc((size_t)(rows * columns + 1) * sizeof *area);
    for (int64_t i = 0; area && i < rows * columns; i++)
        area[i] = m->grid->dx[first + i / columns + 1] * m->grid->dy;
    if (status == STN_OK)
        m->area = area ? stn_from_host(m->context, spec, area) : NULL;
    free(area);
    if (status == STN_OK)
        stn_spec_release(&spec);
    return status == STN_OK && !m->area ? STN_ERR_MEMORY : status;
}

stn_status model_create(stn_context *context, const struct grid *grid, const int ranks[2], double dt,
                        struct model *model)
{
    static const char *const names[] = {"y", "x"};
    const stn_placement cut[] = {stn_shard(1), stn_shard(2)};
    *model = (struct model){.context = context, .grid = grid, .dt = dt};
    stn_status status = tendency_register(context, grid, &model->tendency);
    if (status == STN_OK)
        status = stn_mesh_create(context, 2, ranks, names, NULL, &model->mesh);
    if (status == STN_OK)
        status = stn_spec_create(context, model->mesh, cut, STN_DTYPE_F64, 3,
                                 (int64_t[]){FIELDS, grid->rows, grid->columns}, NULL, &model->spec);
    return status == STN_OK ? make_area(model) : status;
}

void model_fini(struct model *model)
{
    stn_tensor_release(&model->area);
    if (model->spec)
        stn_spec_release(&model->spec);
}

static void drop(const struct grid *g, int64_t r, int64_t c, double size, double cell[FIELDS])
{
    const double y = ((double)r + 0.5) / (double)g->rows - 0.4, x = ((double)c + 0.5) / (double)g->columns - 0.45;
    cell[H] = MODEL_DEPTH + size * 50 * exp(-(x * x + y * y) / (2 * 0.07 * 0.07));
    cell[U] = cell[V] = 0;
}

static void zonal(const struct grid *g, int64_t r, double cell[FIELDS])
{
    const double fastest = 2 * PI * EARTH_RADIUS / (12 * 86400), phi = g->y[r + 1] * PI / 180;
    const double fall = EARTH_RADIUS * EARTH_ROTATION * fastest + fastest * fastest / 2;
    cell[H] = (29400 - fall * sin(phi) * sin(phi)) / g->gravity;
    cell[U] = fastest * cos(phi);
    cell[V] = 0;
}

stn_tensor *model_start(const struct model *m, enum scenario scenario, double size)
{
    const int64_t *local = stn_spec_local_shape(m->spec), *first = stn_spec_local_offset(m->spec),
                  plane = local[1] * local[2];
    double *all = malloc((size_t)(FIELDS * plane + 1) * sizeof *all), cell[FIELDS];
    for (int64_t i = 0; all && i < plane; i++) {
        const int64_t r = first[1] + i / local[2], c = first[2] + i % local[2];
        if (scenario == DROP)
            drop(m->grid, r, c, size, cell);
        else
            zonal(m->grid, r, cell);
        for (int f = 0; f < FIELDS; f++)
            all[f * plane + i] = cell[f];
    }
    stn_tensor *state = all ? stn_from_host(m->context, m->spec, all) : NULL;
    free(all);
    return state;
}

/* state + dt d/dt state. */
static stn_tensor *forward(const struct model *m, stn_tensor *state)
{
    return stn_add_scaled(state, tendency_of(state), m->dt);
}

stn_tensor *model_step(const struct model *m, stn_tensor *state)
{
    stn_tensor *first = forward(m, state), *second = stn_lerp_number(state, forward(m, first), 0.25);
    return stn_lerp_number(state, forward(m, second), 2.0 / 3);
}

stn_status model_advance(const struct model *m, stn_tensor **state, int steps)
{
    stn_status status = STN_OK;
    for (int s = 0; s < steps && status == STN_OK; s++) {
        stn_tensor *next;
        stn_scope_begin(m->context);
        status = stn_scope_end_keep(m->context, model_step(m, *state), &next);
        if (status != STN_OK)
            return status;
        stn_tensor_release(state);
        *state = next;
    }
    return status;
}

stn_tensor *model_height(stn_tensor *state)
{
    return stn_narrow(state, 0, H, 1);
}

double model_volume(const struct model *m, stn_tensor *state)
{
    double volume = NAN;
    stn_scope_begin(m->context);
    stn_item(stn_exact_sum(stn_mul(model_height(state), m->area), 0, NULL, 0), &volume);
    stn_scope_end(m->context);
    return volume;
}

double model_difference(const struct model *m, stn_tensor *state, stn_tensor *other)
{
    double apart = NAN, whole = NAN;
    stn_scope_begin(m->context);
    stn_tensor *h = model_height(state), *d = stn_sub(h, model_height(other));
    stn_item(stn_sum(stn_mul(stn_mul(d, d), m->area), 0, NULL, 0), &apart);
    stn_item(stn_sum(stn_mul(stn_mul(h, h), m->area), 0, NULL, 0), &whole);
    stn_scope_end(m->context);
    return sqrt(apart / whole);
}
