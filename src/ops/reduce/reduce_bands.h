/* Rows that come from memory join their accumulators: a part of the CPU's kernel of reductions. */
#ifndef STNI_OPS_REDUCE_REDUCE_BANDS_H
#define STNI_OPS_REDUCE_REDUCE_BANDS_H

#include "ops/reduce/reduce_kernel.h"

/* Rows of `lanes` elements that follow each other; row_stride in elements. */
struct stni_reduce_rows {
    const struct stni_reduction_kernels *kernels;
    enum stni_reduction op;
    stn_dtype dtype;           /* that kernels->accumulate has an entry for */
    int64_t in_size, acc_size; /* bytes of an element */
    char *acc;
    const char *in;
    int64_t rows, row_stride, lanes;
    int followed; /* by the processor: nothing is prefetched */
};

/* As kernels->accumulate, the same bits. The next rows are prefetched while some are joined. */
void stni_reduce_bands(const struct stni_reduce_rows *r);

/* Whether asking for them is worth its time: where the input is too large for the caches, and what is done with a
 * cache line is more than one instruction. One alone lets the processor look far enough ahead by itself. */
int stni_reduce_wants_bands(enum stni_reduction op, stn_dtype dtype, stn_dtype acc_dtype, int64_t bytes);

#endif
