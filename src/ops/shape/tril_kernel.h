/* The kernel of tril and triu. */
#ifndef STNI_OPS_SHAPE_TRIL_KERNEL_H
#define STNI_OPS_SHAPE_TRIL_KERNEL_H

#include <shardtensor/op.h>

/* dst = src where column - row <= diagonal (upper: >=), else 0. Rows and columns are the last two dims, and begin at
 * `row` and `column`. */
struct stni_triangle_args {
    stn_box dst, src;
    size_t element_size;
    int upper;
    int64_t diagonal, row, column;
};

stn_status stni_triangle_cpu(stn_queue *queue, const void *args);

#endif
