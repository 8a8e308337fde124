/* Reductions of dense memory in one pass: several sources into several destinations. What box.h offers for boxes of any stride, for the dtypes
 * and sizes that collectives live on: no detour through accumulators in memory. Once per instruction set (core/base/isa.h). */
#ifndef STNI_CORE_COMM_MULTI_REDUCE_H
#define STNI_CORE_COMM_MULTI_REDUCE_H

#include "core/base/isa.h"

#include <shardtensor/comm.h>

struct stni_fold {
    int n_dst, n_src;
    void *const *dst;
    const void *const *src;
    int64_t n;       /* elements */
    int64_t divisor; /* AVG: what sums are divided by; else 1 */
};

/* dst[0][i] = … = src[0][i] op src[1][i] op …, in that order; the values are those of stni_box_reduce_now. A dst may be one of the
 * sources. */
typedef void (*stni_fold_fn)(const struct stni_fold *c);

struct stni_fold_kernels {
    stni_fold_fn run[STN_DTYPE_COUNT][STN_REDUCE_OP_COUNT]; /* NULL: box.h has to do it */
};

extern const struct stni_fold_kernels stni_fold_kernels_base, stni_fold_kernels_avx2, stni_fold_kernels_avx512;

static inline stni_fold_fn stni_fold_for(enum stni_isa isa, stn_dtype dtype, stn_reduce_op op)
{
    return STNI_ISA_PICK(stni_fold_kernels, isa)->run[dtype][op];
}

#endif
