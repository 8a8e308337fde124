/* Reading a rank's own part of gridded fields from a NetCDF file. */
#ifndef EXAMPLES_COMMON_NETCDF_TILE_H
#define EXAMPLES_COMMON_NETCDF_TILE_H

#include <stddef.h>
#include <stdint.h>

struct grid {
    size_t times, rows, columns;           /* times: 1 for a field without them */
    double *latitude, *longitude;          /* degrees, as the file orders them; freed by grid_fini */
};

/* Rows first_row … first_row + rows - 1 and the same of columns. */
struct tile {
    size_t first_row, rows, first_column, columns;
};

/* All return 1, or 0 with one line in `error` that says what and where. NetCDF-C is not thread safe: one lock serves
 * all ranks. */

/* Grid of a variable (time, latitude, longitude), or (latitude, longitude) with `ndims` 2. */
int grid_read(const char *path, const char *variable, int ndims, struct grid *grid, char *error, size_t error_size);
void grid_fini(struct grid *grid);

/* Whether two grids have the same sizes and coordinates. */
int grid_equal(const struct grid *a, const struct grid *b);

/* Reads all times of a tile into out[times][rows][columns]. Packed values are unpacked (scale_factor, add_offset);
 * where the file has none (_FillValue, missing_value, not finite) out is 0 and present, of the same shape, is 0,
 * elsewhere 1. `*n_missing` counts them. */
int tile_read(const char *path, const char *variable, const struct tile *tile, const struct grid *grid, float *out,
              uint8_t *present, size_t *n_missing, char *error, size_t error_size);

#endif
