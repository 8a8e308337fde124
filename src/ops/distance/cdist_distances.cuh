/* What the kernels of distances between rows have in common on a CUDA device. */
#ifndef STNI_OPS_DISTANCE_CDIST_DISTANCES_CUH
#define STNI_OPS_DISTANCE_CDIST_DISTANCES_CUH

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "ops/distance/cdist_kernel.h"

namespace {

using metric = enum stni_cdist_metric;

/* Of differences or of their squares: the metrics that tiles of many rows are for. */
inline bool is_of_sums(metric m)
{
    return m == STNI_CDIST_ONE || m == STNI_CDIST_TWO;
}

/* One batch of both directions: where its operands begin. */
enum { X1, X2, DISTANCE, GRAD, GRAD1, OPERANDS };

struct distances {
    operands<OPERANDS> own, summed; /* batch dims that grad1 has, and those that it is summed over */
    metric m;
    double p;
    int64_t rows1, rows2, n, row[OPERANDS], col[OPERANDS];
};

}

#endif
