/* Places in the streams of random numbers that a program comes back to. Where a step is captured they are found anew
 * in each repetition. */
#ifndef STNI_CORE_CONTEXT_RANDOM_MARK_H
#define STNI_CORE_CONTEXT_RANDOM_MARK_H

#include <shardtensor/context.h>

struct stni_random_mark;

/* Marks where all streams stand. The caller owns one reference. */
stn_status stni_random_mark_set(stn_context *context, struct stni_random_mark **out);

/* The streams stand there again. */
stn_status stni_random_mark_return(struct stni_random_mark *mark);

/* Accepts NULL. On the context's thread. */
void stni_random_mark_release(struct stni_random_mark *mark);

#endif
