/* Storage: making, sharing and giving up the bytes of tensors. */
#include "core/tensor/storage.h"

stn_status stni_storage_refused(stn_context *context, struct stni_storage *storage, size_t bytes)
{
    if (storage == NULL)
        return stni_fail_memory(context, "a storage's handle", sizeof *storage);
    storage->context = NULL;
    stni_slab_put(context->storage_slab, storage);
    return stni_fail_memory(context, "a tensor's elements", bytes);
}

stn_status stni_storage_wrap(stn_context *context, void *data, size_t bytes, void (*release)(void *), void *arg,
                             struct stni_storage **out)
{
    struct stni_storage *storage = NULL;
    STNI_TRY(stni_storage_create(context, 0, &storage));
    storage->data = data;
    storage->bytes = bytes;
    storage->release = release;
    storage->release_arg = arg;
    *out = storage;
    return STN_OK;
}

struct stni_storage *stni_storage_retain(struct stni_storage *storage)
{
    atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
    return storage;
}

void stni_storage_release(struct stni_storage *storage)
{
    if (storage != NULL && stni_ref_drop(&storage->refs))
        stni_storage_free(storage);
}

struct release_args {
    void (*release)(void *arg);
    void *arg;
};

static stn_status release_task(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct release_args *a = args;
    a->release(a->arg);
    return STN_OK;
}

/* The owner gets its memory back once earlier work has ended: on the CPU's worker queue behind that work, without a queue handle
 * so that it runs even where the queue has failed. Another device's queue may call a task before earlier work has ended. A closed
 * context has no queue and nothing under way. */
static void release_behind(stn_queue *queue, struct release_args args)
{
    if (queue != NULL && !queue->immediate) {
        stn_device *device = queue->device;
        if (device->is_cpu && device->ops->launch(device->impl, queue->impl, NULL, release_task, &args, sizeof args) == STN_OK)
            return;
        stn_queue_sync(queue);
    }
    args.release(args.arg);
}

static void put_back(struct stni_storage *storage)
{
    stn_context *context = storage->context;
    context->stats.live_storages--;
    storage->context = NULL;
    if (atomic_load_explicit(&storage->views, memory_order_relaxed) == 0)
        stni_slab_put(context->storage_slab, storage);
}

void stni_storage_add_view(struct stni_storage *storage)
{
    atomic_fetch_add_explicit(&storage->views, 1, memory_order_relaxed);
}

void stni_storage_drop_view(stn_context *context, struct stni_storage *storage)
{
    if (atomic_fetch_sub_explicit(&storage->views, 1, memory_order_relaxed) == 1 && storage->context == NULL)
        stni_slab_put(context->storage_slab, storage);
}

static void free_wrapped(struct stni_storage *storage)
{
    stn_queue *queue = storage->context->queue;
    struct release_args args = {storage->release, storage->release_arg};
    put_back(storage);
    release_behind(queue, args);
}

void stni_storage_free(struct stni_storage *storage)
{
    if (storage->release != NULL) {
        free_wrapped(storage);
        return;
    }
    if (storage->capacity > 0)
        stni_mempool_release(storage->context->pool, storage->data, storage->capacity);
    put_back(storage);
}
