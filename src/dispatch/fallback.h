/* The fallback for "no rule": everything replicated, the local kernel on each rank, the result laid out as an input
 * was. */
#ifndef STNI_DISPATCH_FALLBACK_H
#define STNI_DISPATCH_FALLBACK_H

#include <shardtensor/op.h>

/* Fills want and out_spec of a call that has no rule: want is Replicate on every axis, out_spec the spec of an input
 * of equal shape (the first with a Shard), else Replicate. */
stn_status stni_fallback_place(stn_op_call *call);

/* Runs the op on local tensors, then lays the outputs out as out_spec says. call->in is replicated. */
stn_status stni_fallback_run(stn_op_call *call);

#endif
