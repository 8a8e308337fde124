/* A model run: the grid on a mesh, states to begin with, steps in time, and what is watched. */
#ifndef EXAMPLES_SHALLOW_WATER_MODEL_H
#define EXAMPLES_SHALLOW_WATER_MODEL_H

#include "tendency.h"

enum scenario {
    DROP,   /* a plane that turns; a dome of water at rest falls apart: geostrophic adjustment */
    ZONAL   /* a band of the sphere; the steady zonal flow of Williamson et al. 1992, case 2 */
};

enum { MODEL_DEPTH = 1000 }; /* m, of the drop's water at rest */

struct model {
    stn_context *context;
    const struct grid *grid;
    struct tendency tendency;
    const stn_mesh *mesh;  /* rows x columns of ranks */
    const stn_spec *spec;  /* of a state: (FIELDS, rows, columns) */
    stn_tensor *area;      /* of cells, m^2: (1, rows, columns) */
    double dt;             /* s */
};

/* Makes a grid of n rows for a scenario, and says which step in time is stable on it. Returns 0 without memory. */
int model_grid(enum scenario scenario, int64_t n, struct grid *grid, double *dt);

/* `ranks`: rows x columns of the mesh. Collective. */
stn_status model_create(stn_context *context, const struct grid *grid, const int ranks[2], double dt,
                        struct model *model);
void model_fini(struct model *model);

/* The scenario's first state, the caller's. `size`: of the dome's height, m (1 stands for the usual one). */
stn_tensor *model_start(const struct model *model, enum scenario scenario, double size);

/* One step of Shu and Osher's third-order Runge-Kutta method (1988): what comes after `state`. */
stn_tensor *model_step(const struct model *model, stn_tensor *state);

/* Replaces the caller's *state by the one `steps` later; nothing in between is kept. */
stn_status model_advance(const struct model *model, stn_tensor **state, int steps);

/* h of a state: (1, rows, columns). */
stn_tensor *model_height(stn_tensor *state);

/* The volume of water, m^3: the exact sum over the cells, rounded once, the same bits on any mesh. Collective. */
double model_volume(const struct model *model, stn_tensor *state);

/* |h - other h| / |h|, weighted by area (Williamson et al. 1992, equation 83). Collective. */
double model_difference(const struct model *model, stn_tensor *state, stn_tensor *other);

#endif
