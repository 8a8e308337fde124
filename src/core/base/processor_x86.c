/* An x86-64 processor's maker and family. */
#include "core/base/processor.h"

#include <cpuid.h>

int stni_processor_is_intel(void)
{
    return __builtin_cpu_is("intel") != 0;
}

/* Family and model are each a field and a part that is added to it. */
int stni_processor_follows_runs(void)
{
    unsigned eax, ebx, ecx, edx;
    if (!__builtin_cpu_is("amd") || !__get_cpuid(1, &eax, &ebx, &ecx, &edx))
        return 0;
    return stni_processor_is_zen4((eax >> 8 & 0xf) + (eax >> 20 & 0xff), (eax >> 4 & 0xf) + (eax >> 12 & 0xf0));
}
