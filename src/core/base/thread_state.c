/* The two thread-local words of contract 5. */
#include "core/base/thread_state.h"

static _Thread_local struct stni_thread_state guard_here;

struct stni_thread_state *stni_thread_state_here(void)
{
    return &guard_here;
}

int stni_thread_state_masks(const struct stni_thread_state *guard, const stn_op *op)
{
    for (const struct stni_handler_frame *f = guard->frames; f; f = f->outer)
        if (f->op == op)
            return 1;
    return 0;
}

struct stni_thread_state stni_thread_state_clear(void)
{
    struct stni_thread_state saved = guard_here;
    guard_here = (struct stni_thread_state){0};
    return saved;
}

void stni_thread_state_restore(struct stni_thread_state saved)
{
    guard_here = saved;
}
