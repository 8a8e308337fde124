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
    const stn_status status = context->hold_for_step != NULL ? context->hold_for_step(context, storage) : STN_OK;
    if (status != STN_OK) {
        stni_storage_release(storage);
        return status;
    }
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

void stni_storage_add_view(struct stni_storage *storage)
{
    atomic_fetch_add_explicit(&storage->views, 1, memory_order_relaxed);
}

void stni_storage_drop_view(stn_context *context, struct stni_storage *storage)
{
    if (atomic_fetch_sub_explicit(&storage->views, 1, memory_order_relaxed) > 1)
        return;
    storage->has_grad = 0; /* the next view says it anew */
    if (storage->context == NULL)
        stni_slab_put(context->storage_slab, storage);
}

void stni_storage_free_wrapped(struct stni_storage *storage)
{
    stn_context *context = storage->context;
    void (*release)(void *arg) = storage->release;
    void *arg = storage->release_arg;
    stni_storage_put_back(storage);
    stni_lent_release(context, release, arg);
}
