/* The caching allocator of one context: device memory in size classes, ordered by the context's queue.
 *
 * Bytes that are released may still be read by queued kernels; they are handed out again to later work of the same queue
 * only, so nothing waits. stni_pool_trim waits for the queue before it gives memory back. What was released last is handed out
 * first, because it is in the processor's caches. Used by the context's thread only. */
#ifndef STNI_CORE_DEVICE_MEMPOOL_H
#define STNI_CORE_DEVICE_MEMPOOL_H

#include "core/device/device.h"

struct stni_pool;

struct stni_pool_stats {
    int64_t reserved_bytes;  /* taken from the device */
    int64_t live_bytes, peak_bytes; /* asked for and not yet released */
    int64_t allocations, device_calls;
};

stn_status stni_pool_create(stn_queue *queue, struct stni_pool **out);
void stni_pool_destroy(struct stni_pool **pool); /* everything that was taken is given back, live or not */

/* Waits for the queue and leaves it for good: from here on nothing is taken, and what is released goes back to the device at once. */
void stni_pool_close(struct stni_pool *pool);

/* At least `bytes` bytes, 64-byte aligned; their contents are whatever was there. `bytes` may be 0: *out becomes NULL.
 * `*capacity` is what stni_pool_release wants back, 0 for no memory. When the device has no more, what is cached is given back and
 * the device asked again. @return STN_ERR_MEMORY, without a message: the caller knows what it was for. */
stn_status stni_pool_take(struct stni_pool *pool, size_t bytes, void **out, size_t *capacity);
void stni_pool_release(struct stni_pool *pool, void *pointer, size_t capacity); /* accepts NULL with 0 */
void stni_pool_trim(struct stni_pool *pool);
struct stni_pool_stats *stni_pool_stats(struct stni_pool *pool);

#endif
