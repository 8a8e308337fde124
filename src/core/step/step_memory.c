/* The memory of captured steps. Recorded kernels name addresses: none of these may become another tensor's while the
 * step can be run. */
#include "core/step/step_memory.h"

#include "core/base/host_alloc.h"

static stn_status reserve(struct stni_step_memory *memory, int64_t n)
{
    if (n <= memory->cap)
        return STN_OK;
    const int64_t cap = 2 * memory->cap > n ? 2 * memory->cap : n + 16;
    struct stni_held *held = stni_realloc(memory->held, (size_t)cap * sizeof *held);
    if (held == NULL)
        return stni_fail_memory(memory->context, "storages of a captured step", (size_t)cap * sizeof *held);
    memory->held = held;
    memory->cap = cap;
    return STN_OK;
}

/* There is space. */
static void hold(struct stni_step_memory *memory, struct stni_storage *storage, int is_written)
{
    memory->held[memory->n++] = (struct stni_held){stni_storage_retain(storage), storage->version, is_written};
}

static void hold_living(void *object, void *arg)
{
    struct stni_storage *storage = object;
    if (storage->context != NULL)
        hold(arg, storage, 0);
}

/* The caller's memory that became a tensor meanwhile is no pool's, and is held already. An empty chunk, which has no
 * memory, is written with those of other ranks: what follows from versions has to be the same on all. */
static void hold_made(void *object, void *arg)
{
    struct stni_step_memory *memory = arg;
    struct stni_storage *storage = object;
    if (storage->context != NULL && (storage->capacity > 0 || storage->data == NULL) && storage->pool == memory->pool)
        hold(memory, storage, 1);
}

static stn_status make_pool(struct stni_step_memory *memory)
{
    stn_context *context = memory->context;
    if (stni_mempool_create(context->queue, &memory->pool) != STN_OK)
        return stni_fail_memory(context, "a pool of a captured step", sizeof *memory->pool);
    memory->pool->immediate = 0; /* recorded kernels read what was released before they run */
    memory->pool->spare = context->own_pool;
    memory->pool->next = context->step_pools;
    context->step_pools = memory->pool;
    return STN_OK;
}

stn_status stni_step_memory_begin(struct stni_step_memory *memory, stn_context *context)
{
    *memory = (struct stni_step_memory){.context = context};
    STNI_TRY(reserve(memory, context->stats.live_storages));
    STNI_TRY(make_pool(memory));
    stni_slab_each(context->storage_slab, hold_living, memory);
    context->pool = memory->pool;
    return STN_OK;
}

stn_status stni_step_memory_hold(struct stni_step_memory *memory, struct stni_storage *storage)
{
    STNI_TRY(reserve(memory, memory->n + 1));
    hold(memory, storage, 0);
    return STN_OK;
}

void stni_step_memory_leave(struct stni_step_memory *memory)
{
    if (memory->context->pool == memory->pool)
        memory->context->pool = memory->context->own_pool;
}

/* Each repetition looks at those that it writes, and at no other. */
static void put_written_first(struct stni_step_memory *memory)
{
    for (int64_t i = 0; i < memory->n; i++)
        if (memory->held[i].is_written) {
            const struct stni_held written = memory->held[i];
            memory->held[i] = memory->held[memory->n_written];
            memory->held[memory->n_written++] = written;
        }
}

stn_status stni_step_memory_note_written(struct stni_step_memory *memory)
{
    for (int64_t i = 0; i < memory->n; i++)
        memory->held[i].is_written = memory->held[i].version != memory->held[i].storage->version;
    STNI_TRY(reserve(memory, memory->n + memory->context->stats.live_storages));
    stni_slab_each(memory->context->storage_slab, hold_made, memory);
    put_written_first(memory);
    return STN_OK;
}

void stni_step_memory_changed(struct stni_step_memory *memory)
{
    for (int64_t i = 0; i < memory->n_written; i++)
        memory->held[i].storage->version++;
}

const struct stni_storage *stni_step_memory_frozen(const struct stni_step_memory *memory)
{
    for (int64_t i = 0; i < memory->n_written; i++)
        if (memory->held[i].storage->frozen)
            return memory->held[i].storage;
    return NULL;
}

/* Pools without blocks that anybody has are gone; the others wait for the next time. */
static void sweep(stn_context *context)
{
    for (struct stni_mempool **at = &context->step_pools; *at != NULL;) {
        struct stni_mempool *pool = *at;
        if (pool->queue != NULL || pool->stats.live_bytes > 0) {
            at = &pool->next;
            continue;
        }
        *at = pool->next;
        stni_mempool_destroy(&pool);
    }
}

void stni_step_memory_fini(struct stni_step_memory *memory)
{
    for (int64_t i = 0; i < memory->n; i++)
        stni_storage_release(memory->held[i].storage);
    stni_free(memory->held);
    memory->held = NULL;
    memory->n = memory->n_written = memory->cap = 0;
    if (memory->pool == NULL)
        return;
    stni_mempool_close(memory->pool);
    memory->pool = NULL;
    sweep(memory->context);
}
