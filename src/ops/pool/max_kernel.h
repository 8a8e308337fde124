/* The kernel of max pools, shared by every device. */
#ifndef STNI_OPS_POOL_MAX_KERNEL_H
#define STNI_OPS_POOL_MAX_KERNEL_H

#include "ops/resample/resample_kernel.h"

/* A box of targets from a box of sources that holds all that they read. */
struct stni_max_args {
    struct stni_resample_args at; /* where elements lie, as in resampling; `work` has as many bytes as the kernel asks for */
    int64_t *index; /* NULL: not wanted. Lies as the targets. Of a maximum, its place in the pooled dims of the whole input, row-major; -1: nothing
                       was read */
};

enum { STNI_MAX_DTYPES = STNI_RESAMPLE_DTYPES | 1 << STN_DTYPE_I64 | 1 << STN_DTYPE_I32 | 1 << STN_DTYPE_U8 };

/* The CPU's. */
STNI_ISA_KERNEL(stni_max);
size_t stni_max_workspace(stn_queue *queue, const void *args);

/* Consecutive targets of a line that read equally many elements, at places that go on evenly. */
struct stni_max_run {
    int64_t target, n;    /* the first one, from the box's first on */
    int64_t first, apart; /* column of its first element in the box of sources, and how far the next target's is */
    int64_t taps;
};

/* What kernels look up, made once per launch. */
struct stni_max_tables {
    int64_t n_runs;
    struct stni_max_run *run; /* along the last dim */
    int64_t *row;             /* of each row of the sources, the place of the whole input's first element in it */
    void *memory;             /* what is left: a line of maxima and of their rows */
    int64_t *index;
};

void stni_max_fill_tables(const struct stni_max_args *args, struct stni_max_tables *out);

#endif
