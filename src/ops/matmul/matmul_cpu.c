/* Products on the CPU: by oneDNN, several at a time where the batch is one dim, or by our own kernels, one after the other. 16-bit floats
 * become f32 in the workspace first, unless oneDNN takes them. */
#include "ops/matmul/matmul_kernel.h"

#include "core/device/device.h"
#include "ops/util/gemm.h"
#include "ops/util/onednn.h"
#include "ops/util/widen.h"

#include <string.h>

enum { OWN_BYTES = 8192 };

static void *at(const struct stni_matmul_args *p, const struct stni_matmul_operand *operand, const int64_t *index)
{
    int64_t offset = 0;
    for (int d = 0; d < p->n_batch; d++)
        offset += index[d] * operand->batch[d];
    return (char *)operand->data + offset * (int64_t)stn_dtype_size(p->dtype);
}

/* Of our own kernels: its own for small products, the caller's, or where oneDNN refused what the caller had left to it, one made on the way. */
struct workspace {
    void *data, *made;
    size_t made_bytes;
    _Alignas(64) char own[OWN_BYTES];
};

static stn_status make_workspace(stn_queue *queue, size_t bytes, void **out)
{
    if (stni_device_allocate(queue->device, bytes, out) == STN_OK)
        return STN_OK;
    return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: workspace of a product (%zu bytes)", bytes);
}

/* One product by our own kernels. */
static void solve_own(const struct stni_matmul_args *p, const void *a, const void *b, void *c, void *workspace)
{
    const struct stni_gemm g = {.dtype = p->dtype, .m = p->m, .n = p->n, .k = p->k, .a = a, .b = b, .c = c, .a_row = p->a.row, .a_col = p->a.col,
                                .b_row = p->b.row, .b_col = p->b.col, .c_row = p->c.row, .c_col = p->c.col};
    stni_gemm_now(&g, workspace);
}

/* What oneDNN refused after all: its products along the last dim of the batch, or the one, by our own kernels, which know f32. */
static stn_status solve_refused(stn_queue *queue, const struct stni_matmul_args *p, int inner, char *a, char *b, char *c, struct workspace *w)
{
    const int64_t size = (int64_t)stn_dtype_size(p->dtype), last = p->n_batch - 1, n = inner ? p->batch[last] : 1;
    const size_t bytes = stni_gemm_workspace(p->dtype, p->m, p->n, p->k);
    if (bytes > OWN_BYTES && w->made == NULL) {
        STNI_TRY(make_workspace(queue, bytes, &w->made));
        w->made_bytes = bytes;
    }
    for (int64_t i = 0; i < n; i++) {
        solve_own(p, a, b, c, w->made != NULL ? w->made : w->own);
        if (inner)
            a += p->a.batch[last] * size, b += p->b.batch[last] * size, c += p->c.batch[last] * size;
    }
    return STN_OK;
}

static stn_status ask_library(const struct stni_matmul_args *p, int inner, const void *a, const void *b, void *c)
{
    const int last = p->n_batch - 1;
    struct stni_onednn_product q;
    memset(&q, 0, sizeof q);
    q.dtype = (int32_t)p->dtype, q.batch = inner ? p->batch[last] : 1, q.m = p->m, q.n = p->n, q.k = p->k;
    q.a_batch = inner ? p->a.batch[last] : 0, q.a_row = p->a.row, q.a_col = p->a.col;
    q.b_batch = inner ? p->b.batch[last] : 0, q.b_row = p->b.row, q.b_col = p->b.col;
    q.c_batch = inner ? p->c.batch[last] : 0, q.c_row = p->c.row;
    return stni_onednn_product(p->library, &q, a, b, c);
}

/* The products along the last `inner` dims of the batch (0 or 1) from `index` on. STN_ERR_UNSUPPORTED where oneDNN refuses 16-bit floats. */
static stn_status solve(stn_queue *queue, const struct stni_matmul_args *p, const int64_t *index, int inner, struct workspace *w)
{
    void *a = at(p, &p->a, index), *b = at(p, &p->b, index), *c = at(p, &p->c, index);
    if (p->library == NULL) {
        solve_own(p, a, b, c, w->data != NULL ? w->data : w->own);
        return STN_OK;
    }
    stn_status status = ask_library(p, inner, a, b, c);
    return status == STN_ERR_UNSUPPORTED && stni_gemm_serves(p->dtype) ? solve_refused(queue, p, inner, a, b, c, w) : status;
}

