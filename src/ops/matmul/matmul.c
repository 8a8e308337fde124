/* matmul: batches of matrix products.
 *
 * Letters: A (…, m, k), B (…, k, n), C (…, m, n); of a vector on the left m is missing, of one on the right n. Every rank multiplies its
 * chunks; where k is cut, or an operand is Partial(sum), so is the result. */
#include "core/dtype.h"
#include "core/tensor.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/util/bilinear.h"
#include "ops/util/call.h"
#include "ops/util/dims.h"
#include "ops/util/gemm.h"
#include "ops/util/onednn.h"
#include "ops/util/sum_to.h"
#include "ops/util/widen.h"

#include <shardtensor/ops.h>

#include <string.h>

/* Labels: those of the batch dims are 0, 1, …. */
enum { M = STN_MAX_NDIM, N, K };

stn_tensor *stn_matmul(stn_tensor *input, stn_tensor *other)
{
    stn_tensor *in[] = {input, other};
    return stni_call(STNI_OP_matmul, 2, in, NULL);
}

static stn_status check_shapes(const stn_op_call *call)
{
    const struct stni_layout *a = &call->in_spec[0]->layout, *b = &call->in_spec[1]->layout;
    char text[2][STNI_SHAPE_TEXT];
    stni_shape_text(a->ndim, a->shape, text[0]);
    stni_shape_text(b->ndim, b->shape, text[1]);
    if (a->ndim == 0 || b->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "got shapes %s and %s, wanted at least one dim each", text[0], text[1]);
    if (a->shape[a->ndim - 1] != b->shape[b->ndim > 1 ? b->ndim - 2 : 0])
        return stn_op_fail(call, STN_ERR_SHAPE, "got shapes %s and %s, wanted as many columns on the left as rows on the right", text[0],
                           text[1]);
    for (int i = 3; i <= a->ndim && i <= b->ndim; i++) {
        int64_t n = a->shape[a->ndim - i], m = b->shape[b->ndim - i];
        if (n != m && n != 1 && m != 1)
            return stn_op_fail(call, STN_ERR_SHAPE, "got shapes %s and %s, whose batch dims do not broadcast", text[0], text[1]);
    }
    return STN_OK;
}

static int max(int a, int b)
{
    return a > b ? a : b;
}

/* Batch dims of an operand of `ndim` dims. */
static int batch_dims(int ndim)
{
    return max(ndim - 2, 0);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *a = &call->in_spec[0]->layout, *b = &call->in_spec[1]->layout;
    stn_meta *meta = &call->out_meta[0];
    if (a->dtype != b->dtype)
        return stn_op_fail(call, STN_ERR_DTYPE, "got dtypes %s and %s, wanted equal ones", stn_dtype_name(a->dtype),
                           stn_dtype_name(b->dtype));
    if (!stni_gemm_serves(stni_wide_dtype(a->dtype)))
        return stn_op_fail(call, STN_ERR_DTYPE, "got dtype %s, wanted f32 f64 bf16 f16 i64 i32 c64 or c128", stn_dtype_name(a->dtype));
    STNI_TRY(check_shapes(call));
    int batch = max(batch_dims(a->ndim), batch_dims(b->ndim));
    meta->dtype = a->dtype;
    for (int d = 0; d < batch; d++) {
        int da = d - batch + batch_dims(a->ndim), db = d - batch + batch_dims(b->ndim);
        meta->shape[d] = da < 0 || a->shape[da] == 1 ? (db < 0 ? 1 : b->shape[db]) : a->shape[da];
    }
    meta->ndim = batch;
    if (a->ndim > 1)
        meta->shape[meta->ndim++] = a->shape[a->ndim - 2];
    if (b->ndim > 1)
        meta->shape[meta->ndim++] = b->shape[b->ndim - 1];
    return STN_OK;
}

