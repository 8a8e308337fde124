/* Batches of products on the CPU as they are. */
#include "core/device/device.h"
#include "ops/matmul/matmul_cpu.h"
#include "ops/cpu/gemm.h"

#include <string.h>

/* Of our own kernels: on the stack, the caller's, or where oneDNN refused what the caller had left to it, one made
 * on the way. */
struct workspace {
    void *data, *made;
    size_t made_bytes;
    _Alignas(64) char stack[STNI_MATMUL_STACK];
};

void *stni_matmul_at(const struct stni_matmul_args *p, const struct stni_matmul_operand *operand, const int64_t *index)
{
    int64_t offset = 0;
    for (int d = 0; d < p->n_batch; d++)
        offset += index[d] * operand->batch[d];
    return (char *)operand->data + offset * (int64_t)stn_dtype_size(p->dtype);
}

void stni_matmul_index(const struct stni_matmul_args *p, int n, int64_t at, int64_t *index)
{
    for (int d = n - 1; d >= 0; at /= p->batch[d], d--)
        index[d] = at % p->batch[d];
}

/* One product by our own kernels. */
static void solve_own(enum stni_isa isa, const struct stni_matmul_args *p, const void *a, const void *b, void *c,
                      void *workspace)
{
    const struct stni_gemm g = {.dtype = p->dtype, .m = p->m, .n = p->n, .k = p->k,
                                .a = a,
                                .b = b,
                                .c = c,
                                .a_row = p->a.row, .a_col = p->a.col,
                                .b_row = p->b.row, .b_col = p->b.col,
                                .c_row = p->c.row, .c_col = p->c.col};
    stni_gemm_now(isa, &g, workspace);
}

/* What oneDNN refused after all: its products along the last dim of the batch, or the one. */
static stn_status solve_refused(stn_queue *queue, const struct stni_matmul_args *p, int inner, char *a, char *b,
                                char *c, struct workspace *w)
{
    const int64_t size = (int64_t)stn_dtype_size(p->dtype), last = p->n_batch - 1, n = inner ? p->batch[last] : 1;
    const size_t bytes = stni_gemm_workspace(p->dtype, p->m, p->n, p->k);
    if (bytes > STNI_MATMUL_STACK && w->made == NULL) {
        if (stni_device_allocate(queue->device, bytes, &w->made) != STN_OK)
            return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: workspace of a product (%zu bytes)", bytes);
        w->made_bytes = bytes;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t steps = inner ? i * size : 0;
        solve_own(queue->isa, p, a + steps * (inner ? p->a.batch[last] : 0), b + steps * (inner ? p->b.batch[last] : 0),
                  c + steps * (inner ? p->c.batch[last] : 0), w->made != NULL ? w->made : w->stack);
    }
    return STN_OK;
}

static stn_status ask_library(struct stni_onednn *library, const struct stni_matmul_args *p, int inner, const void *a,
                              const void *b, void *c)
{
    const int last = p->n_batch - 1;
    struct stni_onednn_product q;
    memset(&q, 0, sizeof q);
    q.dtype = (int32_t)p->dtype, q.batch = inner ? p->batch[last] : 1, q.m = p->m, q.n = p->n, q.k = p->k;
    q.a_batch = inner ? p->a.batch[last] : 0, q.a_row = p->a.row, q.a_col = p->a.col;
    q.b_batch = inner ? p->b.batch[last] : 0, q.b_row = p->b.row, q.b_col = p->b.col;
    q.c_batch = inner ? p->c.batch[last] : 0, q.c_row = p->c.row;
    return stni_onednn_product(library, &q, a, b, c);
}

/* The products along the last `inner` dims of the batch (0 or 1) from `index` on. */
static stn_status solve(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p,
                        const int64_t *index, int inner, struct workspace *w)
{
    void *a = stni_matmul_at(p, &p->a, index), *b = stni_matmul_at(p, &p->b, index),
         *c = stni_matmul_at(p, &p->c, index);
    if (library == NULL) {
        solve_own(queue->isa, p, a, b, c, w->data != NULL ? w->data : w->stack);
        return STN_OK;
    }
    stn_status status = ask_library(library, p, inner, a, b, c);
    return status == STN_ERR_UNSUPPORTED && stni_gemm_serves(p->dtype) ? solve_refused(queue, p, inner, a, b, c, w)
                                                                       : status;
}

stn_status stni_matmul_each(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p)
{
    int inner = library != NULL && p->n_batch > 0, outer = p->n_batch - inner;
    int64_t index[STNI_MATMUL_MAX_BATCH] = {0}, count = 1;
    struct workspace w;
    stn_status status = STN_OK;
    w.data = p->workspace, w.made = NULL;
    for (int d = 0; d < outer; d++)
        count *= p->batch[d];
    for (int64_t i = 0; i < count && status == STN_OK; i++) {
        stni_matmul_index(p, outer, i, index);
        status = solve(queue, library, p, index, inner, &w);
    }
    if (w.made != NULL)
        stni_device_deallocate(queue->device, w.made, w.made_bytes);
    return status;
}
