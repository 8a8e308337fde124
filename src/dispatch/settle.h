/* What an op that is made of others gives. */
#ifndef STNI_DISPATCH_SETTLE_H
#define STNI_DISPATCH_SETTLE_H

#include "dispatch/walk.h"

/* Takes a reference to output k, which other ops made. Of an op that is STN_OP_ALIAS it may be a view of an input; of
 * all others it has memory of its own, in every layout and on every rank. It is no view of what only they know.
 * @return STN_ERR_INTERNAL (no output), STN_ERR_MEMORY. */
stn_status stni_settle(struct stni_walk *w, int k);

/* What stni_settle left a view, as others had its memory on the way, is none where they are gone; where a graph keeps
 * one of them, it gets memory of its own. @return STN_ERR_MEMORY. */
stn_status stni_settle_late(struct stni_walk *w, int k);

/* The same logical value in memory of its own, with the same history: one reference, the caller's. */
stn_status stni_copy_with_history(stn_tensor *tensor, stn_tensor **copy);

#endif
