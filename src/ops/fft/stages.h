/* The three Fourier transforms that all others are made of: each is the adjoint of one of them. */
#ifndef STNI_OPS_FFT_STAGES_H
#define STNI_OPS_FFT_STAGES_H

#include <shardtensor/op.h>

/* `placements`: those of the result, as of struct stni_stage_attrs (stage_path.h). As the input's: */
extern const stn_ints stni_fft_as_input;

/*
 * Over several dims, of complex or real numbers: scale sum x exp(-+ 2 pi i j k / n). */
stn_tensor *stni_fft_complex(stn_tensor *input, const stn_ints *dims, int inverse, double scale,
                             const stn_ints *placements);

/* Of n real numbers along the last one of `dims` the first n / 2 + 1 of the complex ones, which are then transformed
 * along the others; and the way back from these to n real ones. `interior`: a factor of those of the half line that
 * stand for their conjugates too, which adjoints need. */
stn_tensor *stni_fft_halve(stn_tensor *input, const stn_ints *dims, double scale, double interior,
                           const stn_ints *placements);
stn_tensor *stni_fft_restore(stn_tensor *input, const stn_ints *dims, int64_t n, double scale, double interior,
                             const stn_ints *placements);

#endif
