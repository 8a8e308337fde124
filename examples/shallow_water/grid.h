/* The grid: rows of cells, periodic along x; along y periodic too (a plane), or between walls (a band of the sphere).
 *
 * Arakawa's C grid: h stands at centres of cells, u on their western faces, v on their southern faces, vorticity at
 * their south-western corners. */
#ifndef EXAMPLES_SHALLOW_WATER_GRID_H
#define EXAMPLES_SHALLOW_WATER_GRID_H

#include <stdint.h>

enum { H, U, V, FIELDS };

struct grid {
    int64_t rows, columns;
    double gravity;          /* m / s^2 */
    double dy;               /* m */
    int walls;               /* 1: nothing passes the southern faces of row 0, which are the northern ones of the last */
    /* Of row -1 to row `rows`, so that row r is at [r + 1]: */
    double *dx, *dx_south;   /* m, at centres and at southern faces */
    double *coriolis;        /* 1 / s, at southern faces */
    double *y;               /* m, or degrees of latitude: at centres */
};

/* A plane of that size, in m. Returns 1, or 0 without memory. */
int grid_make_plane(int64_t rows, int64_t columns, double height, double width, double coriolis, struct grid *grid);

/* The sphere between latitudes -north and north, in degrees. */
int grid_make_band(int64_t rows, int64_t columns, double north, struct grid *grid);

void grid_fini(struct grid *grid);

/* Williamson et al. 1992. */
#define EARTH_RADIUS 6371220.0
#define EARTH_ROTATION 7.292e-5
#define EARTH_GRAVITY 9.80616
#define PI 3.14159265358979323846

#endif
