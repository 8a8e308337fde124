#include "raw_nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct raw_nccl functions;
static int is_found;

static int find(void *module, void *library, const char *name, void *function)
{
    void *symbol = dlsym(module, name);
    if (!symbol && library)
        symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Both stay open, since what is found is used to the end. */
static int find_all(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libshardtensor-cuda.so", folder);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL), *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!module)
        return 0;
#define FIND(name) find(module, library, #name, &functions.name)
    return FIND(cudaSetDevice) && FIND(ncclGetUniqueId) && FIND(ncclCommInitRank) && FIND(ncclCommDestroy) &&
           FIND(ncclAllReduce) && FIND(ncclAllGather) && FIND(ncclSend) && FIND(ncclRecv) && FIND(ncclGroupStart) &&
           FIND(ncclGroupEnd);
#undef FIND
}

const struct raw_nccl *raw_nccl(const char *folder)
{
    pthread_mutex_lock(&lock);
    is_found = is_found || find_all(folder);
    const struct raw_nccl *found = is_found ? &functions : NULL;
    pthread_mutex_unlock(&lock);
    return found;
}
