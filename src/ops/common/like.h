/* Handles that only say how something is laid out: for ops whose result is to lie like a tensor that is not there
 * any more. */
#ifndef STNI_OPS_COMMON_LIKE_H
#define STNI_OPS_COMMON_LIKE_H

#include "core/tensor/tensor.h"

/* A handle that has a spec and no data. One reference, the caller's. */
stn_status stni_like(stn_context *context, const stn_spec *spec, stn_tensor **out);

#endif
