/* The transposed derivatives of stencil.h's functions, by the same names: each adds what its result's cotangent w
 * brings to the cotangents of what it read. They lie as the values do, `apart` elements away. */
#ifndef EXAMPLES_SHALLOW_WATER_ADJOINT_H
#define EXAMPLES_SHALLOW_WATER_ADJOINT_H

#include "stencil.h"

struct adjoint {
    struct stencil s;
    double *values, *cotangents; /* the two boxes */
};

static inline double *cotangent(const struct adjoint *a, struct cell c, int field)
{
    return a->cotangents + (c.h - a->values) + field * a->s.plane;
}

static inline void add_flux_x(const struct adjoint *a, struct cell c, double w)
{
    const double half = w * u_of(&a->s, c) / 2;
    *cotangent(a, c, U) += w * (c.h[-1] + c.h[0]) / 2;
    *cotangent(a, c, H) += half;
    *cotangent(a, west(c), H) += half;
}

static inline void add_flux_y(const struct adjoint *a, struct cell c, double w)
{
    const double half = w * v_of(&a->s, c) / 2;
    *cotangent(a, c, V) += w * (c.h[-a->s.line] + c.h[0]) / 2;
    *cotangent(a, c, H) += half;
    *cotangent(a, south(&a->s, c), H) += half;
}

static inline void add_potential_vorticity(const struct adjoint *a, struct cell c, double w)
{
    const struct stencil *s = &a->s;
    const struct grid *g = s->grid;
    const double h = corner_h(s, c), of_vorticity = w / h, of_h = -of_vorticity * potential_vorticity(s, c) / 4;
    const double area = g->dx_south[c.row] * g->dy;
    const struct cell below = south(s, c);
    *cotangent(a, c, V) += of_vorticity * g->dy / area;
    *cotangent(a, west(c), V) -= of_vorticity * g->dy / area;
    *cotangent(a, c, U) -= of_vorticity * g->dx[c.row] / area;
    *cotangent(a, below, U) += of_vorticity * g->dx[c.row - 1] / area;
    *cotangent(a, c, H) += of_h;
    *cotangent(a, west(c), H) += of_h;
    *cotangent(a, below, H) += of_h;
    *cotangent(a, west(below), H) += of_h;
}

static inline void add_bernoulli(const struct adjoint *a, struct cell c, double w)
{
    const struct stencil *s = &a->s;
    *cotangent(a, c, H) += w * s->grid->gravity;
    *cotangent(a, c, U) += w * u_of(s, c) / 2;
    *cotangent(a, east(c), U) += w * u_of(s, east(c)) / 2;
    *cotangent(a, c, V) += w * v_of(s, c) / 2;
    *cotangent(a, north(s, c), V) += w * v_of(s, north(s, c)) / 2;
}

static inline void add_tendency_h(const struct adjoint *a, struct cell c, double w)
{
    const struct grid *g = a->s.grid;
    const double x = w / g->dx[c.row], y = w / (g->dx[c.row] * g->dy);
    add_flux_x(a, east(c), -x);
    add_flux_x(a, c, x);
    add_flux_y(a, north(&a->s, c), -y * g->dx_south[c.row + 1]);
    add_flux_y(a, c, y * g->dx_south[c.row]);
}

static inline void add_turn_u(const struct adjoint *a, struct cell c, double w)
{
    const struct stencil *s = &a->s;
    const double q = potential_vorticity(s, c);
    add_potential_vorticity(a, c, w * (flux_y(s, west(c)) + flux_y(s, c)) / 2);
    add_flux_y(a, west(c), w * q / 2);
    add_flux_y(a, c, w * q / 2);
}

static inline void add_turn_v(const struct adjoint *a, struct cell c, double w)
{
    const struct stencil *s = &a->s;
    const double q = potential_vorticity(s, c);
    add_potential_vorticity(a, c, w * (flux_x(s, south(s, c)) + flux_x(s, c)) / 2);
    add_flux_x(a, south(s, c), w * q / 2);
    add_flux_x(a, c, w * q / 2);
}

static inline void add_tendency_u(const struct adjoint *a, struct cell c, double w)
{
    add_turn_u(a, c, w / 2);
    add_turn_u(a, north(&a->s, c), w / 2);
    add_bernoulli(a, c, -w / a->s.grid->dx[c.row]);
    add_bernoulli(a, west(c), w / a->s.grid->dx[c.row]);
}

static inline void add_tendency_v(const struct adjoint *a, struct cell c, double w)
{
    if (is_wall(&a->s, c))
        return;
    add_turn_v(a, c, -w / 2);
    add_turn_v(a, east(c), -w / 2);
    add_bernoulli(a, c, -w / a->s.grid->dy);
    add_bernoulli(a, south(&a->s, c), w / a->s.grid->dy);
}

#endif
