/* Reductions of dense memory on the calling thread, for communicators that live in modules. */
#ifndef STNI_CORE_COMM_DENSE_H
#define STNI_CORE_COMM_DENSE_H

#include "core/base/isa.h"

#include <shardtensor/comm.h>

/* dst[i] = src[0][i] op src[1][i] op …, in that order; the values are those of stni_box_reduce_now. `dst` may be one
 * of the sources. All instruction sets give the same bits. @return STN_ERR_MEMORY. */
stn_status stni_dense_reduce(enum stni_isa isa, void *dst, const void *const *src, int n_src, int64_t count,
                             stn_dtype dtype, stn_reduce_op op);

#endif
