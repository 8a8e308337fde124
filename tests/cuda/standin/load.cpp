/* Libraries of the stand-in are linked into the module: their functions are found by name here. */
#include "core/device/cuda/library.h"
#include "cuda/standin/found_by_name.h"
#include "cuda/standin/settings.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <cufftXt.h>
#include <nccl.h>

#include <cstring>

namespace {

#define FUNCTION(name) {#name, reinterpret_cast<void *>(name)}

const struct {
    const char *name;
    void *function;
} functions[] = {
    FUNCTION(cuDeviceGet),
    FUNCTION(cuDevicePrimaryCtxGetState),
    FUNCTION(cublasLtCreate),
    FUNCTION(cublasLtDestroy),
    FUNCTION(cublasLtMatmulDescCreate),
    FUNCTION(cublasLtMatmulDescSetAttribute),
    FUNCTION(cublasLtMatmulDescDestroy),
    FUNCTION(cublasLtMatrixLayoutCreate),
    FUNCTION(cublasLtMatrixLayoutSetAttribute),
    FUNCTION(cublasLtMatrixLayoutDestroy),
    FUNCTION(cublasLtMatmulPreferenceCreate),
    FUNCTION(cublasLtMatmulPreferenceSetAttribute),
    FUNCTION(cublasLtMatmulPreferenceDestroy),
    FUNCTION(cublasLtMatmulAlgoGetHeuristic),
    FUNCTION(cublasLtMatmul),
    FUNCTION(cudnnGetVersion),
    FUNCTION(cudnnCreate),
    FUNCTION(cudnnDestroy),
    FUNCTION(cudnnSetStream),
    FUNCTION(cudnnBackendCreateDescriptor),
    FUNCTION(cudnnBackendDestroyDescriptor),
    FUNCTION(cudnnBackendSetAttribute),
    FUNCTION(cudnnBackendGetAttribute),
    FUNCTION(cudnnBackendFinalize),
    FUNCTION(cudnnBackendExecute),
    FUNCTION(cufftCreate),
    FUNCTION(cufftDestroy),
    FUNCTION(cufftSetAutoAllocation),
    FUNCTION(cufftSetStream),
    FUNCTION(cufftSetWorkArea),
    FUNCTION(cufftXtMakePlanMany),
    FUNCTION(cufftXtExec),
    FUNCTION(ncclGetVersion),
    FUNCTION(ncclGetUniqueId),
    FUNCTION(ncclCommInitRankConfig),
    FUNCTION(ncclCommSplit),
    FUNCTION(ncclCommFinalize),
    FUNCTION(ncclCommDestroy),
    FUNCTION(ncclCommAbort),
    FUNCTION(ncclCommGetAsyncError),
    FUNCTION(ncclCommCount),
    FUNCTION(ncclCommCuDevice),
    FUNCTION(ncclCommUserRank),
    FUNCTION(ncclGetErrorString),
    FUNCTION(ncclGetLastError),
    FUNCTION(ncclAllReduce),
    FUNCTION(ncclReduce),
    FUNCTION(ncclBroadcast),
    FUNCTION(ncclAllGather),
    FUNCTION(ncclReduceScatter),
    FUNCTION(ncclSend),
    FUNCTION(ncclRecv),
    FUNCTION(ncclGroupStart),
    FUNCTION(ncclGroupEnd),
};

void *find(const char *name)
{
    for (const auto &f : functions)
        if (std::strcmp(f.name, name) == 0)
            return f.function;
    return nullptr;
}

}

/* The driver is there wherever there are devices. */
int stni_cuda_load(const char *const *files, const struct stni_cuda_symbol *symbols, int n)
{
    const bool is_driver = std::strcmp(files[0], "libcuda.so.1") == 0;
    const bool is_there = is_driver || standin::settings().libraries != standin::ABSENT;
    for (int i = 0; i < n; i++) {
        void *function = is_there ? find(symbols[i].name) : nullptr;
        if (!function)
            return 0;
        std::memcpy(symbols[i].function, &function, sizeof function);
    }
    return 1;
}
