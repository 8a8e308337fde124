/* Processors that are not x86-64. */
#include "core/base/processor.h"

int stni_processor_is_intel(void)
{
    return 0;
}

int stni_processor_follows_runs(void)
{
    return 0;
}
