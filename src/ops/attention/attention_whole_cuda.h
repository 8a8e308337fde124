/* Attention of f32 and f64 on a CUDA device by products of whole matrices: the scores of some heads lie in the
 * workspace, at most 512 MiB at a time. It is for rows that no tiles serve, and for gradients, for which tiles compute
 * scores more than once. Heads do not share keys, and gradients are not summed over the batch. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_WHOLE_CUDA_H
#define STNI_OPS_ATTENTION_ATTENTION_WHOLE_CUDA_H

#include "ops/attention/attention_kernel.h"

STN_BEGIN_DECLS

/* Whether it serves, by sizes and strides alone. `is_gradient`: for gradients of queries, keys and values. */
int stni_attention_whole_serves(const struct stni_attention_args *args, int is_gradient);

/* Bytes that it wants then. */
size_t stni_attention_whole_workspace(stn_queue *queue, const struct stni_attention_args *args, int is_gradient);

/* On the queue's stream; gradients are written, and not added to. */
stn_status stni_attention_whole(stn_queue *queue, const struct stni_attention_args *args, int is_gradient);

STN_END_DECLS
#endif
