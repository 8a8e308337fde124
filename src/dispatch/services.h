/* Scratch memory, which the walk keeps for the functions of an op, and launches outside of a call. */
#ifndef STNI_DISPATCH_SERVICES_H
#define STNI_DISPATCH_SERVICES_H

#include "dispatch/registry.h"

/* How many pieces of scratch memory are held. */
static inline int stni_scratch_mark(const stn_context *context)
{
    return context->registry->n_scratch;
}

/* Gives back the scratch memory taken since `mark` pieces were held. The queue's order keeps it safe from work under
 * way. */
void stni_scratch_release(stn_context *context, int mark);

/* As stn_op_launch, for work that no call of the op stands behind: factories, updates of parameters. Keeps the
 * failure: that a device has no kernel is the same on every rank, a failure of the queue is this rank's. */
stn_status stni_slot_launch(const stn_op *op, int slot, stn_dtype dtype, const void *args, size_t args_size);

/* As stn_op_workspace, for such work. */
size_t stni_slot_workspace(const stn_op *op, int slot, stn_dtype dtype, const void *args);

#endif
