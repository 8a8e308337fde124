/* Whether an exchange goes beside work that needs none of it: pure, so that it can be asked without ranks. */
#ifndef STNI_OPS_EXCHANGE_HALO_OVERLAP_H
#define STNI_OPS_EXCHANGE_HALO_OVERLAP_H

#include <stdint.h>

/* `beside`: the communicator leaves this rank's cores free while data is on its way. `bytes`: sent and received by this rank. `work`: multiplications
 * that need none of it. */
int stni_halo_pays(int beside, int64_t bytes, int64_t work);

#endif
