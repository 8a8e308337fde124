/* Max pools: the op that gives maxima and their places, and its derivatives, which go by the places. */
#ifndef STNI_OPS_POOL_MAX_H
#define STNI_OPS_POOL_MAX_H

#include "ops/pool/pool.h"

/* grad, shaped as a max pool's output, summed at the places of the maxima. Sums of 16-bit elements are taken in f32. */
stn_tensor *stni_max_pool_backward(stn_tensor *grad, stn_tensor *indices, const struct stni_pool_attrs *attrs);

/* What the ops of max pools share: max_pool, and global_max_pool, whose attributes are the same. */
stn_status stni_max_pool_check(stn_op_call *call);
uint64_t stni_max_pool_saves(const stn_op_call *call, uint32_t needs);
stn_status stni_max_pool_check_places(const stn_backward_call *call); /* which the gradient goes by */
extern const stn_attr_schema stni_max_pool_schema[12];

/* max_pool_keep: the elements of a field that stand at their window's place, 0 elsewhere. The places lie as the field:
 * an element of each window has that window's. */
struct stni_max_keep_attrs {
    int64_t dims; /* that are pooled, the last ones */
};

/* The elements of x at the places of the maxima: the adjoint. */
stn_tensor *stni_max_pool_pick(stn_tensor *x, stn_tensor *indices, const struct stni_pool_attrs *attrs);

#endif
