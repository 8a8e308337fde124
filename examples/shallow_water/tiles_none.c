#include "output.h"

/* Built without NetCDF. */
stn_status output_tile(const struct model *model, stn_tensor *state, double hours, const char *folder, int number)
{
    (void)model, (void)state, (void)hours, (void)folder, (void)number;
    return STN_OK;
}
