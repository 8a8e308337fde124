/* The three Fourier transforms that all others are made of: each is the adjoint of one of them. */
#ifndef STNI_OPS_FFT_STAGES_H
#define STNI_OPS_FFT_STAGES_H

#include <shardtensor/op.h>

/* Over several dims, of complex or real numbers: scale sum x exp(-+ 2 pi i j k / n). */
stn_tensor *stni_fft_complex(stn_tensor *input, const stn_ints *dims, int inverse, double scale);

/* Of n real numbers along the last one of `dims` the first n / 2 + 1 of the complex ones, which are then transformed
 * along the others; and the way back from these to n real ones. `interior`: a factor of those of the half line that
 * stand for their conjugates too, which adjoints need. */
stn_tensor *stni_fft_halve(stn_tensor *input, const stn_ints *dims, double scale, double interior);
stn_tensor *stni_fft_restore(stn_tensor *input, const stn_ints *dims, int64_t n, double scale, double interior);

#endif
