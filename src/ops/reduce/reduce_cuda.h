/* Reductions whose accumulators have the input's dtype: the largest and smallest element, any and all. */
#ifndef STNI_OPS_REDUCE_REDUCE_CUDA_H
#define STNI_OPS_REDUCE_REDUCE_CUDA_H

#include "ops/reduce/reduce_kernel.h"

STN_BEGIN_DECLS

/* On a cudaStream_t. */
void stni_reduce_own(const struct stni_reduce_args *args, void *stream);

STN_END_DECLS
#endif
