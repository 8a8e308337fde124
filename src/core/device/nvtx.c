/* The one file that knows NVTX: headers alone, which look for a tool (NVTX_INJECTION64_PATH, set by the tool) when
 * the first call is made. */
#include "core/device/nvtx.h"

#include <nvtx3/nvToolsExt.h>

#include <pthread.h>

/* One for the process, as tools filter by it: ranges of two contexts lie in one domain, each on its thread. It is
 * never destroyed, because a range that is open may outlive whoever began it; NULL where no tool listens. Made once:
 * the first call of NVTX rewrites the pointers through which every call of it goes, and two threads that came first
 * together would read them while they change. */
static pthread_once_t nvtx_once = PTHREAD_ONCE_INIT;
static nvtxDomainHandle_t nvtx_domain;

static void make_domain(void)
{
    nvtx_domain = nvtxDomainCreateA("shardtensor");
}

int stni_nvtx_open(void)
{
    pthread_once(&nvtx_once, make_domain);
    return 1;
}

void stni_nvtx_push(const char *name)
{
    const nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                              .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                              .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                              .message = {.ascii = name}};
    nvtxDomainRangePushEx(nvtx_domain, &attributes);
}

void stni_nvtx_pop(void)
{
    nvtxDomainRangePop(nvtx_domain);
}
