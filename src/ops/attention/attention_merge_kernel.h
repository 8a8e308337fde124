/* Kernels that join what attention gives for parts of the keys, shared by every device. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_MERGE_KERNEL_H
#define STNI_OPS_ATTENTION_ATTENTION_MERGE_KERNEL_H

#include "ops/attention/attention_kernel.h"

/* out and lse, over some keys, become those over these and others, of which more and more_lse are. Both have the places
 * of (batch…, l, v), and all have the dtype of sums. */
struct stni_attention_merge_args {
    stn_dtype dtype;
    int n_batch;
    int64_t batch[STN_MAX_NDIM], l, v;
    struct stni_attention_operand out, lse, more, more_lse;
};

/* n elements of f32, side by side, become 16-bit floats. */
struct stni_attention_round_args {
    stn_dtype dtype;
    int64_t n;
    const void *from;
    void *to;
};

enum {
    STNI_ATTENTION_WIDE = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64,
    STNI_ATTENTION_NARROW = 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16
};

STNI_ISA_KERNEL(stni_attention_merge);
stn_status stni_attention_round(stn_queue *queue, const void *args);

#endif
