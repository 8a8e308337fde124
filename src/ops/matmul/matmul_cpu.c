/* Products on the CPU: by oneDNN or by our own kernels. 16-bit floats are converted to f32 in the workspace first,
 * unless oneDNN supports them. */
#include "core/device/device.h"
#include "ops/matmul/matmul_cpu.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/widen.h"

/* How products are computed: the same choice when the size of the workspace is computed and when the kernel runs. */
struct way {
    struct stni_onednn *library; /* NULL: our own kernels */
    int widen;                   /* 16-bit floats are multiplied as f32 */
};

/* Whether oneDNN supports the strides of a factor of so many rows and columns. */
static int suits(const struct stni_matmul_operand *o, int64_t rows, int64_t cols)
{
    return (o->col == 1 && (rows == 1 || o->row >= cols)) || (o->row == 1 && (cols == 1 || o->col >= rows));
}

/* Our own kernels are for other dtypes, for strides that oneDNN does not support, for small products, where they
 * start sooner, and for those with a vector, where their sums err less. 16-bit floats that become f32 are dense
 * then; those of long sums do, to be summed up in f64. */
static struct way choose(const stn_queue *queue, const struct stni_matmul_args *p)
{
    enum { SMALL = 12 * 12 * 12 };
    const stn_dtype wide = stni_wide_dtype(p->dtype);
    const int fits =
        p->c.col == 1 && (p->m == 1 || p->c.row >= p->n) && suits(&p->a, p->m, p->k) && suits(&p->b, p->k, p->n);
    struct way way = {NULL, wide != p->dtype};
    if (wide != STN_DTYPE_F32 || p->m * p->n * p->k < SMALL || stni_gemm_is_vector(wide, p->m, p->n, p->k))
        return way;
    struct stni_onednn *library = stni_onednn_of(queue->context);
    if (library != NULL && p->dtype == STN_DTYPE_BF16 && fits && stni_onednn_prefers_bf16(library) &&
        !stni_matmul_is_long(p))
        way.widen = 0;
    if (way.widen || fits)
        way.library = library;
    return way;
}

/* Whether a factor lies transposed, its columns dense. Results never do. */
static int is_transposed(const struct stni_matmul_args *p, const struct stni_matmul_operand *o, int64_t rows,
                         int64_t cols)
{
    return o != &p->c && o->row == 1 && o->col != 1 && rows > 1 && cols > 1;
}

/* An operand as a box, without the dims that it is broadcast along; of a transposed one with the rows last. */
static stn_box box_of(const struct stni_matmul_args *p, const struct stni_matmul_operand *o, int64_t rows, int64_t cols,
                      int transposed)
{
    stn_box box = {.data = o->data};
    for (int d = 0; d < p->n_batch; d++)
        if (o->batch[d] != 0) {
            box.shape[box.ndim] = p->batch[d];
            box.strides[box.ndim++] = o->batch[d];
        }
    const int row = box.ndim + transposed, col = 2 * box.ndim + 1 - row;
    box.shape[row] = rows, box.strides[row] = o->row;
    box.shape[col] = cols, box.strides[col] = o->col;
    box.ndim += 2;
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

/* Puts an operand's dense f32 form, transposed as the operand is, at *workspace, moves that on, and gives the boxes
 * of both. */
static struct stni_matmul_operand widen(const struct stni_matmul_args *p, const struct stni_matmul_operand *o,
                                        int64_t rows, int64_t cols, char **workspace, stn_box *narrow, stn_box *wide)
{
    const int transposed = is_transposed(p, o, rows, cols);
    struct stni_matmul_operand w = {.data = *workspace, .row = transposed ? 1 : cols, .col = transposed ? rows : 1};
    int64_t step = rows * cols;
    for (int d = p->n_batch - 1; d >= 0; d--)
        if (o->batch[d] != 0) {
            w.batch[d] = step;
            step *= p->batch[d];
        }
    *narrow = box_of(p, o, rows, cols, transposed);
    *wide = box_of(p, &w, rows, cols, transposed);
    *workspace += wide_bytes(wide);
    return w;
}

static size_t workspace_bytes(const struct stni_matmul_args *p, const struct way *way)
{
    const stn_dtype dtype = stni_wide_dtype(p->dtype);
    const int needs_none = way->library != NULL || stni_gemm_is_vector(dtype, p->m, p->n, p->k);
    size_t bytes = needs_none ? 0 : stni_gemm_workspace(dtype, p->m, p->n, p->k);
    if (!way->widen && !stni_matmul_is_long(p) && bytes <= STNI_MATMUL_STACK)
        return 0;
    if (way->widen) {
        const stn_box boxes[] = {box_of(p, &p->a, p->m, p->k, 0), box_of(p, &p->b, p->k, p->n, 0),
                                 box_of(p, &p->c, p->m, p->n, 0)};
        for (int i = 0; i < 3; i++)
            bytes += wide_bytes(&boxes[i]);
    }
    return bytes + stni_matmul_long_workspace(p);
}

size_t stni_matmul_cpu_workspace(stn_queue *queue, const void *args)
{
    const struct stni_matmul_args *p = args;
    const struct way way = choose(queue, p);
    return workspace_bytes(p, &way);
}

static stn_status solve(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p)
{
    return stni_matmul_is_long(p) ? stni_matmul_long(queue, library, p) : stni_matmul_each(queue, library, p);
}

/* Through f32 copies of the operands in the workspace. */
static stn_status solve_wide(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p)
{
    struct stni_matmul_args w = *p;
    char *workspace = p->workspace;
    stn_box narrow, wide;
    w.dtype = STN_DTYPE_F32;
    w.a = widen(p, &p->a, p->m, p->k, &workspace, &narrow, &wide);
    stni_convert_box_now(&wide, STN_DTYPE_F32, &narrow, p->dtype);
    w.b = widen(p, &p->b, p->k, p->n, &workspace, &narrow, &wide);
    stni_convert_box_now(&wide, STN_DTYPE_F32, &narrow, p->dtype);
    w.c = widen(p, &p->c, p->m, p->n, &workspace, &narrow, &wide);
    w.workspace = workspace;
    STNI_TRY(solve(queue, library, &w));
    stni_convert_box_now(&narrow, p->dtype, &wide, STN_DTYPE_F32);
    return STN_OK;
}

/* 16-bit floats that oneDNN refused after all, with a workspace made for them. */
static stn_status solve_refused(stn_queue *queue, struct stni_onednn *library, const struct stni_matmul_args *p)
{
    const struct way way = {library, 1};
    const size_t bytes = workspace_bytes(p, &way);
    struct stni_matmul_args w = *p;
    if (stni_device_allocate(queue->device, bytes, &w.workspace) != STN_OK)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: workspace of a product (%zu bytes)", bytes);
    const stn_status status = solve_wide(queue, library, &w);
    stni_device_deallocate(queue->device, w.workspace, bytes);
    return status;
}

stn_status stni_matmul_cpu(stn_queue *queue, const void *args)
{
    const struct stni_matmul_args *p = args;
    const struct way way = choose(queue, p);
    stn_status status = way.widen ? solve_wide(queue, way.library, p) : solve(queue, way.library, p);
    if (status == STN_ERR_UNSUPPORTED && !way.widen)
        status = solve_refused(queue, way.library, p);
    if (status == STN_OK)
        return STN_OK;
    return stn_queue_fail(queue, status, "matmul: (%lld, %lld) by (%lld, %lld): %s", (long long)p->m, (long long)p->k,
                          (long long)p->k, (long long)p->n, stn_status_text(status));
}
