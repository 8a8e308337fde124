/* Products of squares by a warp (core/device/cuda/tensor_cores.cuh) on the stand-in. */
#ifndef CUDA_SQUARES_H
#define CUDA_SQUARES_H

#include <shardtensor/dtype.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SQUARES_SIDE = 16, SQUARES_SIZE = SQUARES_SIDE * SQUARES_SIDE };

/** How the lanes come to their parts. DOCUMENTED: each computes from PTX's text which elements it has. READ: from
 * shared memory. TRANSPOSED: the right factor lies there transposed. TWICE: the product of both, rounded, times the
 * right factor again. */
enum squares_how { SQUARES_DOCUMENTED, SQUARES_READ, SQUARES_TRANSPOSED, SQUARES_TWICE };

/** The product of two squares of bf16 or f16, row by row, added to `sum`. @return 0, or 1 where it could not be run. */
int squares_multiply(stn_dtype dtype, enum squares_how how, const uint16_t *left, const uint16_t *right, float *sum);

#ifdef __cplusplus
}
#endif
#endif
