/* What transforms without a library have in common: the prime factors of their lengths, and chirps. For C, C++ and CUDA
 * compilers.
 *
 * Where n has a large prime factor, the transform is a convolution with a chirp, jk = (j^2 + k^2 - (k - j)^2) / 2,
 * computed by transforms whose length is a power of two that is large enough for it (Bluestein 1970). */
#ifndef STNI_OPS_FFT_MIXED_RADIX_H
#define STNI_OPS_FFT_MIXED_RADIX_H

#include "core/base/inline.h"

#include <stdint.h>

enum { STNI_FFT_MAX_FACTORS = 64, STNI_FFT_LARGE_PRIME = 31 };

/* The small prime factors of n. Returns what is left of n without them. */
STNI_INLINE int64_t stni_fft_factorise(int64_t n, int factors[STNI_FFT_MAX_FACTORS], int *n_factors)
{
    *n_factors = 0;
    for (int p = 2; p <= STNI_FFT_LARGE_PRIME; p++)
        for (; n % p == 0; n /= p)
            factors[(*n_factors)++] = p;
    return n;
}

STNI_INLINE int64_t stni_fft_chirp_space(int64_t n)
{
    int64_t space = 1;
    while (space < 2 * n - 1)
        space *= 2;
    return space;
}

/* k^2 modulo 2n, which keeps the angle pi k^2 / n exact: k^2 is taken digit by digit, so that it does not overflow.
 * n below 2^62. */
STNI_INLINE uint64_t stni_fft_chirp_step(int64_t k, int64_t n)
{
    const uint64_t all = 2 * (uint64_t)n;
    uint64_t square = 0, part = (uint64_t)k % all;
    if ((uint64_t)k <= UINT32_MAX)
        return (uint64_t)k * (uint64_t)k % all;
    for (uint64_t left = (uint64_t)k; left > 0; left >>= 1) {
        square = left & 1 ? (square + part) % all : square;
        part = 2 * part % all;
    }
    return square;
}

#endif
