/* Pictures of a forecast and of who holds what. */
#ifndef WIND_EMULATOR_MAPS_H
#define WIND_EMULATOR_MAPS_H

#include "model.h"

/* A map of the first test month (truth, forecast, error, on one scale) for each component, and one of the ranks, in
 * `folder`. Collective: what rank 0 cannot write is the failure of all. Builds without libpng write none. */
stn_status maps_write(const struct data *data, const struct model *model, const char *folder);

/* ", NAMES" of what is written, for a message. */
const char *maps_names(void);

#endif
