/* Blocks: what a search reads of a rank's points, or triangles, and what goes to other ranks. Shared by every device.
 *
 * A row has d numbers, the coordinates of one corner or of several. Rows stand leaf by leaf, a leaf column by column,
 * so that what is done to its rows is done in vectors. */
#ifndef STNI_OPS_POINTS_BLOCK_KERNEL_H
#define STNI_OPS_POINTS_BLOCK_KERNEL_H

#include <shardtensor/op.h>

#include "core/base/inline.h"
#include "core/base/isa.h"

/* Rows of a leaf. */
enum { STNI_LEAF = 32 };

enum { STNI_NEAR_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* A matrix of a tensor's chunk; strides in elements. */
struct stni_near_rows {
    const void *data;
    int64_t rows, row, col;
};

/* n rows of d numbers, which are `corners` points, computed in the type of `dtype`. */
struct stni_block_shape {
    stn_dtype dtype;
    int64_t n, d, corners;
};

/* Where the parts of a block begin, in bytes. indices: i64 (n). coordinates: leaf by leaf d columns of STNI_LEAF.
 * boxes: of the tree's nodes, parents before children, lower bounds and upper ones; the CPU alone has them. The end:
 * memory for a leaf. */
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

STNI_INLINE struct stni_block_layout stni_block_layout(const struct stni_block_shape *shape, int has_boxes)
{
    const size_t size = stni_near_size(shape->dtype), leaves = (size_t)stni_leaves(shape->n), d = (size_t)shape->d;
    const size_t leaf = STNI_LEAF * d * size, coordinates = ((size_t)shape->n * sizeof(int64_t) + 63) / 64 * 64;
    const size_t boxes = coordinates + leaves * leaf, box = 2 * d / (size_t)shape->corners * size;
    const size_t end = boxes + (has_boxes && leaves > 0 ? (2 * leaves - 1) * box + leaf : 0);
    const struct stni_block_layout layout = {0, coordinates, boxes, (end + 7) / 8 * 8};
    return layout;
}

/* A rank's rows become its block. */
struct stni_block_pack_args {
    struct stni_block_shape shape;
    struct stni_near_rows rows;
    int64_t first; /* index of the first row among all ranks' */
    void *block;
};

STNI_ISA_KERNEL(stni_block_pack);
size_t stni_block_pack_workspace(stn_queue *queue, const void *args);

#endif
