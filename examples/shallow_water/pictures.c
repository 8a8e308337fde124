#include "output.h"

#include "common/picture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* North is up. */
static int draw(const struct grid *grid, const double *h, double middle, double reach, const char *path)
{
    struct picture picture;
    if (!picture_make((int)grid->columns, (int)grid->rows, &picture))
        return 0;
    for (int64_t r = 0; r < grid->rows; r++)
        for (int64_t c = 0; c < grid->columns; c++)
            picture.pixels[(grid->rows - 1 - r) * grid->columns + c] =
                picture_diverging((h[r * grid->columns + c] - middle) / reach);
    const int ok = picture_write(&picture, path);
    if (!ok)
        fprintf(stderr, "shallow_water: %s: %s\n", path, strerror(errno));
    picture_fini(&picture);
    return ok;
}

stn_status output_picture(const struct model *m, stn_tensor *height, double middle, double reach, const char *folder,
                          int number)
{
    const size_t bytes = (size_t)(m->grid->rows * m->grid->columns) * sizeof(double);
    const int first = stn_context_rank(m->context) == 0;
    char path[1100];
    int drawn = 1;
    snprintf(path, sizeof path, "%s/h_%05d.png", folder, number);
    stn_scope_begin(m->context);
    stn_tensor *whole = stn_gather_to(height, 0);
    double *h = first ? malloc(bytes) : NULL;
    if (first)
        drawn = h && stn_to_host(whole, h, bytes) == STN_OK && draw(m->grid, h, middle, reach, path);
    free(h);
    stn_status status = stn_scope_end(m->context);
    return stn_agree(m->context, status != STN_OK ? status : drawn ? STN_OK : STN_ERR_IO, "no picture");
}
