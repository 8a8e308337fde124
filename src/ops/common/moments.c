#include "ops/common/moments.h"

#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/base/host_alloc.h"

stn_status stni_moments_gather(const stn_op_call *call, stn_comm *comm, int planes, const double *own, int64_t count,
                               const double **parts)
{
    void *all;
    STNI_TRY(stn_op_scratch(call, (size_t)(comm->size * planes * count) * sizeof(double), &all));
    int64_t *counts = stni_malloc((size_t)comm->size * sizeof *counts);
    if (!counts)
        return stni_fail_memory(call->context, "counts of moments", (size_t)comm->size * sizeof *counts);
    for (int i = 0; i < comm->size; i++)
        counts[i] = planes * count;
    stn_status status = stni_comm_all_gather(comm, call->context->queue, own, all, counts, STN_DTYPE_F64);
    stni_free(counts);
    *parts = all;
    return status;
}
