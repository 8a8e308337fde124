/* The one file that knows NVTX: headers alone, which look for a tool (NVTX_INJECTION64_PATH, set by the tool) when the first call is made. */
#include "core/device/nvtx.h"

#include <nvtx3/nvToolsExt.h>

#include <stdatomic.h>

/* One for the process, as tools filter by it: ranges of two contexts lie in one domain, each on its thread. It is never destroyed, because a range
 * that is open may outlive whoever began it. */
static _Atomic(nvtxDomainHandle_t) nvtx_domain;

int stni_nvtx_open(void)
{
    nvtxDomainHandle_t none = NULL;
    if (atomic_load(&nvtx_domain))
        return 1;
    nvtxDomainHandle_t made = nvtxDomainCreateA("shardtensor"); /* NULL where no tool listens */
    if (made && !atomic_compare_exchange_strong(&nvtx_domain, &none, made))
        nvtxDomainDestroy(made);
    return 1;
}

void stni_nvtx_push(const char *name)
{
    const nvtxEventAttributes_t attributes = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE, .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                              .message = {.ascii = name}};
    nvtxDomainRangePushEx(atomic_load_explicit(&nvtx_domain, memory_order_relaxed), &attributes);
}

void stni_nvtx_pop(void)
{
    nvtxDomainRangePop(atomic_load_explicit(&nvtx_domain, memory_order_relaxed));
}
