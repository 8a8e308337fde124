/* Ops that change their first input. */
#ifndef STNI_DISPATCH_IN_PLACE_H
#define STNI_DISPATCH_IN_PLACE_H

#include "dispatch/walk.h"

/* Makes in[0] the result, before the op runs: refuses what others see the memory of, and copies what backward will read
 * of it.
 * @return STN_ERR_STATE, STN_ERR_MEMORY. */
stn_status stni_in_place_begin(struct stni_walk *w);

#endif
