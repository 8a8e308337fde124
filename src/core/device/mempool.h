/* The caching allocator of one context: device memory, ordered by the context's queue. Small blocks are of size
 * classes; large ones are cut from segments, and become one with what is free beside them when they are released, so
 * that what is reserved is close to what was needed at once.
 *
 * Bytes that are released may still be read by queued kernels; they are handed out again to later work of the same
 * queue only, so nothing waits. stni_mempool_trim waits for the queue before it gives memory back. What was released
 * last is handed out first, because it is in the processor's caches. Used by the context's thread only. */
#ifndef STNI_CORE_DEVICE_MEMPOOL_H
#define STNI_CORE_DEVICE_MEMPOOL_H

#include "core/base/cold.h"
#include "core/base/poison.h"
#include "core/device/device.h"
#include "core/device/extents.h"

#include <assert.h>

struct stni_mempool_stats {
    int64_t reserved_bytes;  /* allocated from the device */
    int64_t live_bytes, peak_bytes; /* requested and not yet released */
    int64_t allocations, device_calls;
};

enum {
    STNI_POOL_SMALL = 1 << 16, /* bytes: blocks up to here are of classes */
    STNI_POOL_CLASSES = 8 * 8  /* those of that size and below */
};

struct stni_mempool_class {
    void **free; /* a stack; has space for every block of the class, so that a release cannot fail */
    size_t n_free, cap, n_blocks;
};

struct stni_mempool_block {
    char *pointer;
    size_t bytes;
};

struct stni_mempool {
    stn_queue *queue; /* NULL once the pool is closed; `blocks` is in the order of addresses then */
    stn_device *device;
    int immediate; /* the queue is, or was */
    int is_host;   /* memory is the host's, which the device's kernels reach */
    struct stni_mempool_stats stats;
    struct stni_mempool *next; /* of the context's list, for the pools of captured steps */
    /* Whose cached memory goes back where the device has no more; NULL: this one's, which no recorded work names. */
    struct stni_mempool *spare;
    struct stni_mempool_block *blocks; /* all small ones */
    size_t n_blocks, cap_blocks;
    struct stni_extents large;
    int has_asked; /* the device for addresses to reserve */
    struct stni_mempool_class classes[STNI_POOL_CLASSES];
};

stn_status stni_mempool_create(stn_queue *queue, struct stni_mempool **out);
stn_status stni_mempool_create_host(stn_queue *queue, struct stni_mempool **out); /* of a device that has such memory */
void stni_mempool_destroy(struct stni_mempool **pool); /* all memory goes back to the device, whether still in use or not */

/* Waits for the queue and does not use it any more: from here on nothing can be allocated, and what is released goes
 * back to the device at once, after another wait where `spare` has the queue still. */
void stni_mempool_close(struct stni_mempool *pool);

void stni_mempool_trim(struct stni_mempool *pool);
struct stni_mempool_stats *stni_mempool_stats(struct stni_mempool *pool);

/* The rest is here because every op takes and releases memory. */

/* No bytes, many bytes, or no free block. */
STNI_COLD stn_status stni_mempool_take_new(struct stni_mempool *pool, size_t bytes, void **out, size_t *capacity);

/* No bytes, many bytes, or a closed pool. */
STNI_COLD void stni_mempool_release_other(struct stni_mempool *pool, void *pointer, size_t capacity);

/* Counts bytes that are handed out. */
static inline void stni_mempool_count(struct stni_mempool *pool, size_t bytes)
{
    pool->stats.allocations++;
    pool->stats.live_bytes += (int64_t)bytes;
    if (pool->stats.peak_bytes < pool->stats.live_bytes)
        pool->stats.peak_bytes = pool->stats.live_bytes;
}

/* The class of so many bytes if it has a free block, else NULL. */
static inline struct stni_mempool_class *stni_mempool_ready(struct stni_mempool *pool, size_t bytes)
{
    const int c = stni_size_class(bytes);
    return c < STNI_POOL_CLASSES && pool->classes[c].n_free > 0 ? &pool->classes[c] : NULL;
}

/* A free block of a class that stni_mempool_ready gave; its capacity is `bytes`. */
static inline void *stni_mempool_pop(struct stni_mempool *pool, struct stni_mempool_class *class, size_t bytes)
{
    void *pointer = class->free[--class->n_free];
    if (pool->immediate) /* memory of other devices is not marked for the sanitizer: its addresses may not be those of the host */
        stni_unpoison(pointer, bytes);
    stni_mempool_count(pool, bytes);
    return pointer;
}

/* At least `bytes` bytes, 64-byte aligned; their contents are whatever was there. `bytes` may be 0: *out becomes
 * NULL. `*capacity` is to be passed to stni_mempool_release, 0 for no memory. When the device has no more, what is
 * cached (by `spare`, where there is one) is given back and the allocation is tried again. @return STN_ERR_MEMORY,
 * without a message: the caller knows what it was for. */
static inline stn_status stni_mempool_take(struct stni_mempool *pool, size_t bytes, void **out, size_t *capacity)
{
    struct stni_mempool_class *class = stni_mempool_ready(pool, bytes);
    if (class == NULL)
        return stni_mempool_take_new(pool, bytes, out, capacity);
    *out = stni_mempool_pop(pool, class, bytes);
    *capacity = bytes;
    return STN_OK;
}

/* Accepts NULL with 0. */
static inline void stni_mempool_release(struct stni_mempool *pool, void *pointer, size_t capacity)
{
    const int c = stni_size_class(capacity);
    if (c >= STNI_POOL_CLASSES || pool->queue == NULL) {
        stni_mempool_release_other(pool, pointer, capacity);
        return;
    }
    struct stni_mempool_class *class = &pool->classes[c];
    assert(class->n_free < class->n_blocks);
    if (pool->immediate) /* no kernel reads released memory any more, so that any access to it is a bug */
        stni_poison(pointer, capacity);
    class->free[class->n_free++] = pointer;
    pool->stats.live_bytes -= (int64_t)capacity;
}

#endif
