/* The kernels of grid_sample and of its gradients, shared by every device. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_KERNEL_H
#define STNI_OPS_RESAMPLE_SAMPLE_KERNEL_H

#include "core/base/isa.h"
#include "ops/resample/sample_taps.h"

#include <shardtensor/op.h>

enum { STNI_SAMPLE_DIMS = 3 };

/* A tensor: strides of batch, of channels (of a grid: of coordinates) and of three more dims, the first of one
 * element where there are but two. In elements. */
struct stni_sample_field {
    void *data;
    int64_t batch, channel, dim[STNI_SAMPLE_DIMS];
};

struct stni_sample_args {
    stn_dtype dtype;
    int32_t dims; /* 2, 3 */
    struct stni_sample_rule rule;
    int64_t n_in[STNI_SAMPLE_DIMS];           /* of the whole input */
    struct stni_range own[STNI_SAMPLE_DIMS];  /* what of it is here; elements elsewhere read zero */
    int64_t n_batch, n_channels, n_points[STNI_SAMPLE_DIMS];
    struct stni_sample_field input, grid, output; /* backward: output is its cotangent */
    struct stni_sample_field grad_input, grad_grid; /* data NULL: not wanted */
    size_t grad_input_bytes;                        /* it is dense */
    void *work; /* as many bytes as the kernel asks for */
};

enum { STNI_SAMPLE_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };
enum { STNI_SAMPLE_GRAD_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 };

/* The CPU's. */
STNI_ISA_KERNEL(stni_sample);
STNI_ISA_KERNEL(stni_sample_grad);

/* Points that are sampled at a time, and elements that one of them reads: 4 x 4, or 2 x 2 x 2. */
enum { STNI_SAMPLE_BLOCK = 64, STNI_SAMPLE_READS = 16 };

/* Where block point i lies among a batch entry's points. */
STNI_INLINE void stni_sample_point(const struct stni_sample_args *a, int64_t i, int64_t at[STNI_SAMPLE_DIMS])
{
    at[2] = i % a->n_points[2];
    at[1] = i / a->n_points[2] % a->n_points[1];
    at[0] = i / a->n_points[2] / a->n_points[1];
}

STNI_INLINE int64_t stni_sample_offset(const struct stni_sample_field *f, const int64_t at[STNI_SAMPLE_DIMS])
{
    return at[0] * f->dim[0] + at[1] * f->dim[1] + at[2] * f->dim[2];
}

/* The taps of a point's dims, in the tensors' order; coordinates stand the other way round: x, y, z. Returns how
 * many a dim has. */
STNI_INLINE int stni_sample_taps_of(const struct stni_sample_args *a, const double *coordinate,
                                    struct stni_sample_taps taps[STNI_SAMPLE_DIMS])
{
    int n = stni_sample_n_taps((enum stni_sample_mode)a->rule.mode);
    const struct stni_sample_taps only = {{0}, {1}, {0}};
    taps[0] = only;
    for (int d = STNI_SAMPLE_DIMS - a->dims; d < STNI_SAMPLE_DIMS; d++)
        stni_sample_read(&a->rule, a->n_in[d], coordinate[STNI_SAMPLE_DIMS - 1 - d], &taps[d]);
    return n;
}

/* Read k of a point as taps of the dims, n each. */
STNI_INLINE void stni_sample_split(const struct stni_sample_args *a, int k, int n, int tap[STNI_SAMPLE_DIMS])
{
    tap[2] = k % n;
    tap[1] = k / n % n;
    tap[0] = a->dims == STNI_SAMPLE_DIMS ? k / n / n : 0;
}

STNI_INLINE int stni_sample_n_reads(const struct stni_sample_args *a)
{
    int n = stni_sample_n_taps((enum stni_sample_mode)a->rule.mode);
    return a->dims == STNI_SAMPLE_DIMS ? n * n * n : n * n;
}

/* The place of the element that the taps name, in what is here; 0 if it is not. */
STNI_INLINE int stni_sample_locate(const struct stni_sample_args *a, const struct stni_sample_taps *taps,
                                   const int *tap, int64_t at[STNI_SAMPLE_DIMS])
{
    for (int d = 0; d < STNI_SAMPLE_DIMS; d++) {
        int64_t i = taps[d].index[tap[d]];
        if (i < a->own[d].begin || i >= a->own[d].end)
            return 0;
        at[d] = i - a->own[d].begin;
    }
    return 1;
}

#endif