/* Labels of an operand's batch dims: of those that have the result's size. */
static void label_batch(const stn_spec *in, const stn_meta *out, int out_batch, struct stni_labels *labels)
{
    int batch = batch_dims(in->layout.ndim);
    memset(labels->of, STNI_NO_LABEL, sizeof labels->of);
    for (int d = 0; d < batch; d++)
        if (in->layout.shape[d] == out->shape[d + out_batch - batch])
            labels->of[d] = (int8_t)(d + out_batch - batch);
}

static stn_status place(stn_op_call *call)
{
    struct stni_bilinear rule = {0};
    int a = call->in_spec[0]->layout.ndim, b = call->in_spec[1]->layout.ndim;
    int batch = max(batch_dims(a), batch_dims(b)), at = batch;
    label_batch(call->in_spec[0], &call->out_meta[0], batch, &rule.in[0]);
    label_batch(call->in_spec[1], &call->out_meta[0], batch, &rule.in[1]);
    memset(rule.out.of, STNI_NO_LABEL, sizeof rule.out.of);
    for (int d = 0; d < batch; d++)
        rule.out.of[d] = (int8_t)d;
    rule.in[0].of[a - 1] = K;
    rule.in[1].of[b > 1 ? b - 2 : 0] = K;
    if (a > 1)
        rule.in[0].of[a - 2] = rule.out.of[at++] = M;
    if (b > 1)
        rule.in[1].of[b - 1] = rule.out.of[at++] = N;
    return stni_bilinear_place(call, &rule);
}

/* Strides of a tensor's chunk as an operand of (batch…, rows, cols); `row` and `col` are its dims, -1 where it has none. */
static struct stni_matmul_operand operand(const stn_tensor *t, int row, int col, int out_batch)
{
    struct stni_matmul_operand o = {.data = t->data, .row = row < 0 ? 1 : t->strides[row], .col = col < 0 ? 1 : t->strides[col]};
    int batch = batch_dims(t->spec->layout.ndim);
    for (int d = 0; d < batch; d++)
        if (t->spec->layout.shape[d] != 1)
            o.batch[d + out_batch - batch] = t->strides[d];
    return o;
}

static struct stni_matmul_args describe(const stn_tensor *a, const stn_tensor *b, const stn_tensor *c)
{
    int na = a->spec->layout.ndim, nb = b->spec->layout.ndim, nc = c->spec->layout.ndim;
    int batch = max(batch_dims(na), batch_dims(nb)), col = nb > 1 ? nc - 1 : -1;
    struct stni_matmul_args p = {.dtype = c->spec->layout.dtype, .n_batch = batch, .m = 1, .n = 1};
    p.k = a->spec->local_shape[na - 1];
    if (na > 1)
        p.m = a->spec->local_shape[na - 2];
    if (nb > 1)
        p.n = b->spec->local_shape[nb - 1];
    for (int d = 0; d < batch; d++) {
        p.batch[d] = c->spec->local_shape[d];
        p.c.batch[d] = c->strides[d];
    }
    p.a = operand(a, na - 2, na - 1, batch);
    p.b = operand(b, nb > 1 ? nb - 2 : 0, nb > 1 ? nb - 1 : -1, batch);
    p.c.data = c->data;
    p.c.row = na > 1 ? c->strides[batch] : 1;
    p.c.col = col < 0 ? 1 : c->strides[col];
    return p;
}

static void remove_batch_dim(struct stni_matmul_args *p, int d)
{
    struct stni_matmul_operand *operands[] = {&p->a, &p->b, &p->c};
    p->n_batch--;
    for (int i = d; i < p->n_batch; i++) {
        p->batch[i] = p->batch[i + 1];
        for (int j = 0; j < 3; j++)
            operands[j]->batch[i] = operands[j]->batch[i + 1];
    }
}

/* Whether stepping over all of a dim's `n` elements is one step of the dim outside it. */
static int chains(int64_t outer, int64_t inner, int64_t n)
{
    return outer == inner * n;
}

