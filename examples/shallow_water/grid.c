#include "grid.h"

#include <math.h>
#include <stdlib.h>

static int allocate(int64_t rows, int64_t columns, struct grid *grid)
{
    const size_t n = (size_t)rows + 2;
    double *all = malloc(4 * n * sizeof *all);
    *grid = (struct grid){.rows = rows, .columns = columns, .gravity = EARTH_GRAVITY,
                          .dx = all, .dx_south = all + n, .coriolis = all + 2 * n, .y = all + 3 * n};
    return all != NULL;
}

int grid_make_plane(int64_t rows, int64_t columns, double height, double width, double coriolis, struct grid *grid)
{
    if (!allocate(rows, columns, grid))
        return 0;
    grid->dy = height / (double)rows;
    for (int64_t r = 0; r < rows + 2; r++) {
        grid->dx[r] = grid->dx_south[r] = width / (double)columns;
        grid->coriolis[r] = coriolis;
        grid->y[r] = ((double)r - 0.5) * grid->dy;
    }
    return 1;
}

int grid_make_band(int64_t rows, int64_t columns, double north, struct grid *grid)
{
    const double degree = PI / 180, step = 2 * north / (double)rows, dlon = 2 * PI / (double)columns;
    if (!allocate(rows, columns, grid))
        return 0;
    grid->walls = 1;
    grid->dy = EARTH_RADIUS * step * degree;
    for (int64_t r = 0; r < rows + 2; r++) {
        const double south = -north + (double)(r - 1) * step;
        grid->y[r] = south + step / 2;
        grid->dx[r] = EARTH_RADIUS * cos(grid->y[r] * degree) * dlon;
        grid->dx_south[r] = EARTH_RADIUS * cos(south * degree) * dlon;
        grid->coriolis[r] = 2 * EARTH_ROTATION * sin(south * degree);
    }
    return 1;
}

void grid_fini(struct grid *grid)
{
    free(grid->dx); /* the others lie behind it */
}
