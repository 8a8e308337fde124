/* Storage: bytes of a device that tensors share. Counted; freed in the order of the context's queue. */
#ifndef STNI_CORE_TENSOR_STORAGE_H
#define STNI_CORE_TENSOR_STORAGE_H

#include "core/context/context.h"
#include "core/base/slab.h"

struct stni_storage {
    atomic_int refs;
    atomic_int views;   /* live views of tensors on it: the handle outlives its memory for them */
    atomic_int apart;   /* of them, those that may have memory of their own: what is changed here they do not show */
    uint32_t version;   /* counts changes in place, through views too */
    uint32_t has_grad;  /* of one that has views: it, or one of them, requires grad or did since the first was made */
    uint32_t frozen;    /* 1: nobody changes the memory any more */
    stn_context *context; /* NULL while the slab holds it */
    struct stni_mempool *pool; /* that the memory goes back to */
    void *data;
    size_t bytes, capacity;      /* requested; what goes to stni_mempool_release (0: not the pool's) */
    void (*release)(void *arg);  /* caller's memory: called once earlier work has ended */
    void *release_arg;
};

/* Drops a reference; 1 if it was the last. Who holds the only one needs no locked instruction: nobody else can add
 * to it. */
static inline int stni_ref_drop(atomic_int *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* Gives up a storage that got no memory (NULL: not even a handle), and keeps the failure. */
STNI_COLD stn_status stni_storage_refused(stn_context *context, struct stni_storage *storage, size_t bytes);

/* All of a new storage but its memory: one reference. */
static inline void stni_storage_init(struct stni_storage *storage, stn_context *context, size_t bytes)
{
    atomic_init(&storage->refs, 1);
    atomic_init(&storage->views, 0);
    atomic_init(&storage->apart, 0);
    storage->version = 0;
    storage->has_grad = 0;
    storage->frozen = 0;
    storage->context = context;
    storage->pool = context->tensor_pool;
    storage->bytes = bytes;
    storage->release = NULL;
    context->stats.live_storages++;
}

/* One reference, the caller's. Contents are whatever was there. A failure is a rank error, kept by the context. */
static inline stn_status stni_storage_create(stn_context *context, size_t bytes, struct stni_storage **out)
{
    struct stni_storage *storage = (struct stni_storage *)stni_slab_take(context->storage_slab);
    if (storage == NULL || stni_mempool_take(context->tensor_pool, bytes, &storage->data, &storage->capacity) != STN_OK)
        return stni_storage_refused(context, storage, bytes);
    stni_storage_init(storage, context, bytes);
    *out = storage;
    return STN_OK;
}

/* The caller's memory; `release` may be NULL, and is not called where this fails. */
stn_status stni_storage_wrap(stn_context *context, void *data, size_t bytes, void (*release)(void *), void *arg,
                             struct stni_storage **out);

/* 1 for memory of a caller's. */
static inline int stni_storage_is_lent(const struct stni_storage *storage)
{
    return storage->capacity == 0 && storage->data != NULL;
}

/* 1 for memory of the host that a device's kernels reach. An empty chunk has it where the others do. */
static inline int stni_storage_is_in_host_memory(const struct stni_storage *storage)
{
    return storage->pool->is_host && !stni_storage_is_lent(storage);
}

struct stni_storage *stni_storage_retain(struct stni_storage *storage); /* any thread */
void stni_storage_release(struct stni_storage *storage);                /* on the context's thread; accepts NULL */

/* An owner's function is called once what is on the queue now has ended: by the CPU's worker, or else by one of the
 * context's next actions or its end (stni_lent_take_ended). Where that cannot be known without a wait, and of a closed
 * context, which has nothing under way, it is called at once. */
void stni_lent_release(stn_context *context, void (*release)(void *arg), void *arg);

/* Gives wrapped memory back to its owner. */
void stni_storage_free_wrapped(struct stni_storage *storage);

/* Gives up the handle: the memory is gone. */
static inline void stni_storage_put_back(struct stni_storage *storage)
{
    stn_context *context = storage->context;
    context->stats.live_storages--;
    storage->context = NULL;
    if (atomic_load_explicit(&storage->views, memory_order_relaxed) == 0)
        stni_slab_put(context->storage_slab, storage);
}

/* Frees a storage whatever its references. */
static inline void stni_storage_free(struct stni_storage *storage)
{
    if (storage->release != NULL) {
        stni_storage_free_wrapped(storage);
        return;
    }
    if (storage->capacity > 0)
        stni_mempool_release(storage->pool, storage->data, storage->capacity);
    stni_storage_put_back(storage);
}

/* One view more, one less. On the context's thread, which the storage itself may no longer know. */
void stni_storage_add_view(struct stni_storage *storage);
void stni_storage_drop_view(stn_context *context, struct stni_storage *storage);

/* One of those that have a storage's elements, or views of them, requires grad. While there are no views nobody asks,
 * and the first that comes says it anew. */
static inline void stni_storage_note_grad(struct stni_storage *storage)
{
    if (atomic_load_explicit(&storage->views, memory_order_relaxed) > 0)
        storage->has_grad = 1;
}

#endif
