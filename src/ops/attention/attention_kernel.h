/* Kernels of attention, shared by every device. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_KERNEL_H
#define STNI_OPS_ATTENTION_ATTENTION_KERNEL_H

#include <shardtensor/op.h>

#include "core/base/isa.h"

/* A batch of matrices, of rows of the first kind (query) or the second (key); strides in elements, 0 along what it is
 * broadcast along. */
struct stni_attention_operand {
    void *data;
    int64_t batch[STN_MAX_NDIM], row, col;
};

/* A gradient that is summed up: a dense chunk of n elements. 16-bit floats are summed in `wide`, which lies as the
 * chunk does. n 0: it is a part of something that holds zeros already. */
struct stni_attention_sum {
    struct stni_attention_operand at;
    int64_t n;
    void *wide;
};

enum stni_attention_mask { STNI_ATTENTION_NO_MASK, STNI_ATTENTION_ALLOWS, STNI_ATTENTION_ADDS };

/* Sizes: l query rows, s key rows, e and v elements of their rows. forward: out (l, v) and lse (l), the logarithm of
 * the sum of exponentials; infinity where a row attends to nothing. backward: from grad, out and lse the gradients. */
struct stni_attention_args {
    stn_dtype dtype;
    int n_batch;
    int64_t batch[STN_MAX_NDIM], l, s, e, v;
    int64_t row_offset;                /* of the first query row behind the first key */
    int is_wide;                       /* out and gradients have the dtype of sums, and no `wide` */
    int64_t group, head, key_head;     /* query heads to a key head; where more than one: of the last batch dim, the first of query and key in the
                                          whole. Elsewhere each operand is sharded as the result is, or broadcast */
    int is_causal;
    enum stni_attention_mask mask_kind;
    double scale;
    uint64_t threshold;                /* dropout as in dropout_kernel.h; 0: none */
    double kept_scale;
    const int64_t *stream;
    uint64_t base, count[STN_MAX_NDIM]; /* numbers of elements of (batch…, l, s) */
    uint64_t row_count;                 /* the same of a row: all keys that there are, though s may be a part of them */
    struct stni_attention_operand query, key, value, mask, out, lse, grad;
    struct stni_attention_sum grad_query, grad_key, grad_value, grad_mask; /* the last one's data NULL: not wanted */
    void *workspace; /* as many bytes as the kernel asks for */
};

enum { STNI_ATTENTION_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* Bytes that the CPU's kernels want: blocks of rows, whatever l and s. */
size_t stni_attention_workspace(stn_queue *queue, const void *args);

/* The CPU's. */
STNI_ISA_KERNEL(stni_attention);
STNI_ISA_KERNEL(stni_attention_backward);

/* Of a block; numbers of each row. Keys are packed anew for each block of rows, which are whole tiles of all
 * instruction sets. */
enum { STNI_ATTENTION_ROWS = 192, STNI_ATTENTION_KEYS = 128, STNI_ATTENTION_STATISTICS = 3 };

/* Bytes of so many elements in the workspace. */
static inline size_t stni_attention_space(int64_t elements, size_t size)
{
    return ((size_t)elements * size + 63) / 64 * 64;
}

#endif
