/* The part of cuFFT that the library uses, declared anew as the runtime's header is. */
#ifndef STANDIN_CUFFT_XT_H
#define STANDIN_CUFFT_XT_H

#include <cuda_runtime_api.h>
#include <library_types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUFFT_VER_MAJOR 12

typedef enum cufftResult_t {
    CUFFT_SUCCESS = 0,
    CUFFT_INVALID_PLAN = 1,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_TYPE = 3,
    CUFFT_INVALID_VALUE = 4,
    CUFFT_EXEC_FAILED = 6,
    CUFFT_INVALID_SIZE = 8,
    CUFFT_NOT_SUPPORTED = 16
} cufftResult;

#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1

typedef int cufftHandle;

cufftResult cufftCreate(cufftHandle *out);
cufftResult cufftDestroy(cufftHandle plan);
cufftResult cufftSetAutoAllocation(cufftHandle plan, int allocates);
cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream);
cufftResult cufftSetWorkArea(cufftHandle plan, void *workspace);
cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long int *n, long long int *in_dims,
                                long long int in_step, long long int in_line, cudaDataType in_type,
                                long long int *out_dims, long long int out_step, long long int out_line,
                                cudaDataType out_type, long long int count, size_t *workspace, cudaDataType compute);
cufftResult cufftXtExec(cufftHandle plan, void *in, void *out, int direction);

#ifdef __cplusplus
}
#endif
#endif
