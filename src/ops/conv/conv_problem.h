/* One convolution of dense chunks: what a kernel computes. Channels-last x (n, in…, c) and y (n, out…, o), on a device
 * also row-major x (n, c, in…) and y (n, o, out…); row-major weight (o, c / groups, kernel…), bias (o):
 *
 *     y[n, p, o] = bias[o] + sum over taps t and channels c of o's group of x[n, p * stride - pad_low + t * dilation, c] weight[o, c, t],
 *
 * x being zero outside. pad_high is what makes `out` the size of the result: (out - 1) * stride + (kernel - 1) *
 * dilation + 1 = in + pad_low + pad_high, so it may be negative where the last elements are not read. */
#ifndef STNI_OPS_CONV_CONV_PROBLEM_H
#define STNI_OPS_CONV_CONV_PROBLEM_H

#include "core/base/inline.h"

#include <shardtensor/dtype.h>

enum stni_conv_kind {
    STNI_CONV_FORWARD,    /* y from x, weight and bias */
    STNI_CONV_GRAD_INPUT, /* x from y and weight: the adjoint of the above in x */
    STNI_CONV_GRAD_WEIGHT /* weight from x and y: the adjoint in weight */
};

/* The three tensors, in the order of the kinds that give them. */
enum stni_conv_role { STNI_CONV_Y, STNI_CONV_X, STNI_CONV_WEIGHT, STNI_CONV_ROLES };

enum { STNI_CONV_MAX_DIMS = 3 };

/* Compared by its bytes: set whole from {0}, entries past `dims` left zero. */
struct stni_conv_problem {
    int32_t kind;         /* stni_conv_kind */
    int32_t dims;         /* windowed ones: 1, 2 or 3 */
    int32_t dtype;        /* of x and y */
    int32_t weight_dtype; /* on the CPU f32 may stand for bf16, so that gradients are summed in it; else dtype */
    int32_t has_bias;     /* FORWARD */
    int32_t row_major;    /* 1: x and y are row-major; 0: channels-last */
    int64_t n, groups, c, o;
    int64_t in[STNI_CONV_MAX_DIMS], out[STNI_CONV_MAX_DIMS], kernel[STNI_CONV_MAX_DIMS];
    int64_t stride[STNI_CONV_MAX_DIMS], dilation[STNI_CONV_MAX_DIMS];
    int64_t pad_low[STNI_CONV_MAX_DIMS], pad_high[STNI_CONV_MAX_DIMS];
};

/* Where the data is. The problem is solved `images` times, x and y moving on by their steps (elements): windows of
 * rows of a batch are dense image by image only. A device solves it once, and adds to no weight. */
struct stni_conv_data {
    void *x, *y, *weight, *bias;
    int64_t images, x_step, y_step;
    int accumulate;  /* GRAD_WEIGHT: add to weight. Gradients of several images are added up in any case */
    int same_weight; /* else: the weight is that of the last problem solved, unchanged since */
};

/* 1 where x, y or both have no elements. */
STNI_INLINE int stni_conv_is_empty(const struct stni_conv_problem *p)
{
    int empty = p->n <= 0 || p->c <= 0 || p->o <= 0;
    for (int d = 0; d < p->dims; d++)
        empty = empty || p->in[d] <= 0 || p->out[d] <= 0;
    return empty;
}

/* 1 where a step, a window or a pad is of more bytes than 32-bit offsets reach, as libraries have them. */
STNI_INLINE int stni_conv_reaches_far(const struct stni_conv_problem *p)
{
    double bytes = (double)(p->c > p->o ? p->c : p->o) * (p->dtype == STN_DTYPE_F64 ? 8 : 4);
    for (int d = p->dims - 1; d >= 0; d--) {
        const int64_t reach = (p->kernel[d] - 1) * p->dilation[d];
        const int64_t lengths[] = {p->stride[d], reach, p->pad_low[d], p->pad_high[d]};
        for (int i = 0; i < 4; i++)
            if (bytes * (double)lengths[i] > INT32_MAX)
                return 1;
        bytes *= (double)(p->in[d] > p->out[d] ? p->in[d] : p->out[d]);
    }
    return 0;
}

#endif
