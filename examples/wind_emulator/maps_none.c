#include "maps.h"

stn_status maps_write(const struct data *data, const struct model *model, const char *folder)
{
    (void)data, (void)model, (void)folder;
    return STN_OK;
}

const char *maps_names(void)
{
    return " (no maps: this build has no libpng)";
}
