/* Completing gradients that are pending. */
#ifndef STNI_AUTOGRAD_SYNC_H
#define STNI_AUTOGRAD_SYNC_H

#include "autograd/leaf.h"

/* Reduces what is pending of `n` leaves, neighbours of one kind together, and adds it to their `grad`. Collective over their meshes. */
stn_status stni_leaves_sync(stn_context *context, int n, struct stni_leaf *const *leaves);

/* The same for every leaf of the context that holds something pending. */
stn_status stni_tape_sync(stn_context *context);

#endif
