/* Large memory of the caching allocator: cut from segments.
 *
 * Where the device can reserve addresses, the pool has one segment that gets its memory as it grows, and gives it back
 * piece by piece: whatever was free beside each other serves one larger tensor. Elsewhere segments are allocations of
 * the device, of several tensors where these are not very large. */
#include "core/device/mempool_large.h"

enum {
    PAGE = 1 << 12,          /* bytes: extents begin there, as the host's large allocations do */
    SEGMENT_TENSORS = 4,     /* a segment holds so many of what it is made for, */
    SEGMENT_BYTES = 32 << 20 /* but is no larger than this for them */
};

/* Of a live extent, marked for the sanitizer: one tensor ends and the next one begins there. */
#if defined(__SANITIZE_ADDRESS__) || STNI_HAS_FEATURE(address_sanitizer)
enum { RED_ZONE = 64 };
#else
enum { RED_ZONE = 0 };
#endif

static size_t round_up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

stn_status stni_mempool_device_allocate(struct stni_mempool *pool, size_t bytes, void **out)
{
    pool->stats.device_calls++;
    STNI_TRY(pool->is_host ? pool->device->ops->host_allocate(pool->device->impl, bytes, out)
                           : stni_queue_allocate(pool->queue, bytes, out));
    pool->stats.reserved_bytes += (int64_t)bytes;
    return STN_OK;
}

void stni_mempool_device_deallocate(struct stni_mempool *pool, void *pointer, size_t bytes)
{
    if (pool->immediate)
        stni_unpoison(pointer, bytes);
    if (pool->is_host)
        pool->device->ops->host_deallocate(pool->device->impl, pointer, bytes);
    else if (pool->queue)
        stni_queue_deallocate(pool->queue, pointer, bytes);
    else
        stni_device_deallocate(pool->device, pointer, bytes);
    pool->stats.reserved_bytes -= (int64_t)bytes;
}

/* Once: a device that has none, or no more of them, is not asked again. */
static void reserve(struct stni_mempool *pool)
{
    void *base;
    size_t bytes;
    if (pool->has_asked || stni_device_reserve(pool->device, &bytes, &base) != STN_OK)
        bytes = 0;
    pool->has_asked = 1;
    if (bytes > 0 && !stni_extents_add(&pool->large, base, bytes, STNI_EXTENT_ABSENT, 1))
        stni_device_unreserve(pool->device, base, bytes);
}

/* Memory behind more of the addresses that are reserved. */
static stn_status commit(struct stni_mempool *pool, size_t bytes)
{
    size_t missing;
    reserve(pool);
    struct stni_extent *extent = stni_extents_room(&pool->large, bytes, &missing);
    if (!extent)
        return STN_ERR_UNSUPPORTED;
    missing = round_up(missing, STN_COMMIT_STEP);
    char *pointer = extent->pointer;
    pool->stats.device_calls++;
    STNI_TRY(stni_device_commit(pool->device, pointer, missing));
    if (!stni_extents_turn(&pool->large, extent, 0, missing)) {
        stni_device_decommit(pool->device, pointer, missing);
        return STN_ERR_MEMORY;
    }
    if (pool->immediate)
        stni_poison(pointer, missing);
    pool->stats.reserved_bytes += (int64_t)missing;
    return STN_OK;
}

static stn_status add_segment(struct stni_mempool *pool, size_t bytes)
{
    void *pointer;
    STNI_TRY(stni_mempool_device_allocate(pool, bytes, &pointer));
    if (!stni_extents_add(&pool->large, pointer, bytes, STNI_EXTENT_FREE, 0)) {
        stni_mempool_device_deallocate(pool, pointer, bytes);
        return STN_ERR_MEMORY;
    }
    if (pool->immediate)
        stni_poison(pointer, bytes);
    return STN_OK;
}

/* A free extent of so many bytes. */
static stn_status grow(struct stni_mempool *pool, size_t bytes)
{
    if (commit(pool, bytes) == STN_OK)
        return STN_OK;
    const size_t several = bytes < SEGMENT_BYTES / SEGMENT_TENSORS ? SEGMENT_TENSORS * bytes : SEGMENT_BYTES;
    const stn_status status = several > bytes ? add_segment(pool, several) : STN_ERR_MEMORY;
    return status == STN_OK || status == STN_ERR_CALLBACK ? status : add_segment(pool, bytes);
}