static stn_status solve_all(stn_queue *queue, const struct stni_matmul_args *p)
{
    int inner = p->library != NULL && p->n_batch > 0, outer = p->n_batch - inner;
    int64_t index[STNI_MATMUL_MAX_BATCH] = {0}, count = 1;
    struct workspace w;
    stn_status status = STN_OK;
    w.data = p->workspace, w.made = NULL;
    for (int d = 0; d < outer; d++)
        count *= p->batch[d];
    for (int64_t i = 0; i < count && status == STN_OK; i++) {
        for (int64_t d = outer - 1, rest = i; d >= 0; rest /= p->batch[d], d--)
            index[d] = rest % p->batch[d];
        status = solve(queue, p, index, inner, &w);
    }
    if (w.made != NULL)
        stni_device_deallocate(queue->device, w.made, w.made_bytes);
    return status;
}

/* An operand as a box, without the dims that it is broadcast along. */
static stn_box box_of(const struct stni_matmul_args *p, const struct stni_matmul_operand *o, int64_t rows, int64_t cols)
{
    stn_box box = {.data = o->data};
    for (int d = 0; d < p->n_batch; d++)
        if (o->batch[d] != 0) {
            box.shape[box.ndim] = p->batch[d];
            box.strides[box.ndim++] = o->batch[d];
        }
    box.shape[box.ndim] = rows, box.strides[box.ndim++] = o->row;
    box.shape[box.ndim] = cols, box.strides[box.ndim++] = o->col;
    return box;
}

/* Bytes of a box as dense f32. */
static size_t wide_bytes(const stn_box *box)
{
    int64_t n = sizeof(float);
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d];
    return ((size_t)n + 63) / 64 * 64;
}

/* Puts an operand's dense f32 form at *workspace, moves that on, and gives the boxes of both. */
static struct stni_matmul_operand widen(const struct stni_matmul_args *p, const struct stni_matmul_operand *o, int64_t rows, int64_t cols,
                                        char **workspace, stn_box *narrow, stn_box *wide)
{
    struct stni_matmul_operand w = {.data = *workspace, .row = cols, .col = 1};
    int64_t step = rows * cols;
    for (int d = p->n_batch - 1; d >= 0; d--)
        if (o->batch[d] != 0) {
            w.batch[d] = step;
            step *= p->batch[d];
        }
    *narrow = box_of(p, o, rows, cols);
    *wide = box_of(p, &w, rows, cols);
    *workspace += wide_bytes(wide);
    return w;
}

size_t stni_matmul_workspace(const struct stni_matmul_args *p)
{
    size_t bytes = p->library != NULL ? 0 : stni_gemm_workspace(stni_wide_dtype(p->dtype), p->m, p->n, p->k);
    if (!p->widen && bytes <= OWN_BYTES)
        return 0;
    if (p->widen) {
        stn_box boxes[] = {box_of(p, &p->a, p->m, p->k), box_of(p, &p->b, p->k, p->n), box_of(p, &p->c, p->m, p->n)};
        for (int i = 0; i < 3; i++)
            bytes += wide_bytes(&boxes[i]);
    }
    return bytes;
}

/* Through f32 copies of the operands in the workspace. */
static stn_status solve_wide(stn_queue *queue, const struct stni_matmul_args *p)
{
    struct stni_matmul_args w = *p;
    char *workspace = p->workspace;
    stn_box narrow, wide;
    w.dtype = STN_DTYPE_F32;
    w.a = widen(p, &p->a, p->m, p->k, &workspace, &narrow, &wide);
    stni_box_convert_now(&wide, STN_DTYPE_F32, &narrow, p->dtype);
    w.b = widen(p, &p->b, p->k, p->n, &workspace, &narrow, &wide);
    stni_box_convert_now(&wide, STN_DTYPE_F32, &narrow, p->dtype);
    w.c = widen(p, &p->c, p->m, p->n, &workspace, &narrow, &wide);
    w.workspace = workspace;
    stn_status status = solve_all(queue, &w);
    if (status == STN_OK)
        stni_box_convert_now(&narrow, p->dtype, &wide, STN_DTYPE_F32);
    return status;
}

/* 16-bit floats that oneDNN refused after all, with a workspace made for them. */
static stn_status solve_wide_late(stn_queue *queue, const struct stni_matmul_args *p)
{
    struct stni_matmul_args w = *p;
    w.widen = 1;
    const size_t bytes = stni_matmul_workspace(&w);
    STNI_TRY(make_workspace(queue, bytes, &w.workspace));
    const stn_status status = solve_wide(queue, &w);
    stni_device_deallocate(queue->device, w.workspace, bytes);
    return status;
}

stn_status stni_matmul_cpu(stn_queue *queue, const void *args)
{
    const struct stni_matmul_args *p = args;
    stn_status status = p->widen ? solve_wide(queue, p) : solve_all(queue, p);
    if (status == STN_ERR_UNSUPPORTED && !p->widen)
        status = solve_wide_late(queue, p);
    if (status == STN_OK)
        return STN_OK;
    return stn_queue_fail(queue, status, "matmul: (%lld, %lld) by (%lld, %lld): %s", (long long)p->m, (long long)p->k, (long long)p->k,
                          (long long)p->n, stn_status_text(status));
}
