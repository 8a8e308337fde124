/* Boxes: strided copies and reductions of equal shapes, on raw memory. */
#ifndef STNI_CORE_BOX_BOX_H
#define STNI_CORE_BOX_BOX_H

#include "core/base/isa.h"

#include <shardtensor/comm.h>

/* Elements of a box. */
static inline int64_t stni_box_numel(const stn_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d];
    return n;
}

/* The strides of a box without gaps, the last dim's elements side by side. */
static inline void stni_box_make_dense(stn_box *box)
{
    int64_t stride = 1;
    for (int d = box->ndim - 1; d >= 0; d--) {
        box->strides[d] = stride;
        stride *= box->shape[d];
    }
}

/* dst = src, element by element; equal shapes, no overlap. Sizes of elements: 1, 2, 4, 8 or 16 bytes. On the calling
 * thread: for kernels. */
void stni_box_copy_now(enum stni_isa isa, const stn_box *dst, const stn_box *src, size_t element_size);

/* The same on the queue. */
stn_status stni_box_copy(stn_queue *queue, const stn_box *dst, const stn_box *src, size_t element_size);

/* 1 where stni_box_reduce_now combines: every op of every dtype, but no MIN and MAX of complex numbers. */
int stni_box_reduces(stn_dtype dtype, stn_reduce_op op);

/* dst[0] = … = dst[n_dst - 1] = op over src[0], src[1], … in that order, element by element; all boxes have dst[0]'s
 * shape. A dst may be exactly one of the sources (in place), else they do not overlap. One pass over memory. 16-bit
 * floats are accumulated in f32 and rounded once. AVG is the sum divided by n_src, integers truncated. MIN and MAX
 * pass NaN on. Integers wrap. Bool: SUM, AVG and MAX are "or", PROD and MIN are "and". `n_src` >= 1. On the calling
 * thread: for kernels. */
void stni_box_reduce_now(enum stni_isa isa, int n_dst, const stn_box *dst, int n_src, const stn_box *src,
                         stn_dtype dtype, stn_reduce_op op);

/* The same on the queue, which fails where the boxes are too many for a kernel's arguments (STN_ERR_UNSUPPORTED). */
stn_status stni_box_reduce(stn_queue *queue, int n_dst, const stn_box *dst, int n_src, const stn_box *src,
                           stn_dtype dtype, stn_reduce_op op);

/* dst += src, element by element; equal shapes, no overlap. Along dims in which dst has stride 0 all elements of src
 * go to one, in order; 16-bit floats are accumulated in f32 there and rounded once. On the calling thread: for
 * kernels. */
void stni_box_add_now(enum stni_isa isa, const stn_box *dst, const stn_box *src, stn_dtype dtype);

#endif
