#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_FLAGS = 0 };

static int (*create)(void **event, unsigned flags);
static int (*destroy)(void *event);
static int (*record)(void *event, void *stream);
static int (*elapsed)(float *milliseconds, void *from, void *to);
static int (*attribute_of)(int *value, int attribute, int device);
static int (*count)(int *n);
static int (*choose)(int device);

static int find(void *module, const char *name, void *function)
{
    void *symbol = dlsym(module, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The module stays open, since what is found is used to the end. */
int runtime_find(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libshardtensor-cuda.so", folder);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return module && find(module, "cudaEventCreateWithFlags", &create) && find(module, "cudaEventDestroy", &destroy) &&
           find(module, "cudaEventRecord", &record) && find(module, "cudaEventElapsedTime", &elapsed) &&
           find(module, "cudaDeviceGetAttribute", &attribute_of) && find(module, "cudaGetDeviceCount", &count) &&
           find(module, "cudaSetDevice", &choose);
}

int runtime_event_create(void **out)
{
    return create(out, DEFAULT_FLAGS);
}

void runtime_event_destroy(void *event)
{
    if (event)
        destroy(event);
}

int runtime_event_record(void *event, void *stream)
{
    return record(event, stream);
}

int runtime_elapsed(double *seconds, void *from, void *to)
{
    float milliseconds = 0;
    const int error = elapsed(&milliseconds, from, to);
    *seconds = 1e-3 * (double)milliseconds;
    return error;
}

int runtime_devices(void)
{
    int n = 0;
    return count(&n) == 0 ? n : 0;
}

int runtime_choose(int device)
{
    return choose(device);
}

int runtime_attribute(int attribute)
{
    int value = 0;
    return attribute_of(&value, attribute, 0) == 0 ? value : 0;
}