static stn_status grow_or_trim(struct stni_mempool *pool, size_t bytes)
{
    const stn_status status = grow(pool, bytes);
    if (status == STN_OK || status == STN_ERR_CALLBACK)
        return status;
    stni_mempool_trim(pool->spare ? pool->spare : pool);
    return grow(pool, bytes);
}

stn_status stni_mempool_take_large(struct stni_mempool *pool, size_t bytes, void **out, size_t *capacity)
{
    const size_t wanted = round_up(bytes + RED_ZONE, PAGE);
    struct stni_extent *extent = stni_extents_take(&pool->large, wanted);
    if (!extent && grow_or_trim(pool, wanted) == STN_OK)
        extent = stni_extents_take(&pool->large, wanted);
    if (!extent)
        return STN_ERR_MEMORY;
    if (pool->immediate)
        stni_unpoison(extent->pointer, bytes);
    stni_mempool_count(pool, bytes);
    *out = extent->pointer;
    *capacity = bytes;
    return STN_OK;
}

void stni_mempool_release_large(struct stni_mempool *pool, void *pointer, size_t capacity)
{
    struct stni_extent *extent = stni_extents_find(&pool->large, pointer);
    if (pool->immediate)
        stni_poison(pointer, capacity);
    stni_extents_release(&pool->large, extent);
    if (pool->queue == NULL)
        stni_mempool_trim_large(pool);
}

/* The whole steps of a free extent go back, and its addresses stay. The extent from which on nothing has changed. */
static struct stni_extent *decommit(struct stni_mempool *pool, struct stni_extent *extent)
{
    const uintptr_t begin = (uintptr_t)extent->pointer;
    const size_t from = round_up(begin, STN_COMMIT_STEP),
                 to = (begin + extent->bytes) / STN_COMMIT_STEP * STN_COMMIT_STEP;
    char *pointer = extent->pointer + (from - begin);
    struct stni_extent *gone = from < to ? stni_extents_turn(&pool->large, extent, from - begin, to - from) : NULL;
    if (!gone)
        return extent;
    if (pool->immediate)
        stni_unpoison(pointer, to - from);
    stni_device_decommit(pool->device, pointer, to - from);
    pool->stats.reserved_bytes -= (int64_t)(to - from);
    return gone;
}

static void trim_reserved(struct stni_mempool *pool, struct stni_extent *segment)
{
    for (struct stni_extent *extent = segment; extent; extent = extent->upper)
        if (extent->state == STNI_EXTENT_FREE)
            extent = decommit(pool, extent);
}

static int is_free_whole(const struct stni_extent *segment)
{
    return segment->state == STNI_EXTENT_FREE && !segment->upper;
}

void stni_mempool_trim_large(struct stni_mempool *pool)
{
    for (struct stni_extent **at = &pool->large.segments; *at;) {
        struct stni_extent *segment = *at;
        if (segment->is_reserved) {
            trim_reserved(pool, segment);
            at = &segment->next_segment;
        } else if (is_free_whole(segment)) {
            stni_mempool_device_deallocate(pool, segment->pointer, segment->bytes);
            stni_extents_drop(&pool->large, at);
        } else {
            at = &segment->next_segment;
        }
    }
}

static void free_reserved(struct stni_mempool *pool, struct stni_extent *segment)
{
    size_t bytes = 0;
    for (struct stni_extent *extent = segment; extent; extent = extent->upper) {
        bytes += extent->bytes;
        if (pool->immediate && extent->state != STNI_EXTENT_ABSENT)
            stni_unpoison(extent->pointer, extent->bytes);
    }
    stni_device_unreserve(pool->device, segment->pointer, bytes);
}

static void free_segment(struct stni_mempool *pool, struct stni_extent *segment)
{
    size_t bytes = 0;
    for (struct stni_extent *extent = segment; extent; extent = extent->upper)
        bytes += extent->bytes;
    stni_mempool_device_deallocate(pool, segment->pointer, bytes);
}

void stni_mempool_free_large(struct stni_mempool *pool)
{
    for (struct stni_extent *segment = pool->large.segments; segment; segment = segment->next_segment)
        if (segment->is_reserved)
            free_reserved(pool, segment);
        else
            free_segment(pool, segment);
    stni_extents_fini(&pool->large);
}
