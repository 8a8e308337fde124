/* An x86-64 processor's maker. */
#include "core/base/processor.h"

int stni_processor_is_intel(void)
{
    return __builtin_cpu_is("intel") != 0;
}