/* The same products with as few batch dims as strides allow, and where B is shared, with the rows of several as rows of one. */
static void collapse(struct stni_matmul_args *p)
{
    for (int d = p->n_batch - 1; d >= 0; d--)
        if (p->batch[d] == 1)
            remove_batch_dim(p, d);
    for (int d = p->n_batch - 1; d > 0; d--) {
        int64_t n = p->batch[d];
        if (!chains(p->a.batch[d - 1], p->a.batch[d], n) || !chains(p->b.batch[d - 1], p->b.batch[d], n) ||
            !chains(p->c.batch[d - 1], p->c.batch[d], n))
            continue;
        p->batch[d] *= p->batch[d - 1];
        remove_batch_dim(p, d - 1);
    }
    int last = p->n_batch - 1;
    if (last < 0 || p->b.batch[last] != 0)
        return;
    if (p->m == 1) {
        p->a.row = p->a.batch[last];
        p->c.row = p->c.batch[last];
    } else if (!chains(p->a.batch[last], p->a.row, p->m) || !chains(p->c.batch[last], p->c.row, p->m)) {
        return;
    }
    p->m *= p->batch[last];
    p->n_batch--;
}

/* Whether oneDNN takes a factor of so many rows and columns as it lies. */
static int suits(const struct stni_matmul_operand *o, int64_t rows, int64_t cols)
{
    return (o->col == 1 && (rows == 1 || o->row >= cols)) || (o->row == 1 && (cols == 1 || o->col >= rows));
}

/* Chooses between oneDNN and our own kernels: these for other dtypes, for strides that oneDNN does not take, and for small products,
 * where they start sooner. 16-bit floats that become f32 are dense then. */
static stn_status choose(const stn_op_call *call, struct stni_matmul_args *p)
{
    enum { SMALL = 12 * 12 * 12 };
    struct stni_onednn *library = NULL;
    int fits = p->c.col == 1 && (p->m == 1 || p->c.row >= p->n) && suits(&p->a, p->m, p->k) && suits(&p->b, p->k, p->n);
    p->widen = stni_wide_dtype(p->dtype) != p->dtype;
    if (p->m * p->n * p->k >= SMALL && stni_wide_dtype(p->dtype) == STN_DTYPE_F32)
        STNI_TRY(stni_onednn_get(call->context, &library));
    if (library != NULL && p->dtype == STN_DTYPE_BF16 && fits && stni_onednn_has_bf16(library))
        p->widen = 0;
    if (p->widen || fits)
        p->library = library;
    size_t bytes = stni_matmul_workspace(p);
    return bytes > 0 ? stn_op_scratch(call, bytes, &p->workspace) : STN_OK;
}

static stn_status run(stn_op_call *call)
{
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    struct stni_matmul_args p = describe(call->in[0], call->in[1], call->out[0]);
    collapse(&p);
    if (call->context->device->is_cpu)
        STNI_TRY(choose(call, &p));
    return stn_op_launch(call, 0, p.dtype, &p, sizeof p);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs & 1 ? 2u : 0) | (needs & 2 ? 1u : 0);
}

/* With a dim of size 1 put in at `dim`. */
static stn_tensor *unsqueeze(stn_tensor *t, int dim)
{
    int64_t shape[STN_MAX_NDIM];
    int ndim = stn_tensor_ndim(t);
    if (stn_tensor_is_error(t))
        return t;
    for (int d = 0; d <= ndim; d++)
        shape[d] = d == dim ? 1 : stn_tensor_shape(t)[d - (d > dim)];
    return stn_view(t, ndim + 1, shape);
}

/* The adjoint of a matrix: conjugated and transposed. */
static stn_tensor *adjoint(stn_tensor *t)
{
    if (!stn_tensor_is_error(t) && stni_dtype_is_complex(stn_tensor_dtype(t)))
        t = stn_conj(t);
    return stn_transpose(t, -2, -1);
}

