/* Reading a rank's own rows of a gridded field (time, latitude, longitude) from a NetCDF file. */
#ifndef EXAMPLES_COMMON_NETCDF_TILE_H
#define EXAMPLES_COMMON_NETCDF_TILE_H

#include <stddef.h>

struct grid {
    size_t times, rows, columns;
    double *latitude; /* degrees, rows entries, as the file orders them; freed by grid_fini */
};

/* Both return 1, or 0 with one line in `error` that says what and where. NetCDF-C is not thread safe: one lock serves all ranks. */
int grid_read(const char *path, const char *variable, struct grid *grid, char *error, size_t error_size);
void grid_fini(struct grid *grid);

/* Reads all times of rows first … first + count - 1 into out[times][count][columns]. */
int tile_read(const char *path, const char *variable, size_t first, size_t count, const struct grid *grid, float *out, char *error,
              size_t error_size);

#endif
