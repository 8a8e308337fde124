/* The library's own bookkeeping memory. */
#include "core/base/host_alloc.h"

#include <stdlib.h>

void *stni_malloc(size_t bytes)
{
    return malloc(bytes);
}

void *stni_calloc(size_t count, size_t bytes)
{
    return calloc(count, bytes);
}

void *stni_realloc(void *pointer, size_t bytes)
{
    return realloc(pointer, bytes);
}

void stni_free(void *pointer)
{
    free(pointer);
}
