/* matmul: batches of matrix products.
 *
 * Shapes: A (…, m, k), B (…, k, n), C (…, m, n); a vector on the left has no m, one on the right no n. Every rank
 * multiplies its chunks; where k is sharded, or an operand is Partial(sum), so is the result. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/elementwise/pointwise.h"
#include "ops/matmul/contract.h"
#include "ops/matmul/matmul.h"
#include "ops/placement/bilinear.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/cpu/gemm.h"
#include "ops/common/sum_to.h"
#include "ops/cpu/widen.h"

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
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "got shapes %s and %s, wanted as many columns on the left as rows on the right", text[0],
                           text[1]);
    for (int i = 3; i <= a->ndim && i <= b->ndim; i++) {
        int64_t n = a->shape[a->ndim - i], m = b->shape[b->ndim - i];
        if (n != m && n != 1 && m != 1)
            return stn_op_fail(call, STN_ERR_SHAPE, "got shapes %s and %s, whose batch dims do not broadcast", text[0],
                               text[1]);
    }
    return STN_OK;
}

/* Batch dims of an operand of `ndim` dims. */
static int batch_dims(int ndim)
{
    return ndim > 2 ? ndim - 2 : 0;
}

static int max(int a, int b)
{
    return a > b ? a : b;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *a = &call->in_spec[0]->layout, *b = &call->in_spec[1]->layout;
    stn_meta *meta = &call->out_meta[0];
    if (a->dtype != b->dtype)
        return stn_op_fail(call, STN_ERR_DTYPE, "got dtypes %s and %s, wanted equal ones", stn_dtype_name(a->dtype),
                           stn_dtype_name(b->dtype));
    if (!stni_gemm_serves(stni_wide_dtype(a->dtype)))
        return stn_op_fail(call, STN_ERR_DTYPE, "got dtype %s, wanted f32 f64 bf16 f16 i64 i32 c64 or c128",
                           stn_dtype_name(a->dtype));
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

static stn_status run(stn_op_call *call)
{
    return stni_matmul_solve(call, call->in[0], call->in[1], 0, call->out[0]);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs & 1 ? 2u : 0) | (needs & 2 ? 1u : 0);
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

/* A* dC, summed over the batch where B has none: then the rows of all batches are the terms of one sum. */
static stn_tensor *grad_of_other(stn_tensor *a, stn_tensor *grad, int b_ndim)
{
    return b_ndim == 2 ? stni_contract_rows(stni_conjugate(a), grad) : stn_matmul(stni_matmul_adjoint(a), grad);
}

/* dA = dC B*, dB = A* dC, with vectors as matrices of one row or column. */
static stn_status backward(stn_backward_call *call)
{
    stn_tensor *grad = call->grad_out[0], *a = call->in[0], *b = call->in[1];
    int row = call->in_spec[0]->layout.ndim == 1, col = call->in_spec[1]->layout.ndim == 1;
    int ndim = call->out_spec[0]->layout.ndim;
    if (row)
        grad = stni_matmul_unsqueeze(grad, col ? ndim : ndim - 1);
    if (col)
        grad = stni_matmul_unsqueeze(grad, ndim + row);
    if (call->needs & 1) {
        b = col ? stni_matmul_unsqueeze(b, 1) : b;
        call->grad_in[0] = fit(stn_matmul(grad, stni_matmul_adjoint(b)), call->in_spec[0], row ? 0 : -1);
    }
    if (call->needs & 2) {
        a = row ? stni_matmul_unsqueeze(a, 0) : a;
        call->grad_in[1] =
            fit(grad_of_other(a, grad, col ? 2 : call->in_spec[1]->layout.ndim), call->in_spec[1], col ? 1 : -1);
    }
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "other"}};

static const stn_kernel_slot slots[] = {{"product", sizeof(struct stni_matmul_args)}};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("product", STNI_MATMUL_DTYPES, struct stni_matmul_args, stni_matmul_cpu, stni_matmul_cpu_workspace),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_matmul = {
    .size = sizeof(stn_op_desc),
    .name = "matmul",
    STN_INPUTS(inputs),
    .n_outputs = 1,
    .impl = &impl,
};
