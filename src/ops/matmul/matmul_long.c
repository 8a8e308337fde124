/* Long sums on the CPU: chunks of their terms are products in f32, by oneDNN or by our own kernels, and are added up
 * in f64. */
#include "ops/matmul/matmul_cpu.h"
#include "core/base/clamp.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/widen.h"

#include <string.h>

/* Terms of a chunk. oneDNN adds up in blocks where a product has some rows and columns, else in a few chains. */
static int64_t chunk_terms(const struct stni_matmul_args *p)
{
    enum { SKINNY = 16, CHAINED = 1 << 13, BLOCKED = 1 << 14 };
    return p->m < SKINNY || p->n < SKINNY ? CHAINED : BLOCKED;
}

/* Our own product with a vector errs little as it is. */
int stni_matmul_is_long(const struct stni_matmul_args *p)
{
    const stn_dtype dtype = stni_wide_dtype(p->dtype);
    return (dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_C64) && p->k > chunk_terms(p) &&
           !stni_gemm_is_vector(dtype, p->m, p->n, p->k);
}

/* Real numbers in an element. */
static int64_t parts(const struct stni_matmul_args *p)
{
    return p->dtype == STN_DTYPE_C64 ? 2 : 1;
}

/* Rows of the result that are summed up at once, so that their sums have a bounded size. */
static int64_t rows_at_once(const struct stni_matmul_args *p)
{
    enum { MOST_BYTES = 1 << 26 };
    const int64_t rows = MOST_BYTES / ((int64_t)(sizeof(float) + sizeof(double)) * parts(p) * p->n);
    return stni_clamp(rows, 1, p->m);
}

size_t stni_matmul_long_workspace(const struct stni_matmul_args *p)
{
    if (!stni_matmul_is_long(p))
        return 0;
    const size_t n = (size_t)(rows_at_once(p) * p->n * parts(p));
    return (n * (sizeof(float) + sizeof(double)) + 63) / 64 * 64;
}

static void store(const struct stni_matmul_args *p, int64_t rows, float *c, const double *totals)
{
    const int64_t part = parts(p);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < p->n; j++)
            for (int64_t r = 0; r < part; r++)
                c[part * (i * p->c.row + j * p->c.col) + r] = (float)totals[part * (i * p->n + j) + r];
}

/* The product of `rows` rows, whose operands begin at a, b and c. The workspace has their totals, then a chunk's
 * sums, then what is left. */
static stn_status sum_rows(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p,
                           int64_t rows, char *a, char *b, void *c)
{
    const int64_t size = (int64_t)stn_dtype_size(p->dtype), step = chunk_terms(p), n = rows * p->n * parts(p);
    double *totals = p->workspace;
    float *sums = (float *)(totals + rows_at_once(p) * p->n * parts(p));
    struct stni_matmul_args chunk = *p;
    chunk.n_batch = 0, chunk.m = rows;
    chunk.c = (struct stni_matmul_operand){.data = sums, .row = p->n, .col = 1};
    chunk.workspace = (char *)p->workspace + stni_matmul_long_workspace(p);
    memset(totals, 0, sizeof *totals * (size_t)n);
    for (int64_t at = 0; at < p->k; at += step) {
        chunk.k = p->k - at < step ? p->k - at : step;
        chunk.a.data = a + at * p->a.col * size;
        chunk.b.data = b + at * p->b.row * size;
        STNI_TRY(stni_matmul_each(queue, library, &chunk));
        for (int64_t i = 0; i < n; i++)
            totals[i] += (double)sums[i];
    }
    store(p, rows, c, totals);
    return STN_OK;
}

stn_status stni_matmul_long(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p)
{
    const int64_t size = (int64_t)stn_dtype_size(p->dtype), most = rows_at_once(p);
    int64_t index[STNI_MATMUL_MAX_BATCH] = {0}, count = 1;
    for (int d = 0; d < p->n_batch; d++)
        count *= p->batch[d];
    for (int64_t i = 0; i < count; i++) {
        stni_matmul_index(p, p->n_batch, i, index);
        char *a = stni_matmul_at(p, &p->a, index), *b = stni_matmul_at(p, &p->b, index),
             *c = stni_matmul_at(p, &p->c, index);
        for (int64_t at = 0; at < p->m; at += most)
            STNI_TRY(sum_rows(queue, library, p, p->m - at < most ? p->m - at : most, a + at * p->a.row * size, b,
                              c + at * p->c.row * size));
    }
    return STN_OK;
}
