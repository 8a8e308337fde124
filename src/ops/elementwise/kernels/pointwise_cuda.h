/* What each list of rows puts on a stream; `values`: where integers that are divided by 0 are reported. Sources are
 * compiled one a list, so that none takes long. For pointwise_cuda.cu. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_CUDA_H
#define STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_CUDA_H

#include "core/device/cuda/grid.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

void stni_pointwise_launch_arithmetic(const struct stni_pointwise_args &args, stn_value_record *values,
                                      cudaStream_t stream);
void stni_pointwise_launch_comparison(const struct stni_pointwise_args &args, stn_value_record *values,
                                      cudaStream_t stream);
void stni_pointwise_launch_exponential(const struct stni_pointwise_args &args, stn_value_record *values,
                                       cudaStream_t stream);
void stni_pointwise_launch_trigonometry(const struct stni_pointwise_args &args, stn_value_record *values,
                                        cudaStream_t stream);
void stni_pointwise_launch_activation(const struct stni_pointwise_args &args, stn_value_record *values,
                                      cudaStream_t stream);

/* Operands that repeat along dims: false, and nothing is put on the stream, where its kernels do not serve. */
bool stni_pointwise_launch_broadcast(const struct stni_pointwise_args &args, cudaStream_t stream);

#endif
