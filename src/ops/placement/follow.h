/* Placement of ops whose tensors all follow one: one layout leads (the result's, say), and each dim of the other
 * tensors corresponds to a known dim of the leader or to none. Metadata only. */
#ifndef STNI_OPS_PLACEMENT_FOLLOW_H
#define STNI_OPS_PLACEMENT_FOLLOW_H

#include "core/shard/spec.h"

#include <shardtensor/op.h>

/* A tensor that follows: the leader's dim that each of its dims is, -1 for none. A dim of another size than the
 * leader's is broadcast and counts as none. */
struct stni_follower {
    int input; /* of the call */
    int8_t of[STN_MAX_NDIM];
};

/* Places the leader, whose mesh, dtype and shape are set. Per mesh axis: the first follower that has a dim of the
 * leader sharded there decides which dim is sharded; where a follower is only sharded along other dims, or Partial,
 * the longest of the leader's first `n_dims` dims is sharded. Cuts are those of the first follower that is sharded
 * by the same axes, else balanced. */
stn_status stni_follow_lead(const stn_op_call *call, int n, const struct stni_follower *followers, int n_dims,
                            struct stni_layout *leader);

/* Where a tensor of `layout` (its mesh, dtype, shape and memory order; placements are overwritten) has to be:
 * sharded as the leader is; where it lacks the dim that the leader is sharded along, Replicate or, for a tensor that
 * is summed over it, Partial(sum). */
stn_status stni_follow(const stn_op_call *call, const struct stni_layout *leader, const int8_t of[STN_MAX_NDIM],
                       int is_sum, struct stni_layout *layout, const stn_spec **out);

#endif
