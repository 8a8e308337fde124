/* Lines along one dim of a few tensors of one shape, for kernels that work on each line as a whole. */
#ifndef STNI_OPS_COMMON_LINES_H
#define STNI_OPS_COMMON_LINES_H

#include <shardtensor/mesh.h>

enum { STNI_LINES_TENSORS = 3 }; /* at most */

/* Line l is the l-th of the dims beside the line in the order given here, which is the same on all ranks that share
 * lines. Strides in elements. */
struct stni_lines {
    int64_t n;                        /* elements of this rank along the dim */
    int64_t step[STNI_LINES_TENSORS]; /* from one to the next */
    int ndim;                         /* the other dims, slowest first; at least one */
    int64_t shape[STN_MAX_NDIM];
    int64_t strides[STNI_LINES_TENSORS][STN_MAX_NDIM];
};

/* The lines of tensors of local shape `shape`; entries of `strides` may be NULL. `order`: dims from the slowest in
 * memory. */
void stni_lines_make(struct stni_lines *lines, int dim, int ndim, const int64_t *shape, const uint8_t *order,
                     const int64_t *const strides[STNI_LINES_TENSORS]);

/* How many lines there are. */
int64_t stni_lines_count(const struct stni_lines *lines);

#endif
