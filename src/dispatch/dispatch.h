/* The walk of an op: guard, handler, check and place (cached), redistribution, run, node. Knows no op by name. */
#ifndef STNI_DISPATCH_DISPATCH_H
#define STNI_DISPATCH_DISPATCH_H

#include <shardtensor/op.h>

/* Calls `op`. `attrs` is its complete attribute struct (NULL: defaults). Writes `n_out` handles, owned by the scope
 * or the caller; on failure each is the error tensor. Returns the context's status. */
stn_status stni_dispatch(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                         stn_tensor **out);

#endif
