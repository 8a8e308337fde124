/* The kernel of resampling and of its adjoint, shared by every device. */
#ifndef STNI_OPS_RESAMPLE_RESAMPLE_KERNEL_H
#define STNI_OPS_RESAMPLE_RESAMPLE_KERNEL_H

#include "core/base/isa.h"
#include "ops/resample/taps.h"

#include <shardtensor/op.h>

enum { STNI_RESAMPLE_DIMS = 3, STNI_RESAMPLE_OUTER = 2 };

/* A box of targets from a box of sources that holds all that they are made of: target = sum over sources of their
 * weights' product, dim by dim, the last one innermost. Dims that are not resampled stand first, with one element.
 * Strides in elements. */
struct stni_resample_args {
    stn_dtype dtype;
    int transposed;
    struct stni_resample_dim dim[STNI_RESAMPLE_DIMS];
    struct stni_range target[STNI_RESAMPLE_DIMS], source[STNI_RESAMPLE_DIMS];
    int64_t target_stride[STNI_RESAMPLE_DIMS], source_stride[STNI_RESAMPLE_DIMS];
    int64_t n_outer[STNI_RESAMPLE_OUTER], outer_target[STNI_RESAMPLE_OUTER], outer_source[STNI_RESAMPLE_OUTER];
    int64_t width; /* channels that lie next to each other, in both: strides 1. Else 1 */
    const void *from;
    void *to;
    void *work; /* as many bytes as the kernel asks for */
};

enum { STNI_RESAMPLE_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* Terms of one dim at most, all targets together. */
int64_t stni_resample_terms(const struct stni_resample_args *args, int d);

/* The CPU's. */
STNI_ISA_KERNEL(stni_resample);
size_t stni_resample_workspace(stn_queue *queue, const void *args);
size_t stni_resample_ahead(const struct stni_resample_args *args); /* how far ahead rows of the sources are prefetched, bytes; 0: not at all */

#endif
