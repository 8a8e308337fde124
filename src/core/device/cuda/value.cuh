/* What a kernel found wrong in values, for the next agreement (stn_value_record). */
#ifndef STNI_CORE_DEVICE_CUDA_VALUE_CUH
#define STNI_CORE_DEVICE_CUDA_VALUE_CUH

#include "core/device/cuda/grid.h"
#include "core/device/cuda/module.h"

#include <shardtensor/device.h>

namespace {

/* Claims the record if there is one and it is free, else does nothing. The end of the kernel makes it visible to the
 * host. Of several errors any one is reported. At most STN_VALUE_NUMBERS numbers. */
STNI_DEVICE void report_value(stn_value_record *record, int op, int what, int n, const int64_t *numbers)
{
    if (!record ||
        atomicCAS(&record->state, (unsigned)STN_VALUE_FREE, (unsigned)STN_VALUE_CLAIMED) != (unsigned)STN_VALUE_FREE)
        return;
    record->op = op;
    record->what = what;
    record->n = n < STN_VALUE_NUMBERS ? n : STN_VALUE_NUMBERS;
    for (int i = 0; i < n && i < STN_VALUE_NUMBERS; i++)
        record->numbers[i] = numbers[i];
    __threadfence();
    record->state = STN_VALUE_WRITTEN;
}

STNI_DEVICE void report_value(stn_value_record *record, int op, int what)
{
    report_value(record, op, what, 0, nullptr);
}

/* A row of a kernel that reports, as STNI_CUDA_KERNEL has it of others: its launcher gets the record of the queue's
 * context too. */
template <class ARGS, void (*LAUNCH)(const ARGS &, stn_value_record *, cudaStream_t)>
stn_status launch_reporting_row(stn_queue *queue, const void *args)
{
    LAUNCH(*static_cast<const ARGS *>(args), stni_cuda_host()->queue_value_record(queue),
           static_cast<cudaStream_t>(stni_cuda_stream(queue)));
    return stni_cuda_launched(queue);
}

}

#define STNI_CUDA_REPORTING_KERNEL(slot, dtypes, args, launch) \
    {sizeof(stn_kernel), slot, "cuda", dtypes, sizeof(args), launch_reporting_row<args, launch>, nullptr}

#endif
