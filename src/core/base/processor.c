/* What is found out about the processor once: a virtual machine's CPUID takes as long as a small op. */
#include "core/base/processor.h"

#include <stdatomic.h>

enum { UNKNOWN, NO, YES };

static _Atomic int follows_runs;

int stni_processor_follows_runs(void)
{
    int is = atomic_load_explicit(&follows_runs, memory_order_relaxed);
    if (is == UNKNOWN) {
        is = stni_processor_is_zen4() ? YES : NO;
        atomic_store_explicit(&follows_runs, is, memory_order_relaxed);
    }
    return is == YES;
}

void stni_processor_assume_follows_runs(int follows)
{
    atomic_store_explicit(&follows_runs, follows ? YES : NO, memory_order_relaxed);
}
