/* Matrix products for other kernels of the CUDA module: as the rows of matmul_cuda.cu run them, with a stni_matmul_args
 * whose workspace is as large as asked for. */
#ifndef STNI_OPS_MATMUL_MATMUL_CUDA_H
#define STNI_OPS_MATMUL_MATMUL_CUDA_H

#include "ops/matmul/matmul_kernel.h"

STN_BEGIN_DECLS

size_t stni_matmul_cuda_workspace(stn_queue *queue, const void *args);
stn_status stni_matmul_cuda(stn_queue *queue, const void *args);

STN_END_DECLS
#endif
