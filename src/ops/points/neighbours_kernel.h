/* Kernels of searches for near points, shared by every device.
 *
 *     pack     a rank's points become a block: what the search reads, and what goes to other ranks
 *     search   the points of a block that are nearest to each query join its candidates
 *     finish   the candidates of a query, of several lists where ranks searched apart, become its result
 *
 * Squares of differences are added in the order of the columns, without contraction, so that a pair of points has the
 * same distance on every device, whichever block they meet in. */
#ifndef STNI_OPS_POINTS_NEIGHBOURS_KERNEL_H
#define STNI_OPS_POINTS_NEIGHBOURS_KERNEL_H

#include <shardtensor/op.h>

#include "core/base/isa.h"
#include "ops/points/candidates.h"

/* Points of a leaf: its coordinates lie column by column, so that distances are vectors. */
enum { STNI_LEAF = 32 };

enum { STNI_NEAR_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* A block of n points of d columns, computed in numbers of `size` bytes: where its parts begin, in bytes. */
struct stni_block_layout {
    size_t indices, coordinates, boxes, end;
};

STNI_INLINE int64_t stni_leaves(int64_t n)
{
    return (n + STNI_LEAF - 1) / STNI_LEAF;
}

STNI_INLINE size_t stni_near_size(stn_dtype dtype)
{
    return dtype == STN_DTYPE_F64 ? sizeof(double) : sizeof(float);
}

/* indices: i64 (n). coordinates: leaf by leaf d rows of STNI_LEAF. boxes: of the tree's nodes, parents before
 * children, d lower bounds and d upper ones; the CPU alone has them. The end: memory for a leaf. */
STNI_INLINE struct stni_block_layout stni_block_layout(stn_dtype dtype, int64_t n, int64_t d, int has_boxes)
{
    const size_t size = stni_near_size(dtype), leaves = (size_t)stni_leaves(n), leaf = STNI_LEAF * (size_t)d * size;
    const size_t coordinates = ((size_t)n * sizeof(int64_t) + 63) / 64 * 64, boxes = coordinates + leaves * leaf;
    const size_t end = boxes + (has_boxes && leaves > 0 ? (2 * leaves - 1) * 2 * (size_t)d * size + leaf : 0);
    const struct stni_block_layout layout = {0, coordinates, boxes, (end + 7) / 8 * 8};
    return layout;
}

/* A matrix of a tensor's chunk; strides in elements. */
struct stni_near_rows {
    const void *data;
    int64_t rows, row, col;
};

struct stni_near_pack_args {
    stn_dtype dtype;
    struct stni_near_rows points;
    int64_t d, first; /* index of the first row among all ranks' */
    void *block;
};

/* `fresh`: the candidates are none yet; those that are farther than `limit` never are. Else they are a heap. */
struct stni_near_search_args {
    stn_dtype dtype;
    struct stni_near_rows queries;
    int64_t d, n, k; /* n: points of the block */
    int fresh;
    uint64_t limit; /* the key of no candidate: greater than those of distances that count */
    const void *block;
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

STNI_ISA_KERNEL(stni_near_pack);
STNI_ISA_KERNEL(stni_near_search);
STNI_ISA_KERNEL(stni_near_finish);
size_t stni_near_pack_workspace(stn_queue *queue, const void *args);
size_t stni_near_search_workspace(stn_queue *queue, const void *args);

#endif
