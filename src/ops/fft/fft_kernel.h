/* Arguments of the kernel of Fourier transforms. */
#ifndef STNI_OPS_FFT_FFT_KERNEL_H
#define STNI_OPS_FFT_FFT_KERNEL_H

#include "ops/fft/transform.h"

#include <shardtensor/op.h>

/* Lines are packed into buffers, transformed, and stored: `scale` times what comes out. Strides in elements of `in` and of `out`, which may be the
 * same memory where elements are. */
struct stni_fft_args {
    const struct stni_transform *transform;
    int real_in; /* complex lines of real elements */
    int64_t n_in, n_out, step_in, step_out; /* of a line */
    int ndim;                               /* the other dims, slowest first; at least one */
    int64_t shape[STN_MAX_NDIM], strides_in[STN_MAX_NDIM], strides_out[STN_MAX_NDIM];
    const void *in;
    void *out;
    double scale;
    double interior; /* factor of those elements of half a line that stand for their conjugates too */
    char *from, *to, *work; /* 64-byte aligned: `lanes` lines of `pitch` bytes each; work of the transform */
    int64_t lanes;
    size_t pitch;
};

stn_status stni_fft_cpu(stn_queue *queue, const void *args);

#endif
