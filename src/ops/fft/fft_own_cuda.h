/* Fourier transforms on a CUDA device by kernels of our own. */
#ifndef STNI_OPS_FFT_FFT_OWN_CUDA_H
#define STNI_OPS_FFT_FFT_OWN_CUDA_H

#include "ops/fft/fft_kernel.h"

STN_BEGIN_DECLS

/* Bytes of workspace with which lines go `most` bytes at a time; at least one of them does, whatever it takes. */
size_t stni_fft_own_bytes(const struct stni_fft_args *args, size_t most);

/* Lines from number `first` on, with the same `most`. */
void stni_fft_own_launch(const struct stni_fft_args *args, int64_t first, size_t most, void *workspace, void *stream);

STN_END_DECLS
#endif
