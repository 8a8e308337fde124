/* Puts itself before the C library's allocation functions and counts. The names with two underscores are the
 * library's own doors. */
#include "heap.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#define VISIBLE __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Thread_local int64_t calls;

VISIBLE void *malloc(size_t size)
{
    calls++;
    return __libc_malloc(size);
}

VISIBLE void *calloc(size_t n, size_t size)
{
    calls++;
    return __libc_calloc(n, size);
}

VISIBLE void *realloc(void *pointer, size_t size)
{
    calls++;
    return __libc_realloc(pointer, size);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t size)
{
    calls++;
    return __libc_memalign(alignment, size);
}

VISIBLE int posix_memalign(void **out, size_t alignment, size_t size)
{
    calls++;
    void *pointer = __libc_memalign(alignment, size);
    if (pointer == NULL)
        return ENOMEM;
    *out = pointer;
    return 0;
}

int64_t heap_calls(void)
{
    return calls;
}

int64_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}
