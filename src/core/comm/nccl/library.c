/* Opening NCCL. */
#include "core/comm/nccl/library.h"

#include "core/comm/nccl/family.h"
#include "core/device/cuda/library.h"

#include <pthread.h>

enum { LEAST = 21800 /* the first that splits communicators */ };

static const char *const files[] = {"libnccl.so.2", "libnccl.so", NULL};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stni_nccl_library library;
static int is_open;

#define SYMBOL(name) {#name, &library.name},
static const struct stni_cuda_symbol symbols[] = {STNI_NCCL_FUNCTIONS(SYMBOL)};
#undef SYMBOL

const struct stni_nccl_library *stni_nccl(void)
{
    return &library;
}

static stn_status open_library(struct stni_error *error)
{
    const int n = sizeof symbols / sizeof *symbols;
    int version = 0;
    if (!stni_cuda_load(files, symbols, n))
        return stni_nccl_say(error, STN_ERR_NOT_FOUND,
                             "NCCL was not found: the loader has neither %s nor %s with %s and %d more functions",
                             files[0], files[1], symbols[0].name, n - 1);
    if (library.ncclGetVersion(&version) != ncclSuccess || version < LEAST)
        return stni_nccl_say(error, STN_ERR_VERSION, "NCCL's version got %d, wanted %d or later", version, LEAST);
    is_open = 1;
    return STN_OK;
}

stn_status stni_nccl_load(struct stni_error *error)
{
    pthread_mutex_lock(&lock);
    const stn_status status = is_open ? STN_OK : open_library(error);
    pthread_mutex_unlock(&lock);
    return status;
}
