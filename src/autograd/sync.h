/* Completing gradients that are pending. */
#ifndef STNI_AUTOGRAD_SYNC_H
#define STNI_AUTOGRAD_SYNC_H

#include "autograd/reducer.h"

/* Reduces what is pending of `n` leaves, behind what the reducer has, ends it, and adds all to the leaves' `grad`.
 * Collective over their meshes. */
stn_status stni_leaves_sync(struct stni_reducer *reducer, int n, struct stni_leaf *const *leaves);

/* The same for every leaf of the context that holds something pending. */
stn_status stni_tape_sync(struct stni_reducer *reducer);

/* stn_grad_sync in its two parts, for a caller who changes the gradients between them: reduces what is pending; runs
 * the hooks of the leaves that are due. Every entry is a leaf. */
stn_status stni_grad_complete(stn_context *context, int n, stn_tensor *const *leaves);
stn_status stni_grad_tell(stn_context *context, int n, stn_tensor *const *leaves);

#endif
