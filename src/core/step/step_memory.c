/* The memory of captured steps. Recorded kernels name addresses: none of these may become another tensor's while the
 * step can be run. */
#include "core/step/step_memory.h"

#include "core/base/host_alloc.h"
#include "core/tensor/host_memory.h"

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

static int is_of_step(const struct stni_step_memory *memory, const struct stni_mempool *pool)
{
    return pool == memory->pool || pool == memory->host_pool;
}

/* The caller's memory that became a tensor meanwhile is no pool's, and is held already. An empty chunk, which has no
 * memory, is written with those of other ranks: what follows from versions has to be the same on all. */
static void hold_made(void *object, void *arg)
{
    struct stni_step_memory *memory = arg;
    struct stni_storage *storage = object;
    if (storage->context != NULL && !stni_storage_is_lent(storage) && is_of_step(memory, storage->pool))
        hold(memory, storage, 1);
}

/* Beside one of the context's own; NULL: it has none. */
static stn_status make_pool(stn_context *context, struct stni_mempool *own, struct stni_mempool **out)
{
    if (own == NULL)
        return STN_OK;
    if ((own->is_host ? stni_mempool_create_host : stni_mempool_create)(context->queue, out) != STN_OK)
        return stni_fail_memory(context, "a pool of a captured step", sizeof **out);
    (*out)->immediate = 0; /* recorded kernels read what was released before they run */
    (*out)->spare = own;
    (*out)->next = context->step_pools;
    context->step_pools = *out;
    return STN_OK;
}

stn_status stni_step_memory_begin(struct stni_step_memory *memory, stn_context *context)
{
    *memory = (struct stni_step_memory){.context = context};
    STNI_TRY(reserve(memory, context->stats.live_storages));
    STNI_TRY(make_pool(context, context->own_pool, &memory->pool));
    STNI_TRY(make_pool(context, context->own_host_pool, &memory->host_pool));
    stni_slab_each(context->storage_slab, hold_living, memory);
    stni_context_use_pools(context, memory->pool, memory->host_pool);
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
    stn_context *context = memory->context;
    if (context->pool == memory->pool)
        stni_context_use_pools(context, context->own_pool, context->own_host_pool);
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

static void close_pool(struct stni_mempool **pool)
{
    if (*pool != NULL)
        stni_mempool_close(*pool);
    *pool = NULL;
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
    close_pool(&memory->pool);
    close_pool(&memory->host_pool);
    sweep(memory->context);
}
