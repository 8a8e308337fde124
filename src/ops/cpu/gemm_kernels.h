/* What the matrix products of all instruction sets share: sizes of blocks, and the kernel tables. */
#ifndef STNI_OPS_CPU_GEMM_KERNELS_H
#define STNI_OPS_CPU_GEMM_KERNELS_H

#include "ops/cpu/gemm.h"

/* Rows of A, terms of the sum and columns of B in a block. A packed panel has a number of rows (columns) that
 * divides ROWS (COLUMNS) on every instruction set. */
enum { MC = 96, KC = 256, NC = 512, ROWS = 12, COLUMNS = 32 };

/* Bytes of a packed block of at most `block` rows, filled up to a multiple of `unit`, by KC. A multiple of 64. */
static inline size_t packed_bytes(int64_t rows, int64_t block, int64_t unit, int64_t k, size_t element)
{
    int64_t r = rows < block ? (rows + unit - 1) / unit * unit : block;
    return ((size_t)(r * (k < KC ? k : KC)) * element + 63) / 64 * 64;
}

/* By dtype; NULL where it is not served. */
struct stni_gemm_kernels {
    void (*run[STN_DTYPE_COUNT])(const struct stni_gemm *g, void *workspace);
};

extern const struct stni_gemm_kernels stni_gemm_kernels_base, stni_gemm_kernels_avx2, stni_gemm_kernels_avx512;

#endif
