/* The two thread-local words of the library.
 *
 * Conversion depth: above 0, ops see local tensors and run the local kernel, so that a conversion that itself uses
 * ops does not convert again. Handler frames: inside a handler for X, X means the built-in rule. Both are restored
 * on every exit path, and are zero while a user's callback runs. */
#ifndef STNI_CORE_BASE_THREAD_STATE_H
#define STNI_CORE_BASE_THREAD_STATE_H

#include <shardtensor/op.h>

struct stni_handler_frame {
    const stn_op *op;
    const struct stni_handler_frame *outer;
};

struct stni_thread_state {
    int conversion_depth;
    const struct stni_handler_frame *frames;
};

/* The words of the calling thread. */
struct stni_thread_state *stni_thread_state_here(void);

/* 1 inside a handler for `op` on this thread. */
int stni_thread_state_masks(const struct stni_thread_state *guard, const stn_op *op);

/* Zeroes the words and returns what they were; restore puts them back. */
struct stni_thread_state stni_thread_state_clear(void);
void stni_thread_state_restore(struct stni_thread_state saved);

#endif
