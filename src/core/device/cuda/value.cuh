/* What a kernel found wrong in values, for the next agreement (stn_value_record). */
#ifndef STNI_CORE_DEVICE_CUDA_VALUE_CUH
#define STNI_CORE_DEVICE_CUDA_VALUE_CUH

#include "core/device/cuda/grid.h"

#include <shardtensor/device.h>

namespace {

/* Claims the record if it is free, else does nothing. The end of the kernel makes it visible to the host. */
STNI_DEVICE void report_value(stn_value_record *record, int op, int what)
{
    if (atomicCAS(&record->state, (unsigned)STN_VALUE_FREE, (unsigned)STN_VALUE_CLAIMED) != (unsigned)STN_VALUE_FREE)
        return;
    record->op = op;
    record->what = what;
    record->n = 0;
    __threadfence();
    record->state = STN_VALUE_WRITTEN;
}

}

#endif
