/* In place of nvtx.c, in a build without NVTX's headers. */
#include "core/device/nvtx.h"

int stni_nvtx_open(void)
{
    return 0;
}

void stni_nvtx_push(const char *name)
{
    (void)name;
}

void stni_nvtx_pop(void)
{
}
