/* Attention on a CUDA device by cuDNN (ops/cuda/cudnn.h), where that serves: 16-bit floats without a mask or dropout,
 * whose rows are packs of 16 bytes, where there are scores enough. Everything else is our own kernels'. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_LIBRARY_H
#define STNI_OPS_ATTENTION_ATTENTION_LIBRARY_H

#include "ops/attention/attention_kernel.h"
#include "ops/cuda/cudnn.h"

STN_BEGIN_DECLS

/* Bytes of workspace, at any address; 0 where it is refused. Of gradients where `is_gradient`, else of the result. */
size_t stni_attention_library_workspace(stn_queue *queue, const struct stni_attention_args *args, int is_gradient);

/* Puts it on the queue's stream. STN_ERR_UNSUPPORTED: not all of it, and another kernel has to. Gradients of keys that
 * no row attends to are left as they are. */
stn_status stni_attention_library_run(stn_queue *queue, const struct stni_attention_args *args, int is_gradient);

/* As many heads and elements of the batch as may be solved at once: all of them, or a divisor of their number. 0: a
 * head is too much, or parts would not be aligned. */
int stni_attention_library_part(const struct stni_cudnn_attention *whole, struct stni_cudnn_attention *part);

STN_END_DECLS
#endif
