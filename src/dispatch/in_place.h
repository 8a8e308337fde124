/* Ops that change their first input. */
#ifndef STNI_DISPATCH_IN_PLACE_H
#define STNI_DISPATCH_IN_PLACE_H

#include "dispatch/walk.h"

/* Refuses a change of in[0] that others would see, or not see: before inputs are moved, since which views of it live
 * may be another matter on each rank, and who is refused and calls again, another way, is to have sent nothing.
 * @return STN_ERR_STATE, STN_ERR_MEMORY. */
stn_status stni_in_place_check(const struct stni_walk *w);

/* Makes in[0] the result, before the op runs: refuses what others see the memory of, and copies what backward will read
 * of it.
 * @return STN_ERR_STATE, STN_ERR_MEMORY. */
stn_status stni_in_place_begin(struct stni_walk *w);

#endif
