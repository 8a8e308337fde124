/* What direct convolutions of all instruction sets share: sums over planes, and the kernel tables. */
#ifndef STNI_OPS_CONV_DIRECT_KERNELS_H
#define STNI_OPS_CONV_DIRECT_KERNELS_H

#include "core/base/isa.h"

#include <shardtensor/dtype.h>

/* For each of `outputs` and each position i of n: target = bias + sum over terms k of weight[k] source[offset[k] + i],
 * in that order wherever i lies. Less than 64 bytes behind the n-th are read and written too, and mean nothing. */
struct stni_conv_correlation {
    const void *source, *weight, *bias; /* weight (outputs, terms); bias NULL: none */
    void *target;
    const int64_t *offset;
    int64_t terms, outputs, n;
    int64_t target_plane; /* elements from one output to the next */
};

/* sum[k] += the products of target with source[offset[k] + …], over rows of n elements. Each is summed in lanes of the
 * dtype, which then join in f64. Less than 64 bytes behind a row are read, and do not count. */
struct stni_conv_dots {
    const void *source, *target;
    const int64_t *offset;
    int64_t terms, rows, n;
    int64_t row; /* elements from one row to the next, in both */
    double *sum;
};

/* By dtype; NULL but for f32 and f64. */
struct stni_conv_direct_kernels {
    void (*correlate[STN_DTYPE_COUNT])(const struct stni_conv_correlation *c);
    void (*dots[STN_DTYPE_COUNT])(const struct stni_conv_dots *d);
};

extern const struct stni_conv_direct_kernels stni_conv_direct_kernels_base, stni_conv_direct_kernels_avx2,
    stni_conv_direct_kernels_avx512;

#endif
