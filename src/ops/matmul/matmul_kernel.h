/* Kernels of matrix products. */
#ifndef STNI_OPS_MATMUL_MATMUL_KERNEL_H
#define STNI_OPS_MATMUL_MATMUL_KERNEL_H

#include <shardtensor/op.h>

enum { STNI_MATMUL_MAX_BATCH = STN_MAX_NDIM };

/* One operand of a batch of products; strides in elements, 0 along a batch dim that it is broadcast along. */
struct stni_matmul_operand {
    void *data;
    int64_t batch[STNI_MATMUL_MAX_BATCH], row, col;
};

/* C (batch…, m, n) = A (batch…, m, k) B (batch…, k, n). */
struct stni_matmul_args {
    stn_dtype dtype;
    int n_batch;
    int64_t batch[STNI_MATMUL_MAX_BATCH], m, n, k;
    struct stni_matmul_operand a, b, c;
    void *workspace; /* as many bytes as the kernel asks for; NULL where that is 0 */
};

size_t stni_matmul_cpu_workspace(stn_queue *queue, const void *args);

stn_status stni_matmul_cpu(stn_queue *queue, const void *args);

#endif
