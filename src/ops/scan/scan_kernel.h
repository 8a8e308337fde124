/* Arguments of the kernels of scans, shared by every device. */
#ifndef STNI_OPS_SCAN_SCAN_KERNEL_H
#define STNI_OPS_SCAN_SCAN_KERNEL_H

#include "core/base/inline.h"
#include "ops/common/lines.h"

#include <shardtensor/op.h>

/* What is joined along a line. The arithmetic stands in scan_state_tmpl.h. */
enum stni_scan_op {
    STNI_SCAN_SUM,
    STNI_SCAN_PROD,
    STNI_SCAN_MAX,
    STNI_SCAN_MIN,
    STNI_SCAN_LOGSUMEXP,
    STNI_SCAN_AFFINE,        /* r = x r' + y, r' that of the element before, at first 0 */
    STNI_SCAN_AFFINE_LAGGED, /* r = x' r' + y, x' of the element before too */
    STNI_SCAN_OP_COUNT
};

/* Which operand of the lines: the input; the second input, or the indices; the result. */
enum { SCAN_X, SCAN_Y, SCAN_OUT, SCAN_TENSORS };

/* A run of elements comes to a state: two numbers of f64, i64 or c128, by the dtype of the elements.
 * scan: out from `states`, one per line, which say what stands before this rank's elements; NULL: nothing does.
 * total: states = what this rank's elements come to. */
struct stni_scan_args {
    enum stni_scan_op op;
    stn_dtype dtype;
    int reverse;   /* from the last element to the first */
    int exclusive; /* an element's result is that of the elements before it */
    struct stni_lines lines;
    int64_t first; /* where this rank's elements begin in the dim */
    const void *x, *y;
    void *out;
    int64_t *indices; /* of max and min */
    void *states;
};

/* prefix: states[i] = the i-th states of the chunks before this rank's, joined in their order. Piece by piece, so
 * that sums have the same bits on all ranks. Rank r of the communicator holds parts[r * count + i]. */
struct stni_scan_prefix_args {
    enum stni_scan_op op;
    stn_dtype dtype;
    int64_t count;
    const void *parts;
    void *states;
    int begin, end, reverse; /* the pieces before this rank's: begin, …, end - 1, or from the last to the first */
    int n_axes;              /* which cut the dim, major to minor: how many ranks, and the step from one to the next in the communicator */
    int sizes[STN_MAX_MESH_NDIM], steps[STN_MAX_MESH_NDIM];
};

/* Rank in the communicator that holds a piece of the dim. */
STNI_INLINE int stni_scan_rank_of(const struct stni_scan_prefix_args *a, int piece)
{
    int rank = 0;
    for (int k = a->n_axes - 1; k >= 0; k--) {
        rank += piece % a->sizes[k] * a->steps[k];
        piece /= a->sizes[k];
    }
    return rank;
}

stn_status stni_scan_cpu(stn_queue *queue, const void *args);
stn_status stni_scan_total_cpu(stn_queue *queue, const void *args);
stn_status stni_scan_prefix_cpu(stn_queue *queue, const void *args);

#endif
