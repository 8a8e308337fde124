/* The plan of a redistribution: which boxes this rank sends to whom, and which it receives. Pure functions on two specs. */
#ifndef STNI_CORE_SHARD_PLAN_H
#define STNI_CORE_SHARD_PLAN_H

#include "core/shard/spec.h"

/* A box of the global index space. */
struct stni_piece {
    int peer;     /* world rank */
    int contribution; /* receives: one of several addends of the same box, in rank order */
    int64_t offset[STN_MAX_NDIM], shape[STN_MAX_NDIM];
};

struct stni_plan {
    int n_send, n_recv, cap_send, cap_recv;
    struct stni_piece *send, *recv; /* sorted by peer, then by offset */
    int64_t elements_sent; /* to other ranks */
    int reduces;           /* received boxes are combined */
    stn_reduce_op op;
};

/* One exchange from `src` to `dst`, seen from world rank `rank`. Partial axes of `src` are combined at the receiver where `dst` is not
 * Partial there. Every element that a rank lacks comes from exactly one rank (per addend), never from itself if it has it. */
stn_status stni_plan_make(stn_context *context, const stn_spec *src, const stn_spec *dst, int rank, struct stni_plan *plan);
void stni_plan_free(struct stni_plan *plan);

#endif
