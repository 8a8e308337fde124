/* Callers' memory on its way back (storage.h).
 *
 * A GPU calls the host behind its work on a thread of the driver's, where nothing may be asked of the device: an
 * owner's function, which frees memory or records an event, would fail there or hang. That call only notes that the
 * work has ended, and the owner's function runs on the thread that uses the context. */
#include "core/tensor/storage.h"

#include "core/base/host_alloc.h"

struct stni_lent {
    struct stni_lent *next;
    void (*release)(void *arg);
    void *arg;
    atomic_int ended;
};

static void note_end(void *arg)
{
    struct stni_lent *lent = arg;
    atomic_store_explicit(&lent->ended, 1, memory_order_release);
}

/* 0 where the device cannot call the host, or there is no memory to remember what to release. The CPU's worker is a
 * thread like any other, which may call it. */
static int release_later(stn_context *context, void (*release)(void *arg), void *arg)
{
    if (context->device->is_cpu)
        return stn_queue_call(context->queue, release, arg) == STN_OK;
    struct stni_lent *lent = stni_malloc(sizeof *lent), **last = &context->lent;
    if (lent == NULL)
        return 0;
    *lent = (struct stni_lent){.release = release, .arg = arg};
    atomic_init(&lent->ended, 0);
    if (stn_queue_call(context->queue, note_end, lent) != STN_OK) {
        stni_free(lent);
        return 0;
    }
    while (*last != NULL)
        last = &(*last)->next;
    *last = lent;
    return 1;
}

void stni_lent_release(stn_context *context, void (*release)(void *arg), void *arg)
{
    stni_lent_take_ended(context);
    if (context->queue != NULL && !context->queue->immediate) {
        if (release_later(context, release, arg))
            return;
        stni_queue_sync_for(context->queue, STN_SYNC_MEMORY);
    }
    release(arg);
}

/* The owner's function may release tensors, and come here again. While the queue records it waits: what it asks of the
 * device would end the recording. */
void stni_lent_take_ended(stn_context *context)
{
    struct stni_lent *lent;
    if (context->queue != NULL && context->queue->capture != NULL)
        return;
    while ((lent = context->lent) != NULL && atomic_load_explicit(&lent->ended, memory_order_acquire)) {
        context->lent = lent->next;
        lent->release(lent->arg);
        stni_free(lent);
    }
}
