/* Matrix products of our own: for the dtypes that oneDNN has none for, for builds without it, and for products too
 * small for it. */
#ifndef STNI_OPS_CPU_GEMM_H
#define STNI_OPS_CPU_GEMM_H

#include "core/base/isa.h"

#include <shardtensor/dtype.h>

/* C (m, n) = A (m, k) B (k, n), or C += A B. Each matrix has a stride (elements, any sign) per row and per column; C
 * overlaps neither A nor B. A sum of k terms is taken in blocks of up to 256 consecutive ones, in order. */
struct stni_gemm {
    stn_dtype dtype; /* f32 f64 c64 c128 i64 i32; integers wrap */
    int accumulate;
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t a_row, a_col, b_row, b_col, c_row, c_col;
};

/* 1 for the dtypes above. */
int stni_gemm_serves(stn_dtype dtype);

/* 1 where one of the factors is a vector, f32 or f64, and sums are so long that they are taken as exactly as a sum's:
 * in chains of 32, these in f64. */
int stni_gemm_is_vector(stn_dtype dtype, int64_t m, int64_t n, int64_t k);

/* Bytes of workspace that a product needs, and each that is no larger in any of its sizes; 0 where the dtype is not
 * served. It does not grow with the problem beyond a few MiB. */
size_t stni_gemm_workspace(stn_dtype dtype, int64_t m, int64_t n, int64_t k);

/* Computes at once, on the calling thread: for kernels. `workspace` is 64-byte aligned. */
void stni_gemm_now(enum stni_isa isa, const struct stni_gemm *g, void *workspace);

#endif
