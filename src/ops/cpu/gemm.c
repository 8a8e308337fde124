/* Chooses the kernel of a matrix product. */
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/gemv_kernels.h"

#include "core/base/isa.h"

#include <string.h>

int stni_gemm_serves(stn_dtype dtype)
{
    return STNI_ISA_BASE_OF(stni_gemm_kernels).run[dtype] != NULL;
}

/* Whether the product is computed as its transpose. */
static int is_transposed(int64_t m, int64_t n)
{
    return n < m && n <= ROWS;
}

/* Shorter sums err little, and would not fill the vectors of a row. */
enum { VECTOR_TERMS = 128 };

int stni_gemm_is_vector(stn_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    return STNI_ISA_BASE_OF(stni_gemv_kernels).run[dtype] != NULL && (m == 1 || n == 1) && k >= VECTOR_TERMS;
}

/* Of packed blocks of both factors. */
static size_t packed_both(int64_t rows, int64_t cols, int64_t k, size_t element)
{
    return packed_bytes(rows, MC, ROWS, k, element) + packed_bytes(cols, NC, COLUMNS, k, element);
}

/* A product with fewer columns may be transposed where this one is not. One with a vector needs none itself, but one
 * with shorter sums does. */
size_t stni_gemm_workspace(stn_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    const size_t element = stn_dtype_size(dtype);
    if (!stni_gemm_serves(dtype) || m <= 0 || n <= 0 || k <= 0)
        return 0;
    if (stni_gemm_is_vector(dtype, m, n, k))
        k = VECTOR_TERMS - 1;
    const size_t plain = is_transposed(m, n) ? 0 : packed_both(m, n, k, element);
    const size_t transposed = packed_both(n < ROWS ? n : ROWS, m, k, element);
    return plain > transposed ? plain : transposed;
}

/* The sum of no terms. */
static void clear(const struct stni_gemm *g)
{
    size_t element = stn_dtype_size(g->dtype);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++)
            memset((char *)g->c + (i * g->c_row + j * g->c_col) * (int64_t)element, 0, element);
}

/* C' = B' A': a product with few columns fills the rows of a tile better than its columns, of which there are more. */
static struct stni_gemm transposed(const struct stni_gemm *g)
{
    return (struct stni_gemm){.dtype = g->dtype, .accumulate = g->accumulate, .m = g->n, .n = g->m, .k = g->k,
                              .a = g->b, .a_row = g->b_col, .a_col = g->b_row,
                              .b = g->a, .b_row = g->a_col, .b_col = g->a_row,
                              .c = g->c, .c_row = g->c_col, .c_col = g->c_row};
}

/* B is a column. */
static void multiply_vector(enum stni_isa isa, const struct stni_gemm *g)
{
    const struct stni_gemv v = {.rows = g->m, .k = g->k,
                                .a = g->a, .a_row = g->a_row, .a_col = g->a_col,
                                .x = g->b, .x_step = g->b_row, .y = g->c, .y_step = g->c_row,
                                .accumulate = g->accumulate};
    STNI_ISA_PICK(stni_gemv_kernels, isa)->run[g->dtype](&v);
}

void stni_gemm_now(enum stni_isa isa, const struct stni_gemm *g, void *workspace)
{
    if (g->m <= 0 || g->n <= 0)
        return;
    struct stni_gemm t = transposed(g);
    if (stni_gemm_is_vector(g->dtype, g->m, g->n, g->k))
        multiply_vector(isa, g->n == 1 ? g : &t);
    else if (g->k > 0)
        STNI_ISA_PICK(stni_gemm_kernels, isa)->run[g->dtype](is_transposed(g->m, g->n) ? &t : g, workspace);
    else if (!g->accumulate)
        clear(g);
}
