/* The caching allocator's small blocks: one LIFO stack of free blocks per size class.
 *
 * Less than 1/8 is lost. Free blocks are listed outside themselves: queued kernels may still be writing to them, and a
 * device's memory may not be the host's to write. */
#include "core/device/mempool_large.h"

#include "core/base/host_alloc.h"

#include <assert.h>
#include <stdlib.h>

static int grow(void **items, size_t *cap, size_t need, size_t item_bytes)
{
    if (need <= *cap)
        return 1;
    size_t cap_new = *cap == 0 ? 4 : 2 * *cap;
    void *grown = stni_realloc(*items, cap_new * item_bytes);
    if (grown == NULL)
        return 0;
    *items = grown;
    *cap = cap_new;
    return 1;
}

/* Makes space in the lists for one more block, before it is allocated. */
static int make_room(struct stni_mempool *pool, struct stni_mempool_class *class)
{
    void *blocks = pool->blocks, *stack = class->free;
    int made = grow(&blocks, &pool->cap_blocks, pool->n_blocks + 1, sizeof(struct stni_mempool_block)) &&
               grow(&stack, &class->cap, class->n_blocks + 1, sizeof(void *));
    pool->blocks = blocks;
    class->free = stack;
    return made;
}

static stn_status device_alloc(struct stni_mempool *pool, size_t bytes, void **out)
{
    stn_status status = stni_mempool_device_allocate(pool, bytes, out);
    if (status == STN_OK || status == STN_ERR_CALLBACK)
        return status;
    stni_mempool_trim(pool->spare ? pool->spare : pool);
    return stni_mempool_device_allocate(pool, bytes, out);
}

static stn_status new_block(struct stni_mempool *pool, int c, void **out)
{
    struct stni_mempool_class *class = &pool->classes[c];
    size_t bytes = stni_size_of_class(c);
    if (!make_room(pool, class) || device_alloc(pool, bytes, out) != STN_OK)
        return STN_ERR_MEMORY;
    assert((uintptr_t)*out % STNI_SIZE_STEP == 0);
    pool->blocks[pool->n_blocks++] = (struct stni_mempool_block){*out, bytes};
    class->n_blocks++;
    return STN_OK;
}

static stn_status alloc_block(struct stni_mempool *pool, size_t bytes, void **out, size_t *capacity)
{
    int c = stni_size_class(bytes);
    STNI_TRY(new_block(pool, c, out));
    if (pool->immediate)
        stni_poison((char *)*out + bytes, stni_size_of_class(c) - bytes);
    stni_mempool_count(pool, bytes);
    *capacity = bytes;
    return STN_OK;
}

stn_status stni_mempool_take_new(struct stni_mempool *pool, size_t bytes, void **out, size_t *capacity)
{
    *out = NULL;
    *capacity = 0;
    if (bytes == 0)
        return STN_OK;
    if (bytes > PTRDIFF_MAX)
        return STN_ERR_MEMORY;
    return bytes > STNI_POOL_SMALL ? stni_mempool_take_large(pool, bytes, out, capacity)
                                   : alloc_block(pool, bytes, out, capacity);
}

static int compare_blocks(const void *a, const void *b)
{
    const struct stni_mempool_block *x = a, *y = b;
    return (x->pointer > y->pointer) - (x->pointer < y->pointer);
}

static struct stni_mempool_block *find_block(const struct stni_mempool *pool, void *pointer)
{
    struct stni_mempool_block key = {pointer, 0};
    return bsearch(&key, pool->blocks, pool->n_blocks, sizeof key, compare_blocks);
}

/* What is queued may still read it. The queue is the spare pool's, and gone where that is closed too. */
static void wait_for_readers(const struct stni_mempool *pool)
{
    if (pool->spare && pool->spare->queue)
        stni_queue_sync_for(pool->spare->queue, STN_SYNC_MEMORY);
}

