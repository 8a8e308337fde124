/* The command line of stn-conform. */
#ifndef CONFORM_OPTIONS_H
#define CONFORM_OPTIONS_H

#include "run.h"

enum { OPTIONS_MAX_GRIDS = 32 };

struct options {
    struct run_options run;
    int n_grids, given_grids;
    struct grid grids[OPTIONS_MAX_GRIDS];
    int n_paths;
    char **paths; /* points into argv */
};

/** Reads the command line; orders argv so that the paths stand together. Without --ranks and --mesh: 1, 2, 3 and 4
 * ranks on one axis, 2x2 and 2x3 on two. @return 1, or 0 with the reason in `error`; "" asks for the usage text. */
int options_parse(int argc, char **argv, struct options *options, char *error, size_t error_size);

/** Leaves the meshes that a job of `size` ranks can run; without one, an axis of all. @return 1, or 0 with the reason
 * in `error` where a mesh that was asked for is none of them. */
int options_fit(struct options *options, int size, char *error, size_t error_size);

extern const char options_usage[];

#endif