/* Cotangent of an input from that of the matrix which it was broadcast and, as a vector, unsqueezed to. */
static stn_tensor *fit(stn_tensor *grad, const stn_spec *in, int unsqueezed)
{
    struct stni_layout like = in->layout;
    const stn_spec *matrix = in;
    if (unsqueezed >= 0) {
        like.ndim = 2;
        like.shape[1 - unsqueezed] = like.shape[0];
        like.shape[unsqueezed] = 1;
        if (stni_spec_local(in->context, like.dtype, 2, like.shape, &matrix) != STN_OK)
            return grad;
    }
    grad = stni_sum_to(grad, matrix);
    return unsqueezed < 0 || stn_tensor_is_error(grad) ? grad : stn_view(grad, 1, in->layout.shape);
}

/* Whether the dims before the last can be merged without moving data: only dims of size 1 stand before one that is cut. */
static int merges(const stn_tensor *t)
{
    const struct stni_layout *layout = &t->spec->layout;
    int axes[STN_MAX_MESH_NDIM];
    int64_t before = 1;
    for (int d = 0; d < layout->ndim - 1; d++) {
        if (before != 1 && stni_layout_dim_axes(layout, d, axes) > 0)
            return 0;
        before *= layout->shape[d];
    }
    return 1;
}

static stn_tensor *merge(stn_tensor *t)
{
    int last = stn_tensor_ndim(t) - 1;
    int64_t shape[] = {1, stn_tensor_shape(t)[last]};
    for (int d = 0; d < last; d++)
        shape[0] *= stn_tensor_shape(t)[d];
    return stn_view(t, 2, shape);
}

/* A* dC, summed over the batch where B has none. Then the rows of all batches are the terms of one sum, which is one product. */
static stn_tensor *grad_of_other(stn_tensor *a, stn_tensor *grad, int b_ndim)
{
    if (!stn_tensor_is_error(a) && !stn_tensor_is_error(grad) && b_ndim == 2 && stn_tensor_ndim(a) > 2 &&
        stn_tensor_ndim(a) == stn_tensor_ndim(grad) && merges(a) && merges(grad)) {
        a = merge(a);
        grad = merge(grad);
    }
    return stn_matmul(adjoint(a), grad);
}

/* dA = dC B*, dB = A* dC, with vectors as matrices of one row or column. */
static stn_status backward(stn_backward_call *call)
{
    stn_tensor *grad = call->grad_out[0], *a = call->in[0], *b = call->in[1];
    int row = call->in_spec[0]->layout.ndim == 1, col = call->in_spec[1]->layout.ndim == 1;
    int ndim = call->out_spec[0]->layout.ndim;
    if (row)
        grad = unsqueeze(grad, col ? ndim : ndim - 1);
    if (col)
        grad = unsqueeze(grad, ndim + row);
    if (call->needs & 1)
        call->grad_in[0] = fit(stn_matmul(grad, adjoint(col ? unsqueeze(b, 1) : b)), call->in_spec[0], row ? 0 : -1);
    if (call->needs & 2)
        call->grad_in[1] = fit(grad_of_other(row ? unsqueeze(a, 0) : a, grad, col ? 2 : call->in_spec[1]->layout.ndim),
                               call->in_spec[1], col ? 1 : -1);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "other"}};

static const stn_kernel_slot slots[] = {{"matmul.product", sizeof(struct stni_matmul_args)}};

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "matmul.product", "cpu",
     1u << STN_DTYPE_F32 | 1u << STN_DTYPE_F64 | 1u << STN_DTYPE_BF16 | 1u << STN_DTYPE_F16 | 1u << STN_DTYPE_I64 | 1u << STN_DTYPE_I32 |
         1u << STN_DTYPE_C64 | 1u << STN_DTYPE_C128,
     sizeof(struct stni_matmul_args), stni_matmul_cpu},
};

const stn_op_desc stni_op_matmul = {
    .size = sizeof(stn_op_desc),
    .name = "matmul",
    .inputs = inputs,
    .n_inputs = 2,
    .n_outputs = 1,
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    .slots = slots,
    .n_slots = 1,
    .kernels = kernels,
    .n_kernels = 1,
};
