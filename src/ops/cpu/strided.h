/* Iteration spaces of kernels over strided operands. */
#ifndef STNI_OPS_CPU_STRIDED_H
#define STNI_OPS_CPU_STRIDED_H

#include <shardtensor/mesh.h>

/* Simplifies a space that `n` operands share, given by its shape and each operand's strides (any unit): drops dims
 * of size 1, sorts the others by the strides of operand 0, largest first, and merges neighbours that are one dim to
 * every operand. Returns how many dims are left. */
int stni_merge_dims(int ndim, int64_t shape[STN_MAX_NDIM], int n, int64_t *const strides[]);

/* The same where the order of dims has to stay: drops and merges, but does not sort. */
int stni_join_dims(int ndim, int64_t shape[STN_MAX_NDIM], int n, int64_t *const strides[]);

#endif
