/* What ranks hold under a Partial placement where they hold no part of the value: the identity of its reduction. */
#ifndef STNI_CORE_REDISTRIBUTE_IDENTITY_H
#define STNI_CORE_REDISTRIBUTE_IDENTITY_H

#include <shardtensor/comm.h>

/* Fills `numel` elements at `data` with the identity of `op` (not AVG, which has none; not MIN and MAX of complex
 * numbers). That of a sum of floating numbers is -0, the one number that changes none: -0 + 0 would be 0. On the
 * queue. */
stn_status stni_fill_identity(stn_queue *queue, void *data, int64_t numel, stn_dtype dtype, stn_reduce_op op);

/* Fills them with zeros, which are positive. */
stn_status stni_fill_zeros(stn_queue *queue, void *data, int64_t numel, stn_dtype dtype);

#endif
