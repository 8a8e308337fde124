/* Derivatives of products and extremes over ranks. */
#ifndef STNI_OPS_DIST_ALL_REDUCE_KERNEL_H
#define STNI_OPS_DIST_ALL_REDUCE_KERNEL_H

#include <shardtensor/op.h>

/* n elements of p ranks: all[r n + i] is rank r's element i. */
struct stni_others_args {
    stn_dtype dtype;
    stn_reduce_op op; /* PROD, MIN or MAX */
    int p, me;
    int64_t n;
    const void *grad, *all;
    void *out;
};

/* PROD: out = grad times the product of the OTHERS, so that zeros are right. MIN, MAX: grad to the holders of the extreme, split evenly; a NaN
 * anywhere gives NaN. */
stn_status stni_others_cpu(stn_queue *queue, const void *args);

#endif
