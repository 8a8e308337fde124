/* How reference.c sees a convolution: three windowed dims, and where each pixel reads. */
#ifndef STNI_OPS_CONV_REFERENCE_LAYOUT_H
#define STNI_OPS_CONV_REFERENCE_LAYOUT_H

#include "ops/conv/reference.h"
#include "ops/cpu/gemm.h"

#include <string.h>

/* A problem with what follows from it. The windowed dims are always three: others of size 1 stand first. */
struct layout {
    const struct stni_conv_problem *p;
    enum stni_isa isa;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t c, o, taps;         /* channels of a group; taps of the kernel */
    int64_t x_pixels, y_pixels; /* of the whole batch */
    int64_t block;              /* pixels of y in a block */
    size_t weight_bytes, columns_bytes, gemm_bytes;
};

/* Where pixel i of y reads x: its image, the position of its first tap, and which taps of a line are inside. */
struct place {
    int64_t n, x[3], first, last;
};

static inline struct place locate(const struct layout *l, int64_t i)
{
    struct place at;
    for (int d = 2; d >= 0; i /= l->out[d], d--)
        at.x[d] = i % l->out[d] * l->stride[d] - l->pad[d];
    at.n = i;
    at.first = at.x[2] < 0 ? (-at.x[2] + l->dilation[2] - 1) / l->dilation[2] : 0;
    at.first = at.first < l->kernel[2] ? at.first : l->kernel[2];
    int64_t space = l->in[2] - at.x[2];
    at.last = space > 0 ? (space + l->dilation[2] - 1) / l->dilation[2] : 0;
    at.last = at.last < l->kernel[2] ? at.last : l->kernel[2];
    at.last = at.last > at.first ? at.last : at.first;
    return at;
}

/* The product of a block of n pixels of one group, with K = taps c: columns (n, K), weight (K, o), and pixels (n, o)
 * of y, whose rows are those of all groups. */
static inline struct stni_gemm product_of(const struct layout *l, int64_t n, void *columns, void *weight, void *pixels)
{
    const int64_t k = l->taps * l->c, o = l->o, row = l->p->o;
    const stn_dtype dtype = (stn_dtype)l->p->dtype;
    switch ((enum stni_conv_kind)l->p->kind) {
    case STNI_CONV_FORWARD: /* pixels += columns weight */
        return (struct stni_gemm){.dtype = dtype, .accumulate = 1, .m = n, .n = o, .k = k,
                                  .a = columns, .a_row = k, .a_col = 1,
                                  .b = weight, .b_row = o, .b_col = 1,
                                  .c = pixels, .c_row = row, .c_col = 1};
    case STNI_CONV_GRAD_INPUT: /* columns = pixels weight' */
        return (struct stni_gemm){.dtype = dtype, .m = n, .n = k, .k = o, .a = pixels, .a_row = row, .a_col = 1,
                                  .b = weight, .b_row = 1, .b_col = o, .c = columns, .c_row = k, .c_col = 1};
    case STNI_CONV_GRAD_WEIGHT: /* weight += columns' pixels */
        break;
    }
    return (struct stni_gemm){.dtype = dtype, .accumulate = 1, .m = k, .n = o, .k = n,
                              .a = columns, .a_row = 1, .a_col = k,
                              .b = pixels, .b_row = row, .b_col = 1,
                              .c = weight, .c_row = o, .c_col = 1};
}

#endif
