/* Max pools: the op that gives maxima and their places, and its derivatives, which go by the places. */
#ifndef STNI_OPS_POOL_MAX_H
#define STNI_OPS_POOL_MAX_H

#include "ops/pool/pool.h"

/* grad, shaped as a max pool's output, summed at the places of the maxima. Sums of 16-bit elements are taken in f32. */
stn_tensor *stni_max_pool_backward(stn_tensor *grad, stn_tensor *indices, const struct stni_pool_attrs *attrs);

/* The elements of x at the places of the maxima: the adjoint. */
stn_tensor *stni_max_pool_pick(stn_tensor *x, stn_tensor *indices, const struct stni_pool_attrs *attrs);

#endif
