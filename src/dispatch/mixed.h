/* Local tensors beside tensors on a mesh, where the context promotes them (stn_promotion). */
#ifndef STNI_DISPATCH_MIXED_H
#define STNI_DISPATCH_MIXED_H

#include "dispatch/registry.h"

/* Whether the call has local inputs that are to stand for replicated ones. The same on every rank. */
int stni_mixed_found(const stn_op *op, int n_in, stn_tensor *const *in);

/* The inputs with those in place of local ones: references, the caller's, of all of them. Nothing is communicated. */
stn_status stni_mixed_promote(const stn_op *op, int n_in, stn_tensor *const *in, stn_tensor **out);

void stni_mixed_fini(int n_in, stn_tensor **promoted);

#endif
