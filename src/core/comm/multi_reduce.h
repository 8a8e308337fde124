/* Reductions of dense memory in one pass: several sources into several destinations. The same as box.h does for
 * boxes of any strides, for the dtypes and sizes that collectives mostly have, without accumulators in memory. Once
 * per instruction set (core/base/isa.h). */
#ifndef STNI_CORE_COMM_MULTI_REDUCE_H
#define STNI_CORE_COMM_MULTI_REDUCE_H

#include "core/base/isa.h"

#include <shardtensor/comm.h>

struct stni_multi_reduce {
    int n_dst, n_src;
    void *const *dst;
    const void *const *src;
    int64_t n;       /* elements */
    int64_t divisor; /* AVG: what sums are divided by; else 1 */
};

/* dst[0][i] = … = src[0][i] op src[1][i] op …, in that order; the values are those of stni_box_reduce_now. A dst may
 * be one of the sources. */
typedef void (*stni_multi_reduce_fn)(const struct stni_multi_reduce *c);

struct stni_multi_reduce_kernels {
    stni_multi_reduce_fn run[STN_DTYPE_COUNT][STN_REDUCE_OP_COUNT]; /* NULL: box.h has to do it */
};

extern const struct stni_multi_reduce_kernels stni_multi_reduce_kernels_base, stni_multi_reduce_kernels_avx2,
    stni_multi_reduce_kernels_avx512;

static inline stni_multi_reduce_fn stni_multi_reduce_for(enum stni_isa isa, stn_dtype dtype, stn_reduce_op op)
{
    return STNI_ISA_PICK(stni_multi_reduce_kernels, isa)->run[dtype][op];
}

#endif
