/* From chunks to the kernel of products, and what backward functions of products share. */
#include "ops/matmul/matmul.h"

#include "core/tensor/tensor.h"
#include "ops/matmul/matmul_kernel.h"

#include <shardtensor/ops.h>

static int max(int a, int b)
{
    return a > b ? a : b;
}

/* Batch dims of an operand of `ndim` dims. */
static int batch_dims(int ndim)
{
    return max(ndim - 2, 0);
}

/* Strides of a tensor's chunk as an operand of (batch…, rows, cols); `row` and `col` are its dims, -1 where it has
 * none. */
static struct stni_matmul_operand operand(const stn_tensor *t, int row, int col, int out_batch)
{
    struct stni_matmul_operand o = {
        .data = t->data, .row = row < 0 ? 1 : t->strides[row], .col = col < 0 ? 1 : t->strides[col]};
    int batch = batch_dims(t->spec->layout.ndim);
    for (int d = 0; d < batch; d++)
        if (t->spec->layout.shape[d] != 1)
            o.batch[d + out_batch - batch] = t->strides[d];
    return o;
}

static struct stni_matmul_args describe(const stn_tensor *a, const stn_tensor *b, int b_transposed, const stn_tensor *c)
{
    int na = a->spec->layout.ndim, nb = b->spec->layout.ndim, nc = c->spec->layout.ndim;
    int batch = max(batch_dims(na), batch_dims(nb)), col = nb > 1 ? nc - 1 : -1;
    struct stni_matmul_args p = {.dtype = c->spec->layout.dtype, .n_batch = batch, .m = 1, .n = 1};
    p.k = a->spec->local_shape[na - 1];
    if (na > 1)
        p.m = a->spec->local_shape[na - 2];
    if (nb > 1)
        p.n = b->spec->local_shape[b_transposed ? nb - 2 : nb - 1];
    for (int d = 0; d < batch; d++) {
        p.batch[d] = c->spec->local_shape[d];
        p.c.batch[d] = c->strides[d];
    }
    p.a = operand(a, na - 2, na - 1, batch);
    p.b =
        b_transposed ? operand(b, nb - 1, nb - 2, batch) : operand(b, nb > 1 ? nb - 2 : 0, nb > 1 ? nb - 1 : -1, batch);
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

/* The same products with as few batch dims as strides allow, and where B is shared, with the rows of several as rows
 * of one. */
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

stn_status stni_matmul_launch(stn_op_call *call, struct stni_matmul_args *p)
{
    collapse(p);
    const size_t bytes = stn_op_workspace(call, 0, p->dtype, p);
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(call, bytes, &p->workspace));
    return stn_op_launch(call, 0, p->dtype, p, sizeof *p);
}

stn_status stni_matmul_solve(stn_op_call *call, const stn_tensor *a, const stn_tensor *b, int b_transposed,
                             const stn_tensor *c)
{
    if (c->spec->local_numel == 0)
        return STN_OK;
    struct stni_matmul_args p = describe(a, b, b_transposed, c);
    return stni_matmul_launch(call, &p);
}

stn_tensor *stni_matmul_unsqueeze(stn_tensor *t, int dim)
{
    int64_t shape[STN_MAX_NDIM];
    int ndim = stn_tensor_ndim(t);
    if (stn_tensor_is_error(t))
        return t;
    for (int d = 0; d <= ndim; d++)
        shape[d] = d == dim ? 1 : stn_tensor_shape(t)[d - (d > dim)];
    return stn_view(t, ndim + 1, shape);
}
