/* Products of a matrix and a vector in f32 and f64, whose sums are as exact as a sum's: chains of 32 terms, which are
 * added up in f64. */
#ifndef STNI_OPS_CPU_GEMV_KERNELS_H
#define STNI_OPS_CPU_GEMV_KERNELS_H

#include <shardtensor/dtype.h>

#include <stdint.h>

/* y (rows) = A (rows, k) x (k), or y += A x. Strides in elements, of any sign; y overlaps neither A nor x. */
struct stni_gemv {
    int64_t rows, k;
    const void *a, *x;
    void *y;
    int64_t a_row, a_col, x_step, y_step;
    int accumulate;
};

/* By dtype; NULL where it is not served. */
struct stni_gemv_kernels {
    void (*run[STN_DTYPE_COUNT])(const struct stni_gemv *g);
};

extern const struct stni_gemv_kernels stni_gemv_kernels_base, stni_gemv_kernels_avx2, stni_gemv_kernels_avx512;

#endif
