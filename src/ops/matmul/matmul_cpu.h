/* What the CPU's files of products share: how batches are multiplied once it is decided by whom. */
#ifndef STNI_OPS_MATMUL_MATMUL_CPU_H
#define STNI_OPS_MATMUL_MATMUL_CPU_H

#include "ops/matmul/matmul_kernel.h"
#include "ops/onednn/onednn.h"

/* Bytes of workspace of our own kernels that are on the stack, which small products do with. */
enum { STNI_MATMUL_STACK = 8192 };

/* Address of an operand's element at an index of the batch. */
void *stni_matmul_at(const struct stni_matmul_args *p, const struct stni_matmul_operand *operand, const int64_t *index);

/* Sets index to batch entry number `at` of the first `n` dims of the batch. */
void stni_matmul_index(const struct stni_matmul_args *p, int n, int64_t at, int64_t *index);

/* The products as they are, by oneDNN (NULL: by our own kernels), several at a time where it supports that.
 * p->workspace has the bytes that stni_gemm_workspace says where oneDNN is not to serve, NULL where the stack is
 * enough. What oneDNN refuses after all our own kernels compute, but for 16-bit floats: STN_ERR_UNSUPPORTED. */
stn_status stni_matmul_each(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p);

/* Whether sums are so long that a chain of them in f32, wherever that is computed, would err much more than a sum
 * does. */
int stni_matmul_is_long(const struct stni_matmul_args *p);

/* Bytes that such products need at the beginning of the workspace, before stni_matmul_each's; 0 where they are not
 * long. */
size_t stni_matmul_long_workspace(const struct stni_matmul_args *p);

/* Products in f32 or c64 with long sums. */
stn_status stni_matmul_long(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p);

#endif
