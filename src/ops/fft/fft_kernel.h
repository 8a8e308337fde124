/* Arguments of the kernel of Fourier transforms. */
#ifndef STNI_OPS_FFT_FFT_KERNEL_H
#define STNI_OPS_FFT_FFT_KERNEL_H

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

enum stni_transform_kind {
    STNI_TRANSFORM_FORWARD,  /* n complex to n complex, exponent -2 pi i j k / n */
    STNI_TRANSFORM_BACKWARD, /* the same with + */
    STNI_TRANSFORM_HALVE,    /* n real to the first n / 2 + 1 complex ones, forward */
    STNI_TRANSFORM_RESTORE   /* back to n real ones; imaginary parts of the first and, for an even n, of the last are not read */
};

/* A dim that is transformed beside the lines' own: of complex numbers, n of them on both sides. */
struct stni_fft_dim {
    int64_t n, step_in, step_out;
};

enum { STNI_FFT_MOST_MORE = 2 };

/* Lines are transformed and stored: `scale` times what comes out. Strides in elements of `in` and of `out`, which
 * may be the same memory where elements are.
 *
 * With more dims than the line's, slowest first, the result is what comes of one after the other: those are
 * transformed after lines of reals are halved, and before halves of lines are restored. Only kernels of "planes" get
 * any. A device need not have one, and says by its workspace whether it takes a problem: with none it does not. */
struct stni_fft_args {
    enum stni_transform_kind kind;
    stn_dtype real; /* f32 or f64: of real numbers, and of the parts of complex ones */
    int64_t n;      /* the transform's */
    int real_in;    /* complex lines of real elements */
    int64_t n_in, n_out, step_in, step_out; /* of a line */
    int n_more;                             /* 0 in kernels of lines */
    struct stni_fft_dim more[STNI_FFT_MOST_MORE];
    int ndim; /* the dims that are not transformed, slowest first; at least one */
    int64_t shape[STN_MAX_NDIM], strides_in[STN_MAX_NDIM], strides_out[STN_MAX_NDIM];
    const void *in;
    void *out;
    double scale;
    double interior; /* factor of those elements of half a line that stand for their conjugates too */
    void *workspace; /* as many bytes as the kernel asks for */
};

stn_status stni_fft_cpu(stn_queue *queue, const void *args);
size_t stni_fft_workspace(stn_queue *queue, const void *args);

/* Of planes: one dim more. */
stn_status stni_fft_planes_cpu(stn_queue *queue, const void *args);
size_t stni_fft_planes_workspace(stn_queue *queue, const void *args);

#endif
