/* --check: the same training on one rank and on all gives the same. */
#ifndef WIND_EMULATOR_CHECK_H
#define WIND_EMULATOR_CHECK_H

#include "options.h"

/* Trains on this job's ranks, then on one, compares and prints; *agrees is rank 0's verdict. Collective. */
stn_status check_run(stn_context *context, const struct options *options, int *agrees);

#endif
