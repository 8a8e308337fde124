/* Routes that a communicator has a collective for, where parts stand one behind the other in memory. */
#ifndef STNI_OPS_DIST_NATIVE_H
#define STNI_OPS_DIST_NATIVE_H

#include "ops/dist/route.h"

#include <shardtensor/op.h>

/* Which collective does what a route says; the reverse of one is that of its adjoint. */
enum stni_native {
    STNI_NATIVE_NONE,
    STNI_NATIVE_ALL_GATHER,
    STNI_NATIVE_REDUCE_SCATTER,
    STNI_NATIVE_BROADCAST,
    STNI_NATIVE_REDUCE,
    STNI_NATIVE_ALL_TO_ALL
};

enum stni_native stni_native_reverse(enum stni_native native);

/* Whether the collective serves: nothing stands before the dim. The same on all ranks. */
int stni_native_serves(const struct stni_route_attrs *attrs, const struct stni_layout *in);

/* Runs it on the context's queue. */
stn_status stni_native_run(const stn_op_call *call, stn_comm *comm);

#endif
