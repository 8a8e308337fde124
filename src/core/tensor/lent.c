/* Callers' memory on its way back (storage.h).
 *
 * An event behind the work that may use it tells when that has ended, and the owner's function runs on the thread that
 * uses the context. A device that cannot tell of its events calls the host behind its work, on a thread where nothing
 * may be asked of it: that call only notes the end, and later work waits for it, which an event spares a GPU. */
#include "core/tensor/storage.h"

#include "core/base/host_alloc.h"

struct stni_lent {
    struct stni_lent *next;
    void (*release)(void *arg);
    void *arg;
    stn_event *end;   /* NULL: the host is called */
    atomic_int ended; /* by that call */
};

static void note_end(void *arg)
{
    struct stni_lent *lent = arg;
    atomic_store_explicit(&lent->ended, 1, memory_order_release);
}

static int has_ended(const struct stni_lent *lent)
{
    return lent->end ? stni_event_passed(lent->end) : atomic_load_explicit(&lent->ended, memory_order_acquire);
}

/* NULL where there is no memory. */
static struct stni_lent *take_entry(stn_context *context)
{
    struct stni_lent *lent = context->spare_lent;
    if (lent != NULL) {
        context->spare_lent = lent->next;
        return lent;
    }
    lent = stni_malloc(sizeof *lent);
    if (lent == NULL)
        return NULL;
    *lent = (struct stni_lent){.next = NULL};
    if (stni_device_tells_passed(context->device) && stni_event_create(context->device, &lent->end) != STN_OK)
        lent->end = NULL;
    return lent;
}

static void spare_entry(stn_context *context, struct stni_lent *lent)
{
    lent->next = context->spare_lent;
    context->spare_lent = lent;
}

/* From here on the entry ends with what is on the queue now. A queue that records refuses the call of the host. */
static stn_status mark(stn_queue *queue, struct stni_lent *lent)
{
    atomic_store_explicit(&lent->ended, 0, memory_order_relaxed);
    if (lent->end != NULL && queue->capture == NULL)
        return stni_event_record(lent->end, queue);
    return stn_queue_call(queue, note_end, lent);
}

/* 0 where neither can be had, or there is no memory to remember what to release. The CPU's worker is a thread like any
 * other, which may call the owner's function. */
static int release_later(stn_context *context, void (*release)(void *arg), void *arg)
{
    if (context->device->is_cpu)
        return stn_queue_call(context->queue, release, arg) == STN_OK;
    struct stni_lent *lent = take_entry(context);
    if (lent == NULL)
        return 0;
    if (mark(context->queue, lent) != STN_OK) {
        spare_entry(context, lent);
        return 0;
    }
    lent->release = release;
    lent->arg = arg;
    lent->next = NULL;
    *(context->lent != NULL ? &context->last_lent->next : &context->lent) = lent;
    context->last_lent = lent;
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
    while ((lent = context->lent) != NULL && has_ended(lent)) {
        void (*release)(void *arg) = lent->release;
        void *arg = lent->arg;
        context->lent = lent->next;
        spare_entry(context, lent);
        release(arg);
    }
}

void stni_lent_close(stn_context *context)
{
    struct stni_lent *lent;
    stni_lent_take_ended(context);
    while ((lent = context->spare_lent) != NULL) {
        context->spare_lent = lent->next;
        stni_event_destroy(&lent->end);
        stni_free(lent);
    }
}
