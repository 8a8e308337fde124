/* The kernel that chooses among ranks' maxima, shared by every device. */
#ifndef STNI_OPS_POOL_GLOBAL_MAX_KERNEL_H
#define STNI_OPS_POOL_GLOBAL_MAX_KERNEL_H

#include <shardtensor/op.h>

/* Of each of `count` windows the greatest of n_parts maxima, and its place in the whole input: of equal ones the first
 * place, of NaNs the last. */
struct stni_global_max_args {
    stn_dtype dtype;
    int n_parts;
    int64_t count;
    const void *values;    /* (n_parts, count) */
    const int64_t *places; /* likewise; -1: the part has no elements */
    void *to;              /* (count) */
    int64_t *index;        /* (count); NULL: not wanted */
};

stn_status stni_global_max_cpu(stn_queue *queue, const void *args);

#endif
