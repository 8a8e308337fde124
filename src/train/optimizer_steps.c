/* Optimizers in captured steps: each repetition counts a step, and uses the rates and corrections that hold then. */
#include "core/base/host_alloc.h"
#include "core/device/recording.h"
#include "train/optimizer.h"

#include <stdatomic.h>

/* What captured steps know of an optimizer, which may be gone before them. */
struct stni_optimizer_link {
    atomic_int refs;
    stn_context *context;
    stn_optimizer *optimizer; /* NULL once it is destroyed */
};

/* Parameters that had a gradient. */
struct stni_optimizer_counts {
    struct stni_optimizer_link *link;
    int counted; /* by the call that is being recorded */
    int n;
    int index[];
};

static void retain(void *owner)
{
    struct stni_optimizer_link *link = owner;
    atomic_fetch_add(&link->refs, 1);
}

static void release(void *owner)
{
    struct stni_optimizer_link *link = owner;
    if (atomic_fetch_sub(&link->refs, 1) == 1)
        stni_free(link);
}

static stn_status check(void *owner)
{
    const struct stni_optimizer_link *link = owner;
    if (link->optimizer)
        return STN_OK;
    return stni_fail(link->context, STN_ERR_STATE,
                     "step_run: the optimizer that the step was captured with was destroyed");
}

static void numbers(void *owner, int index, struct stni_update_numbers *out)
{
    const stn_optimizer *optimizer = ((struct stni_optimizer_link *)owner)->optimizer;
    *out = stni_optimizer_numbers(optimizer, &optimizer->parameters[index]);
}

static stn_status count(void *arg)
{
    struct stni_optimizer_counts *counts = arg;
    stn_optimizer *optimizer = counts->link->optimizer;
    if (counts->counted) {
        counts->counted = 0;
        return STN_OK;
    }
    for (int i = 0; i < counts->n; i++)
        optimizer->parameters[counts->index[i]].steps++;
    optimizer->steps++;
    return STN_OK;
}

static stn_status check_counts(void *arg)
{
    return check(((struct stni_optimizer_counts *)arg)->link);
}

static void forget(void *arg)
{
    struct stni_optimizer_counts *counts = arg;
    release(counts->link);
    stni_free(counts);
}

static stn_status link_of(stn_optimizer *optimizer)
{
    if (optimizer->link)
        return STN_OK;
    optimizer->link = stni_calloc(1, sizeof *optimizer->link);
    if (!optimizer->link)
        return stni_fail_memory(optimizer->context, "an optimizer in a captured step", sizeof *optimizer->link);
    atomic_init(&optimizer->link->refs, 1);
    optimizer->link->context = optimizer->context;
    optimizer->link->optimizer = optimizer;
    return STN_OK;
}

stn_status stni_optimizer_record(stn_optimizer *optimizer, struct stni_update_renewal *renewal,
                                 struct stni_optimizer_counts **out)
{
    STNI_TRY(link_of(optimizer));
    const size_t bytes = sizeof(struct stni_optimizer_counts) + (size_t)optimizer->n * sizeof(int);
    struct stni_optimizer_counts *counts = stni_calloc(1, bytes);
    if (!counts)
        return stni_fail_memory(optimizer->context, "an optimizer in a captured step", bytes);
    counts->link = optimizer->link;
    counts->counted = 1;
    retain(counts->link);
    STNI_TRY(stni_recording_call(optimizer->context->queue,
                                 &(struct stni_recorded_call){count, forget, counts, check_counts, "optimizer"}));
    *renewal = (struct stni_update_renewal){optimizer->link, check, numbers, retain, release};
    *out = counts;
    return STN_OK;
}

void stni_optimizer_count(struct stni_optimizer_counts *counts, int index)
{
    counts->index[counts->n++] = index;
}

void stni_optimizer_unlink(stn_optimizer *optimizer)
{
    if (!optimizer->link)
        return;
    optimizer->link->optimizer = NULL;
    release(optimizer->link);
    optimizer->link = NULL;
}
