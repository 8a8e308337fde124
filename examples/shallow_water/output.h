/* What a run leaves: pictures of h, a tile of NetCDF from each rank, the state to go on from. */
#ifndef EXAMPLES_SHALLOW_WATER_OUTPUT_H
#define EXAMPLES_SHALLOW_WATER_OUTPUT_H

#include "model.h"

/* Makes the folder and those above it. Returns 1, or 0 with a line on standard error. */
int output_folder(const char *path);

/* DIR/h_HHHHH.png by the first rank. `middle` is white; `reach` above it red, below it blue. Collective. */
stn_status output_picture(const struct model *model, stn_tensor *height, double middle, double reach,
                          const char *folder, int number);

/* DIR/tile_RRRR_HHHHH.nc: this rank's part of h, u and v, and where it lies. Local. */
stn_status output_tile(const struct model *model, stn_tensor *state, double hours, const char *folder, int number);

/* DIR/state.safetensors, which any mesh can go on from. Collective. */
stn_status output_state(const struct model *model, stn_tensor *state, double hours, const char *folder);

/* Reads one into *state, in place. *hours: how old it is. Collective. */
stn_status output_restart(const struct model *model, const char *path, stn_tensor *state, double *hours);

#endif
