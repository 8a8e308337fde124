/* Statistics that need more than elements joined one by one: variances, and means and variances with weights. Each
 * rank's moments are gathered by the ranks that share results, and joined. */
#ifndef STNI_OPS_REDUCE_STATISTIC_H
#define STNI_OPS_REDUCE_STATISTIC_H

#include "ops/norm/norm_kernel.h"
#include "ops/reduce/reduction.h"
#include "ops/reduce/statistic_kernel.h"

struct stni_statistic_attrs {
    stn_ints dim; /* absent or empty: all */
    int64_t keepdim;
    double correction; /* what is taken off the number of elements */
    int64_t unbiased;  /* 0 or 1 stands for that correction; -1: absent */
};

struct stni_statistic_rule {
    enum stni_statistic what;
    /* Cotangents of the inputs by public ops; `grad` and `out` (NULL unless it is saved) are seen with the input's
     * dims. */
    void (*backward)(stn_backward_call *call, stn_tensor *grad, stn_tensor *out, uint32_t reduced);
};

/* The correction that the attributes mean. */
double stni_statistic_correction(const struct stni_statistic_attrs *attrs);

enum { STNI_STATISTIC_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* What their descriptors are made of; `arg` is the rule. The kernels of plain statistics and of weighted ones
 * differ. */
extern const stn_op_impl stni_statistic_impl, stni_statistic_weighted_impl;

#endif
