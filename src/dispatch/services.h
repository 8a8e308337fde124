/* What the walk does for the functions of an op: scratch memory. */
#ifndef STNI_DISPATCH_SERVICES_H
#define STNI_DISPATCH_SERVICES_H

#include "dispatch/registry.h"

/* How many pieces of scratch memory are held. */
static inline int stni_scratch_mark(const stn_context *context)
{
    return context->registry->n_scratch;
}

/* Gives back the scratch memory taken since `mark` pieces were held. The queue's order keeps it safe from work under way. */
void stni_scratch_release(stn_context *context, int mark);

#endif
