/* Whether an exchange goes beside work that needs none of it: pure, so that it can be asked without ranks. */
#ifndef STNI_OPS_EXCHANGE_HALO_OVERLAP_H
#define STNI_OPS_EXCHANGE_HALO_OVERLAP_H

#include <shardtensor/dtype.h>

#include <stdint.h>

struct stni_halo_terms {
    int beside;    /* the communicator leaves this rank's cores free while data is on its way */
    int on_device; /* a device's queue does the work, and the exchange is on a stream of its own */
    stn_dtype dtype;
    int64_t bytes; /* sent and received by this rank */
    int64_t work;  /* multiplications that need none of it */
};

int stni_halo_pays(const struct stni_halo_terms *terms);

#endif
