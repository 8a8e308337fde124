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

/* Lines of maxima at a time: what is stored of one has reached the cache when its columns are compared, and a load
 * that begins between two stores waits for that. */
enum { STNI_MAX_LINES = 8, STNI_MAX_LANES = 16 };

/* What kernels look up, made once per launch. */
struct stni_max_tables {
    int64_t n_runs;
    struct stni_max_run *run; /* along the last dim */
    int64_t *row;             /* of each row of the sources, the place of the whole input's first element in it */
    int64_t lines, length;    /* how many lines are worked on at a time; elements of one, with what loops may move beyond its end */
    int apart_by_two;         /* targets of all runs are two columns apart, and places are not wanted: lines are parted into even and odd columns */
    void *maxima, *parted;    /* memory for lines of maxima; parted: as much, where they are */
    int32_t *rows;            /* in which row each maximum was met, where places are wanted */
    int64_t *index;
    size_t ahead; /* how far ahead rows are prefetched, bytes; 0: not at all */
};

void stni_max_fill_tables(const struct stni_max_args *args, struct stni_max_tables *out);

#endif
