/* Attention of 16-bit floats on tensor cores. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_MMA_CUDA_H
#define STNI_OPS_ATTENTION_ATTENTION_MMA_CUDA_H

#include "ops/attention/attention_kernel.h"

STN_BEGIN_DECLS

enum { STNI_ATTENTION_MMA_WIDTH = 128 /* elements of the longest rows that it takes, of any strides */ };

/* On a cudaStream_t. There are query rows. */
void stni_attention_mma_launch(const struct stni_attention_args *args, void *stream);

/* Gradients of queries, keys and values, which hold zeros. There are query rows and keys. The workspace has a float
 * for each query row of the batch. */
void stni_attention_mma_backward_bf16(const struct stni_attention_args *args, void *stream);
void stni_attention_mma_backward_f16(const struct stni_attention_args *args, void *stream);

STN_END_DECLS
#endif
