/* Counted memory. */
#include "counted.h"

#include "core/base/host_alloc.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_int_fast64_t live, calls, device_bytes, host_bytes;
static atomic_int_fast64_t until_failure; /* allocations that still succeed; negative: all do */
static atomic_int failing, failing_for_ever;

int64_t counted_live(void)
{
    return atomic_load(&live);
}

int64_t counted_calls(void)
{
    return atomic_load(&calls);
}

int64_t counted_device_bytes(void)
{
    return atomic_load(&device_bytes);
}

int64_t counted_host_bytes(void)
{
    return atomic_load(&host_bytes);
}

void counted_fail_at(int64_t n, int for_ever)
{
    atomic_store(&until_failure, n);
    atomic_store(&failing, n > 0);
    atomic_store(&failing_for_ever, for_ever);
}

static int fails(void)
{
    atomic_fetch_add(&calls, 1);
    if (!atomic_load(&failing))
        return 0;
    int64_t n = atomic_fetch_sub(&until_failure, 1);
    return n == 1 || (n < 1 && atomic_load(&failing_for_ever));
}

static int host_fails(size_t bytes)
{
    atomic_fetch_add(&host_bytes, (int64_t)bytes);
    return fails();
}

static void *counted(void *pointer)
{
    if (pointer != NULL)
        atomic_fetch_add(&live, 1);
    return pointer;
}

void *stni_malloc(size_t bytes)
{
    return host_fails(bytes) ? NULL : counted(malloc(bytes));
}

void *stni_calloc(size_t count, size_t bytes)
{
    return host_fails(count * bytes) ? NULL : counted(calloc(count, bytes));
}

void *stni_realloc(void *pointer, size_t bytes)
{
    if (host_fails(bytes))
        return NULL;
    return pointer == NULL ? counted(malloc(bytes)) : realloc(pointer, bytes);
}

void stni_free(void *pointer)
{
    if (pointer != NULL)
        atomic_fetch_sub(&live, 1);
    free(pointer);
}

static void *allocate(void *arg, size_t bytes, size_t alignment)
{
    (void)arg;
    if (fails() || bytes > SIZE_MAX / 2)
        return NULL;
    void *pointer = counted(aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
    if (pointer != NULL)
        atomic_fetch_add(&device_bytes, (int64_t)bytes);
    return pointer;
}

static void deallocate(void *arg, void *pointer, size_t bytes)
{
    (void)arg;
    atomic_fetch_sub(&device_bytes, (int64_t)bytes);
    stni_free(pointer);
}

const stn_allocator counted_allocator = {sizeof counted_allocator, NULL, allocate, deallocate};
