#include "core/shard/mesh.h"

#include <inttypes.h>
#include <stdio.h>

/* Where a text goes on after snprintf has put `n` bytes at `at`. */
static int past(int at, int n)
{
    return n < 0 || at + n >= STNI_MESH_TEXT ? STNI_MESH_TEXT - 1 : at + n;
}

void stni_mesh_text(const stn_mesh *mesh, char text[STNI_MESH_TEXT])
{
    int at = 0;
    for (int a = 0; a < mesh->ndim; a++) {
        const size_t left = (size_t)(STNI_MESH_TEXT - at);
        const char *comma = a > 0 ? "," : "";
        at = past(at, snprintf(text + at, left, "%s%s:%d+%d", comma, mesh->names[a], mesh->sizes[a], mesh->step[a]));
    }
    const size_t left = (size_t)(STNI_MESH_TEXT - at);
    if (mesh->ranks)
        snprintf(text + at, left, "#%016" PRIx64, mesh->identity);
    else
        snprintf(text + at, left, "@%d", mesh->start);
}
