/* A tool of NVTX: counts ranges. NVTX opens it at its first call, by NVTX_INJECTION64_PATH. */
#include "nvtx_counter.h"

#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum { MOST_RANGES = 4096, MOST_NAME = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvtx_counter counts;
static char names[MOST_RANGES][MOST_NAME];
static _Thread_local int depth;
static char ours; /* its address stands for the library's domain */

static nvtxDomainHandle_t NVTX_API create_domain(const char *name)
{
    return strcmp(name, "shardtensor") == 0 ? (nvtxDomainHandle_t)(void *)&ours : NULL;
}

static int is_elsewhere(nvtxDomainHandle_t domain)
{
    return (void *)domain != (void *)&ours;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    pthread_mutex_lock(&lock);
    if (counts.pushes < MOST_RANGES)
        strncpy(names[counts.pushes], attributes->message.ascii, MOST_NAME - 1);
    counts.pushes++;
    counts.elsewhere += is_elsewhere(domain);
    pthread_mutex_unlock(&lock);
    return depth++;
}

static int NVTX_API pop(nvtxDomainHandle_t domain)
{
    pthread_mutex_lock(&lock);
    counts.pops++;
    counts.unmatched += depth == 0;
    counts.elsewhere += is_elsewhere(domain);
    pthread_mutex_unlock(&lock);
    depth -= depth > 0;
    return depth;
}

static int begun(const char *name)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < counts.pushes && i < MOST_RANGES; i++)
        n += strcmp(names[i], name) == 0;
    pthread_mutex_unlock(&lock);
    return n;
}

static void reset(void)
{
    pthread_mutex_lock(&lock);
    memset(&counts, 0, sizeof counts);
    memset(names, 0, sizeof names);
    pthread_mutex_unlock(&lock);
}

EXPORTED struct nvtx_counter nvtx_counter(void);
EXPORTED struct nvtx_counter nvtx_counter(void)
{
    pthread_mutex_lock(&lock);
    struct nvtx_counter now = counts;
    pthread_mutex_unlock(&lock);
    now.begun = begun;
    now.reset = reset;
    return now;
}

static void set(NvtxFunctionTable table, NvtxCallbackIdCore2 id, NvtxFunctionPointer function)
{
    *table[id] = function;
}

EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);
EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    const NvtxExportTableCallbacks *callbacks = get_export_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    set(table, NVTX_CBID_CORE2_DomainCreateA, (NvtxFunctionPointer)create_domain);
    set(table, NVTX_CBID_CORE2_DomainRangePushEx, (NvtxFunctionPointer)push);
    set(table, NVTX_CBID_CORE2_DomainRangePop, (NvtxFunctionPointer)pop);
    return 1;
}
