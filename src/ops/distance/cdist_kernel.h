/* Kernels of distances between rows, shared by every device. */
#ifndef STNI_OPS_DISTANCE_CDIST_KERNEL_H
#define STNI_OPS_DISTANCE_CDIST_KERNEL_H

#include <shardtensor/op.h>

#include "core/base/isa.h"

#include <math.h>

/* A batch of matrices; strides in elements, 0 along a batch dim that it is broadcast along. */
struct stni_cdist_operand {
    void *data;
    int64_t batch[STN_MAX_NDIM], row, col;
};

/* forward: distance (rows1, rows2) of x1 (rows1, m) and x2 (rows2, m). backward: from grad, which lies as distances
 * do, grad1 and grad2, which lie as x1 and x2 do and sum over the batch dims that these lack. */
struct stni_cdist_args {
    stn_dtype dtype;
    double p;
    int n_batch;
    int64_t batch[STN_MAX_NDIM], rows1, rows2, m;
    struct stni_cdist_operand x1, x2, distance, grad, grad1, grad2;
};

/* What a norm of order p is made of. */
enum stni_cdist_metric { STNI_CDIST_ZERO, STNI_CDIST_ONE, STNI_CDIST_TWO, STNI_CDIST_LARGEST, STNI_CDIST_OTHER };

static inline enum stni_cdist_metric stni_cdist_metric(double p)
{
    if (p == 0)
        return STNI_CDIST_ZERO;
    if (p == 1)
        return STNI_CDIST_ONE;
    if (p == 2)
        return STNI_CDIST_TWO;
    return isinf(p) ? STNI_CDIST_LARGEST : STNI_CDIST_OTHER;
}

enum { STNI_CDIST_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* The CPU's. */
STNI_ISA_KERNEL(stni_cdist);
STNI_ISA_KERNEL(stni_cdist_backward);

#endif
