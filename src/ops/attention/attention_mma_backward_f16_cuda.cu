/* Gradients of attention of f16 by products of tensor cores. */
#include "ops/attention/attention_mma_cuda.h"

#include "ops/attention/attention_mma_backward.cuh"

void stni_attention_mma_backward_f16(const struct stni_attention_args *args, void *stream)
{
    launch_of<f16>(*args, static_cast<cudaStream_t>(stream));
}
