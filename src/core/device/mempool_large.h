/* What the files of the caching allocator have in common: calls of the device, and the part for large memory. */
#ifndef STNI_CORE_DEVICE_MEMPOOL_LARGE_H
#define STNI_CORE_DEVICE_MEMPOOL_LARGE_H

#include "core/device/mempool.h"

/* A device's allocation, counted. */
stn_status stni_mempool_device_allocate(struct stni_mempool *pool, size_t bytes, void **out);
void stni_mempool_device_deallocate(struct stni_mempool *pool, void *pointer, size_t bytes);

/* As stni_mempool_take and stni_mempool_release, for more than STNI_POOL_SMALL bytes; live bytes are the caller's to
 * count off. */
stn_status stni_mempool_take_large(struct stni_mempool *pool, size_t bytes, void **out, size_t *capacity);
void stni_mempool_release_large(struct stni_mempool *pool, void *pointer, size_t capacity);

void stni_mempool_trim_large(struct stni_mempool *pool); /* the queue has been waited for */
void stni_mempool_free_large(struct stni_mempool *pool); /* all of it, whether still in use or not */

#endif
