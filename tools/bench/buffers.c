/* Buffers of the verbs' benchmarks. */
#include "buffers.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096 };

void *buffer_make(size_t bytes)
{
    float *data = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    for (size_t i = 0; data != NULL && i < bytes / sizeof *data; i++)
        data[i] = (float)(i % 127) / 64 - 1;
    return data;
}

void buffer_describe(int64_t bytes, char *text, size_t size)
{
    const int large = bytes >= 1 << 20;
    snprintf(text, size, "%lld %s", (long long)(bytes >> (large ? 20 : 10)), large ? "MiB" : "KiB");
}
