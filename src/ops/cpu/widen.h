/* 16-bit floats are computed in f32 by kernels that have no arithmetic of their own for them. */
#ifndef STNI_OPS_CPU_WIDEN_H
#define STNI_OPS_CPU_WIDEN_H

#include <shardtensor/comm.h>

/* f32 for the 16-bit floats, else the dtype itself. */
static inline stn_dtype stni_wide_dtype(stn_dtype dtype)
{
    return dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16 ? STN_DTYPE_F32 : dtype;
}

/* Converts between a 16-bit float and f32, element by element, rounding to nearest even; equal shapes, no overlap.
 * On the calling thread: for kernels. */
void stni_convert_box_now(const stn_box *dst, stn_dtype to, const stn_box *src, stn_dtype from);

#endif