/* The block stays in the list, with no bytes, so that a thousand releases move nothing. */
static void release_closed(struct stni_mempool *pool, void *pointer)
{
    struct stni_mempool_block *block = find_block(pool, pointer);
    stni_mempool_device_deallocate(pool, block->pointer, block->bytes);
    block->bytes = 0;
}

void stni_mempool_release_other(struct stni_mempool *pool, void *pointer, size_t capacity)
{
    if (capacity == 0)
        return;
    if (pool->queue == NULL)
        wait_for_readers(pool);
    if (capacity > STNI_POOL_SMALL)
        stni_mempool_release_large(pool, pointer, capacity);
    else
        release_closed(pool, pointer);
    pool->stats.live_bytes -= (int64_t)capacity;
}

/* Sizes are multiples of 64: the lowest bit of a block's size marks it as free. Empties the stacks. */
static void mark_free_blocks(struct stni_mempool *pool)
{
    qsort(pool->blocks, pool->n_blocks, sizeof *pool->blocks, compare_blocks);
    for (int c = 0; c < STNI_POOL_CLASSES; c++) {
        struct stni_mempool_class *class = &pool->classes[c];
        for (size_t i = 0; i < class->n_free; i++)
            find_block(pool, class->free[i])->bytes |= 1;
        class->n_blocks -= class->n_free;
        class->n_free = 0;
    }
}

static void trim_small(struct stni_mempool *pool)
{
    mark_free_blocks(pool);
    size_t kept = 0;
    for (size_t i = 0; i < pool->n_blocks; i++) {
        struct stni_mempool_block block = pool->blocks[i];
        if ((block.bytes & 1) == 0)
            pool->blocks[kept++] = block;
        else
            stni_mempool_device_deallocate(pool, block.pointer, block.bytes & ~(size_t)1);
    }
    pool->n_blocks = kept;
}

void stni_mempool_trim(struct stni_mempool *pool)
{
    if (pool->stats.reserved_bytes == 0)
        return;
    stni_queue_sync_for(pool->queue, STN_SYNC_MEMORY);
    if (pool->n_blocks > 0)
        trim_small(pool);
    stni_mempool_trim_large(pool);
}

struct stni_mempool_stats *stni_mempool_stats(struct stni_mempool *pool)
{
    return &pool->stats;
}

stn_status stni_mempool_create(stn_queue *queue, struct stni_mempool **out)
{
    struct stni_mempool *pool = stni_calloc(1, sizeof *pool);
    if (pool == NULL)
        return STN_ERR_MEMORY;
    pool->queue = queue;
    pool->device = queue->device;
    pool->immediate = queue->immediate;
    *out = pool;
    return STN_OK;
}

stn_status stni_mempool_create_host(stn_queue *queue, struct stni_mempool **out)
{
    STNI_TRY(stni_mempool_create(queue, out));
    (*out)->is_host = 1;
    (*out)->has_asked = 1; /* addresses are reserved for the device's memory alone */
    return STN_OK;
}

void stni_mempool_close(struct stni_mempool *pool)
{
    stni_mempool_trim(pool);
    pool->queue = NULL;
}

void stni_mempool_destroy(struct stni_mempool **pool)
{
    if (*pool == NULL)
        return;
    if ((*pool)->queue != NULL)
        stni_queue_sync_for((*pool)->queue, STN_SYNC_MEMORY);
    for (size_t i = 0; i < (*pool)->n_blocks; i++)
        if ((*pool)->blocks[i].bytes > 0)
            stni_mempool_device_deallocate(*pool, (*pool)->blocks[i].pointer, (*pool)->blocks[i].bytes);
    stni_mempool_free_large(*pool);
    for (int c = 0; c < STNI_POOL_CLASSES; c++)
        stni_free((*pool)->classes[c].free);
    stni_free((*pool)->blocks);
    stni_free(*pool);
    *pool = NULL;
}
