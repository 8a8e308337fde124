/* The caching allocator of one context: device memory in size classes, ordered by the context's queue.
 *
 * Bytes that are released may still be read by queued kernels; they are handed out again to later work of the same queue
 * only, so nothing waits. stni_mempool_trim waits for the queue before it gives memory back. What was released last is handed out
 * first, because it is in the processor's caches. Used by the context's thread only. */
#ifndef STNI_CORE_DEVICE_MEMPOOL_H
#define STNI_CORE_DEVICE_MEMPOOL_H

#include "core/device/device.h"

struct stni_mempool;

struct stni_mempool_stats {
    int64_t reserved_bytes;  /* allocated from the device */
    int64_t live_bytes, peak_bytes; /* requested and not yet released */
    int64_t allocations, device_calls;
};

stn_status stni_mempool_create(stn_queue *queue, struct stni_mempool **out);
void stni_mempool_destroy(struct stni_mempool **pool); /* all memory goes back to the device, whether still in use or not */

/* Waits for the queue and does not use it any more: from here on nothing can be allocated, and what is released goes back to the device at once. */
void stni_mempool_close(struct stni_mempool *pool);

/* At least `bytes` bytes, 64-byte aligned; their contents are whatever was there. `bytes` may be 0: *out becomes NULL.
 * `*capacity` is to be passed to stni_mempool_release, 0 for no memory. When the device has no more, what is cached is given back and
 * the allocation is tried again. @return STN_ERR_MEMORY, without a message: the caller knows what it was for. */
stn_status stni_mempool_take(struct stni_mempool *pool, size_t bytes, void **out, size_t *capacity);
void stni_mempool_release(struct stni_mempool *pool, void *pointer, size_t capacity); /* accepts NULL with 0 */
void stni_mempool_trim(struct stni_mempool *pool);
struct stni_mempool_stats *stni_mempool_stats(struct stni_mempool *pool);

#endif
