/* The equations, cell by cell, in vector-invariant form with the scheme that conserves energy (Sadourny 1975, J. Atmos.
 * Sci. 32, 680-689); fluxes of h leave one cell as they enter the next, so that its sum over cells stays.
 *
 * A place points into a chunk with a margin of one cell on each side, which holds the three fields one behind the
 * other. */
#ifndef EXAMPLES_SHALLOW_WATER_STENCIL_H
#define EXAMPLES_SHALLOW_WATER_STENCIL_H

#include "grid.h"

struct stencil {
    const struct grid *grid;
    int64_t plane, line; /* elements from one field to the next, from one row to the next */
};

/* A cell: its values (h; u and v are planes behind it) and its row in the grid's tables. */
struct cell {
    const double *h;
    int64_t row;
};

static inline struct cell west(struct cell c) { return (struct cell){c.h - 1, c.row}; }
static inline struct cell east(struct cell c) { return (struct cell){c.h + 1, c.row}; }
static inline struct cell south(const struct stencil *s, struct cell c)
{
    return (struct cell){c.h - s->line, c.row - 1};
}
static inline struct cell north(const struct stencil *s, struct cell c)
{
    return (struct cell){c.h + s->line, c.row + 1};
}

static inline double u_of(const struct stencil *s, struct cell c) { return c.h[s->plane]; }
static inline double v_of(const struct stencil *s, struct cell c) { return c.h[2 * s->plane]; }

/* h u through the western face, h v through the southern one. */
static inline double flux_x(const struct stencil *s, struct cell c) { return u_of(s, c) * (c.h[-1] + c.h[0]) / 2; }
static inline double flux_y(const struct stencil *s, struct cell c)
{
    return v_of(s, c) * (c.h[-s->line] + c.h[0]) / 2;
}

/* At the south-western corner: the mean h of the four cells, and (f + dv/dx - du/dy) / h. */
static inline double corner_h(const struct stencil *s, struct cell c)
{
    return (c.h[0] + c.h[-1] + c.h[-s->line] + c.h[-s->line - 1]) / 4;
}

static inline double potential_vorticity(const struct stencil *s, struct cell c)
{
    const struct grid *g = s->grid;
    const double across = v_of(s, c) - v_of(s, west(c)),
                 along = g->dx[c.row] * u_of(s, c) - g->dx[c.row - 1] * u_of(s, south(s, c));
    const double area = g->dx_south[c.row] * g->dy;
    return (g->coriolis[c.row] + (across * g->dy - along) / area) / corner_h(s, c);
}

/* g h + (u^2 + v^2) / 2, at the centre. */
static inline double bernoulli(const struct stencil *s, struct cell c)
{
    const double u0 = u_of(s, c), u1 = u_of(s, east(c)), v0 = v_of(s, c), v1 = v_of(s, north(s, c));
    return s->grid->gravity * c.h[0] + (u0 * u0 + u1 * u1 + v0 * v0 + v1 * v1) / 4;
}

static inline double tendency_h(const struct stencil *s, struct cell c)
{
    const struct grid *g = s->grid;
    const double out_x = flux_x(s, east(c)) - flux_x(s, c);
    const double out_y = g->dx_south[c.row + 1] * flux_y(s, north(s, c)) - g->dx_south[c.row] * flux_y(s, c);
    return -(out_x * g->dy + out_y) / (g->dx[c.row] * g->dy);
}

/* q times the flux along y, at a corner; and times that along x. */
static inline double turn_u(const struct stencil *s, struct cell c)
{
    return potential_vorticity(s, c) * (flux_y(s, west(c)) + flux_y(s, c)) / 2;
}

static inline double turn_v(const struct stencil *s, struct cell c)
{
    return potential_vorticity(s, c) * (flux_x(s, south(s, c)) + flux_x(s, c)) / 2;
}

static inline double tendency_u(const struct stencil *s, struct cell c)
{
    return (turn_u(s, c) + turn_u(s, north(s, c))) / 2 - (bernoulli(s, c) - bernoulli(s, west(c))) / s->grid->dx[c.row];
}

static inline int is_wall(const struct stencil *s, struct cell c)
{
    return s->grid->walls && c.row == 1; /* tables begin at row -1 */
}

static inline double tendency_v(const struct stencil *s, struct cell c)
{
    if (is_wall(s, c))
        return 0;
    return -(turn_v(s, c) + turn_v(s, east(c))) / 2 - (bernoulli(s, c) - bernoulli(s, south(s, c))) / s->grid->dy;
}

#endif
