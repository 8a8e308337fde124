/* NCCL's functions, found when a communicator is first opened: what does not communicate need not have it. */
#ifndef STNI_CORE_COMM_NCCL_LIBRARY_H
#define STNI_CORE_COMM_NCCL_LIBRARY_H

#include "core/base/status.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

/* Entries have the names and types of the functions. */
#define STNI_NCCL_FUNCTIONS(X) \
    X(ncclGetVersion)          \
    X(ncclGetUniqueId)         \
    X(ncclCommInitRankConfig)  \
    X(ncclCommSplit)           \
    X(ncclCommFinalize)        \
    X(ncclCommDestroy)         \
    X(ncclCommAbort)           \
    X(ncclCommGetAsyncError)   \
    X(ncclCommCount)           \
    X(ncclCommCuDevice)        \
    X(ncclCommUserRank)        \
    X(ncclGetErrorString)      \
    X(ncclGetLastError)        \
    X(ncclAllReduce)           \
    X(ncclReduce)              \
    X(ncclBroadcast)           \
    X(ncclAllGather)           \
    X(ncclReduceScatter)       \
    X(ncclSend)                \
    X(ncclRecv)                \
    X(ncclGroupStart)          \
    X(ncclGroupEnd)

struct stni_nccl_library {
#define STNI_NCCL_ENTRY(name) __typeof__(&name) name;
    STNI_NCCL_FUNCTIONS(STNI_NCCL_ENTRY)
#undef STNI_NCCL_ENTRY
};

/* Opens NCCL unless it is open; for good. */
stn_status stni_nccl_load(struct stni_error *error);

/* After stni_nccl_load has succeeded. */
const struct stni_nccl_library *stni_nccl(void);

#endif
