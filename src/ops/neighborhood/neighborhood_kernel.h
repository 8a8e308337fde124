/* Kernels of neighborhood attention, shared by every device. */
#ifndef STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_KERNEL_H
#define STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_KERNEL_H

#include <shardtensor/op.h>

#include "core/base/isa.h"
#include "ops/neighborhood/neighborhood_window.h"

enum { STNI_NEIGHBORHOOD_DIMS = 3 };

/* (batch, space…, heads, elements); strides in elements. `data` is where the kernel's box of positions begins. */
struct stni_neighborhood_operand {
    void *data;
    int64_t batch, space[STNI_NEIGHBORHOOD_DIMS], head, col;
};

/* One box of targets, and the box of positions over all that they need. Of fewer dims than three the first ones have
 * one position.
 *
 *     forward  targets are queries: out and lse, the logarithm of the sum of exponentials, from query, key and value
 *     queries  targets are queries: grad_query and mean, the product of each row of the result with its cotangent
 *     keys     targets are keys: grad_key and grad_value, from query, grad, lse and mean in the other box
 *
 * lse and mean are f32 for the 16-bit floats. */
struct stni_neighborhood_args {
    stn_dtype dtype;
    int of_keys; /* targets are keys */
    struct stni_neighborhood_dim dim[STNI_NEIGHBORHOOD_DIMS];
    struct stni_range target[STNI_NEIGHBORHOOD_DIMS], source[STNI_NEIGHBORHOOD_DIMS];
    int64_t batch, heads, key_heads;
    int64_t group, head, key_head; /* query heads to a head of keys; the first of both in the whole */
    int64_t e, v;                  /* elements of keys and of values */
    double scale;
    struct stni_neighborhood_operand query, key, value, out, lse, grad, mean, grad_query, grad_key, grad_value;
    void *workspace; /* as many bytes as the kernel asks for */
};

enum {
    STNI_NEIGHBORHOOD_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16
};

/* Query heads, of those that the rank has, which share head `key_head` of the keys that it has; empty where none. */
STNI_INLINE struct stni_range stni_neighborhood_group(const struct stni_neighborhood_args *p, int64_t key_head)
{
    const int64_t first = (p->key_head + key_head) * p->group - p->head;
    return stni_range_intersect(stni_range_of(first, first + p->group), stni_range_of(0, p->heads));
}

/* Bytes that the CPU's kernels want. */
size_t stni_neighborhood_workspace(stn_queue *queue, const void *args);

/* The CPU's. */
STNI_ISA_KERNEL(stni_neighborhood_forward);
STNI_ISA_KERNEL(stni_neighborhood_queries);
STNI_ISA_KERNEL(stni_neighborhood_keys);

#endif
