/* Sums of a few boxes that are the exact sum, rounded once: whoever brings which addend, and in which order, cannot be
 * seen in them. */
#ifndef STNI_CORE_BOX_BOX_EXACT_H
#define STNI_CORE_BOX_BOX_EXACT_H

#include <shardtensor/comm.h>

/* Whether the order of additions can be seen in op over this dtype: SUM and AVG of floating and complex numbers. */
int stni_box_order_shows(stn_dtype dtype, stn_reduce_op op);

/* dst = the sum of the sources (AVG: that over n_src, rounded again), element by element, the parts of complex numbers
 * each for itself; 16-bit floats are rounded to f32 first. Boxes and overlap as stni_box_reduce_now's. Zeros are
 * positive. On the calling thread: for kernels. */
void stni_box_exact_sum_now(const stn_box *dst, int n_src, const stn_box *src, stn_dtype dtype, stn_reduce_op op);

#endif
