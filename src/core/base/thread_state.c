/* The two thread-local words of contract 5. */
#include "core/base/thread_state.h"

static _Thread_local struct stni_guard guard_here;

struct stni_guard *stni_guard_here(void)
{
    return &guard_here;
}

int stni_guard_masks(const struct stni_guard *guard, const stn_op *op)
{
    for (const struct stni_handler_frame *f = guard->frames; f; f = f->outer)
        if (f->op == op)
            return 1;
    return 0;
}

struct stni_guard stni_guard_clear(void)
{
    struct stni_guard saved = guard_here;
    guard_here = (struct stni_guard){0};
    return saved;
}

void stni_guard_restore(struct stni_guard saved)
{
    guard_here = saved;
}
