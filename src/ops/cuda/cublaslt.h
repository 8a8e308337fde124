/* cuBLASLt, for products on a CUDA device. cublaslt.c alone knows its API; builds without its header have another
 * file, in which it refuses. */
#ifndef STNI_OPS_CUDA_CUBLASLT_H
#define STNI_OPS_CUDA_CUBLASLT_H

#include <shardtensor/op.h>

STN_BEGIN_DECLS

/* C (m, n) = A (m, k) B (k, n) for each of `batch` products, rows of C dense. A factor lies by rows, `line` elements
 * from one to the next, or by columns, likewise. Sums are those of f32, of f64 for f64. Compared by its
 * bytes: set whole from {0}. */
struct stni_cublaslt_product {
    int32_t dtype; /* f32, f64, bf16, f16 */
    int32_t adds;  /* 1: C += A B */
    int32_t a_by_columns, b_by_columns;
    int64_t batch, m, n, k;
    int64_t a_line, b_line, c_line;    /* elements */
    int64_t a_batch, b_batch, c_batch; /* elements from product to product; of a factor it may be 0 */
    int64_t alignment;                 /* bytes: a power of two that divides all addresses of A, B and C */
    int64_t allow_tf32;                /* 1: factors of f32 may be rounded to TF32 */
};

/* Bytes of scratch, aligned to 256. STN_ERR_UNSUPPORTED where cuBLASLt is not there or refuses, for whatever reason. */
stn_status stni_cublaslt_workspace(stn_queue *queue, const struct stni_cublaslt_product *product, size_t *bytes);

/* Puts the product on the queue's stream. STN_ERR_UNSUPPORTED as above; some of C may be written then. */
stn_status stni_cublaslt_multiply(stn_queue *queue, const struct stni_cublaslt_product *product, const void *a,
                                  const void *b, void *c, void *workspace);

STN_END_DECLS
#endif
