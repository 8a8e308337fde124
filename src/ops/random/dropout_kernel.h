/* The kernel of dropout, shared by every device. */
#ifndef STNI_OPS_RANDOM_DROPOUT_KERNEL_H
#define STNI_OPS_RANDOM_DROPOUT_KERNEL_H

#include <shardtensor/op.h>

#include "core/base/isa.h"

/* out = x m, m = 0 where the number of the element is below `threshold`, else `scale`. The number is word i of the
 * stream, i = base + sum of index[d] count[d]: the same wherever the element lies. Elements that differ along dims
 * of count 0 alone share it. */
struct stni_dropout_args {
    stn_dtype dtype;
    int ndim; /* dims from the slowest in memory; the last one may be vectorised */
    int64_t shape[STN_MAX_NDIM], x_strides[STN_MAX_NDIM], out_strides[STN_MAX_NDIM], count[STN_MAX_NDIM]; /* elements; words */
    uint64_t base;
    const int64_t *stream; /* its number and the seed, in device memory */
    uint64_t threshold;    /* of 2^32 */
    double scale;
    const void *x;
    void *out;
};

enum { STNI_DROPOUT_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* The CPU's. */
STNI_ISA_KERNEL(stni_dropout);

#endif
