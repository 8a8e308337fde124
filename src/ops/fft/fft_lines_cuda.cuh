/* Elements of the lines that are transformed on a CUDA device: what is read of them, and what is stored, in f64
 * whatever the dtype. */
#ifndef STNI_OPS_FFT_FFT_LINES_CUDA_CUH
#define STNI_OPS_FFT_FFT_LINES_CUDA_CUH

#include "core/device/cuda/complex.cuh"
#include "core/device/cuda/grid.h"
#include "ops/fft/fft_kernel.h"

namespace {

typedef stni_complex<double> number;

STNI_HOST_DEVICE int64_t lines_of(const stni_fft_args &a)
{
    int64_t lines = 1;
    for (int d = 0; d < a.ndim; d++)
        lines *= a.shape[d];
    return lines;
}

/* Of the exponent. */
STNI_HOST_DEVICE int sign_of(const stni_fft_args &a)
{
    return a.kind == STNI_TRANSFORM_BACKWARD || a.kind == STNI_TRANSFORM_RESTORE ? 1 : -1;
}

/* Where line l begins. */
STNI_DEVICE int64_t line_begin(const stni_fft_args &a, const int64_t *strides, int64_t l)
{
    int64_t at = 0;
    for (int d = a.ndim - 1; d >= 0; d--) {
        at += l % a.shape[d] * strides[d];
        l /= a.shape[d];
    }
    return at;
}

/* Whether element k of half a line stands for its conjugate too. */
STNI_DEVICE bool is_interior(const stni_fft_args &a, int64_t k)
{
    return k >= 1 && k <= (a.n - 1) / 2;
}

/* Element k of the whole line: where half of it is there, what is not is the conjugate of what is. R: of parts. */
template <class R> STNI_DEVICE number read_number(const stni_fft_args &a, int64_t begin, int64_t k)
{
    const bool is_there = a.kind != STNI_TRANSFORM_RESTORE || k <= a.n / 2;
    const int64_t at = begin + (is_there ? k : a.n - k) * a.step_in;
    if (a.real_in || a.kind == STNI_TRANSFORM_HALVE)
        return number((double)static_cast<const R *>(a.in)[at]);
    const stni_complex<R> z = static_cast<const stni_complex<R> *>(a.in)[at];
    if (a.kind != STNI_TRANSFORM_RESTORE)
        return number((double)z.re, (double)z.im);
    if (!is_interior(a, is_there ? k : a.n - k))
        return number((double)z.re);
    return number((double)z.re * a.interior, (double)(is_there ? z.im : -z.im) * a.interior);
}

template <class R> STNI_DEVICE void write_number(const stni_fft_args &a, int64_t begin, int64_t k, number v)
{
    const double scale = a.kind == STNI_TRANSFORM_HALVE && is_interior(a, k) ? a.scale * a.interior : a.scale;
    const int64_t at = begin + k * a.step_out;
    if (a.kind == STNI_TRANSFORM_RESTORE)
        static_cast<R *>(a.out)[at] = (R)(v.re * scale);
    else
        static_cast<stni_complex<R> *>(a.out)[at] = stni_complex<R>((R)(v.re * scale), (R)(v.im * scale));
}

}

#endif
