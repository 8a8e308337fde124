/* Kernels of convolutions. */
#ifndef STNI_OPS_CONV_CONV_KERNEL_H
#define STNI_OPS_CONV_CONV_KERNEL_H

#include "ops/conv/conv_problem.h"

#include <shardtensor/op.h>

/* Solves a problem on dense memory. */
struct stni_conv_args {
    struct stni_conv_problem problem;
    struct stni_conv_data data;
    int adds_bias;   /* GRAD_INPUT: data.bias is added to x */
    void *workspace; /* as many bytes as the kernel asks for */
};

/* dst += src, dst being elements of x that positions of the padded line stand for: strides below zero reflect, and
 * where one is zero all elements along the dim go to one. */
struct stni_conv_add_args {
    stn_dtype dtype;
    stn_box dst, src;
};

/* dst = src, rounded to a 16-bit float. */
struct stni_conv_narrow_args {
    stn_dtype dtype;
    int64_t n;
    void *dst;
    const float *src;
};

size_t stni_conv_cpu_workspace(stn_queue *queue, const void *args);

stn_status stni_conv_cpu(stn_queue *queue, const void *args);
stn_status stni_conv_add_cpu(stn_queue *queue, const void *args);
stn_status stni_conv_narrow_cpu(stn_queue *queue, const void *args);

enum {
    STNI_CONV_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 |
                       1 << STN_DTYPE_C64 | 1 << STN_DTYPE_C128,
    STNI_CONV_NARROW_DTYPES = 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16
};

#endif
