/* Kernels of searches for near points, shared by every device.
 *
 *     search   the points of a block that are nearest to each query join its candidates
 *     finish   the candidates of a query, of several lists where ranks searched apart, become its result
 *
 * Squares of differences are added in the order of the columns, without contraction, so that a pair of points has the
 * same distance on every device, whichever block they meet in. */
#ifndef STNI_OPS_POINTS_NEIGHBOURS_KERNEL_H
#define STNI_OPS_POINTS_NEIGHBOURS_KERNEL_H

#include <shardtensor/op.h>

#include "ops/points/block_kernel.h"
#include "ops/points/candidates.h"

/* `fresh`: the candidates are none yet; those that are farther than `limit` never are. Else they are a heap. */
struct stni_near_search_args {
    struct stni_block_shape shape; /* of the block */
    const void *block;
    struct stni_near_rows queries;
    int64_t k;
    int fresh;
    uint64_t limit;                    /* the key of no candidate: greater than those of distances that count */
    struct stni_candidate *candidates; /* k for each query */
    void *work;                        /* as many bytes as the kernel asks for */
};

/* Lists lie `parts` times one after the other, each with k candidates of `n` queries. Where there are fewer than k
 * points the rest of a row is zeros. Outputs are dense; counts may be NULL. */
struct stni_near_finish_args {
    stn_dtype dtype;
    int64_t n, k;
    int parts;
    struct stni_candidate *candidates;
    int64_t *indices, *counts;
    void *distances;
};

STNI_ISA_KERNEL(stni_near_search);
STNI_ISA_KERNEL(stni_near_finish);
size_t stni_near_search_workspace(stn_queue *queue, const void *args);

#endif
