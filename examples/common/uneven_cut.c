#include "common/uneven_cut.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64 };

const stn_spec *uneven_spec(const stn_mesh *mesh, const char *placements, int ndim, const int64_t *shape)
{
    const int ranks = stn_mesh_axis_size(mesh, stn_mesh_ndim(mesh) - 1);
    const int dim = (int)strtol(strrchr(placements, 'S') + 1, NULL, 10);
    int64_t left = shape[dim], sizes[MOST_RANKS];
    const int64_t each = left / (ranks + 1);
    int n = 0;
    for (; n < ranks && n < MOST_RANKS; n++) {
        sizes[n] = n == ranks - 1 ? left : n == 1 ? 0 : each;
        left -= sizes[n];
    }
    return stn_spec_with_sizes(stn_spec_of(mesh, STN_DTYPE_F64, placements, ndim, shape), dim, n, sizes);
}
