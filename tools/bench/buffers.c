/* Buffers of the collectives' benchmarks. */
#include "buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, LARGE_PAGE = 2 << 20 };

void *buffer_make(size_t bytes)
{
    float *data = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    for (size_t i = 0; data != NULL && i < bytes / sizeof *data; i++)
        data[i] = (float)(i % 127) / 64 - 1;
    return data;
}

void *buffer_make_large(size_t bytes)
{
    const size_t rounded = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    void *data = aligned_alloc(LARGE_PAGE, rounded);
    if (data == NULL)
        return NULL;
    madvise(data, rounded, MADV_HUGEPAGE); /* a wish: without it the copy is slower, not wrong */
    memset(data, 0, rounded);
    return data;
}

void buffer_describe(int64_t bytes, char *text, size_t size)
{
    const int large = bytes >= 1 << 20;
    snprintf(text, size, "%lld %s", (long long)(bytes >> (large ? 20 : 10)), large ? "MiB" : "KiB");
}
