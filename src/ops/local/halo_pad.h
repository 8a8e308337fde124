/* Chunks with margins, taken as ops/redistribute/local.h takes chunks. */
#ifndef STNI_OPS_LOCAL_HALO_PAD_H
#define STNI_OPS_LOCAL_HALO_PAD_H

#include "ops/redistribute/local.h"

#include <shardtensor/local.h>

/* Whether chunks of `spec` have such margins. Metadata only; `what` begins messages. */
stn_status stni_halo_pad_check(const stn_halo *halo, const stn_spec *spec, const char *what);

/* `tensor` has no pending reduction, and `halo` was checked. */
stn_status stni_halo_pad_take(stn_tensor *tensor, const stn_halo *halo, const struct stni_local_axes *axes,
                          stn_tensor **out);

#endif
