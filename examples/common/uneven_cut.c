#include "common/uneven_cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 512 };

const stn_spec *uneven_spec(const stn_mesh *mesh, const char *placements, int ndim, const int64_t *shape)
{
    const int ranks = stn_mesh_axis_size(mesh, stn_mesh_ndim(mesh) - 1);
    int64_t left = shape[strtol(strrchr(placements, 'S') + 1, NULL, 10)];
    const int64_t each = left / (ranks + 1);
    char text[TEXT];
    int at = snprintf(text, TEXT, "%s sizes", placements);
    for (int r = 0; r < ranks && at < TEXT; r++) {
        const int64_t size = r == ranks - 1 ? left : r == 1 ? 0 : each;
        at += snprintf(text + at, (size_t)(TEXT - at), " %d", (int)size);
        left -= size;
    }
    return stn_spec_of(mesh, STN_DTYPE_F64, text, ndim, shape);
}
