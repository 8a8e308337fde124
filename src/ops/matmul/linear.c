/* linear: y = x W^T + b, the product of matmul with W read as it lies, and the addition of pointwise ops over its
 * result. */
#include "core/tensor/tensor.h"
#include "ops/elementwise/pointwise.h"
#include "ops/matmul/contract.h"
#include "ops/matmul/matmul.h"
#include "ops/placement/bilinear.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/cpu/gemm.h"
#include "ops/common/sum_to.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

#include <string.h>

enum { INPUT, WEIGHT, BIAS };
enum { PRODUCT, ADD };

/* Labels: those of x's leading dims are 0, 1, …. */
enum { OUT = STN_MAX_NDIM, IN };

stn_tensor *stn_linear(stn_tensor *input, stn_tensor *weight, stn_tensor *bias)
{
    stn_tensor *in[] = {[INPUT] = input, [WEIGHT] = weight, [BIAS] = bias};
    return stni_call(STNI_OP_linear, 3, in, NULL);
}

static stn_status check_shapes(const stn_op_call *call)
{
    const struct stni_layout *x = &call->in_spec[INPUT]->layout, *w = &call->in_spec[WEIGHT]->layout;
    char text[2][STNI_SHAPE_TEXT];
    stni_shape_text(x->ndim, x->shape, text[0]);
    stni_shape_text(w->ndim, w->shape, text[1]);
    if (x->ndim == 0 || w->ndim != 2)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "got 'input' of shape %s and 'weight' of shape %s, wanted (…, in) and (out, in)", text[0],
                           text[1]);
    if (x->shape[x->ndim - 1] != w->shape[1])
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "got 'input' of shape %s and 'weight' of shape %s, whose last dims differ", text[0],
                           text[1]);
    if (!call->in_spec[BIAS])
        return STN_OK;
    const struct stni_layout *b = &call->in_spec[BIAS]->layout;
    if (b->ndim != 1 || b->shape[0] != w->shape[0])
        return stn_op_fail(call, STN_ERR_SHAPE, "'bias' got shape %s, wanted (%lld), the rows of 'weight'",
                           stni_shape_text(b->ndim, b->shape, text[0]), (long long)w->shape[0]);
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *x = &call->in_spec[INPUT]->layout, *w = &call->in_spec[WEIGHT]->layout;
    stn_meta *meta = &call->out_meta[0];
    for (int i = WEIGHT; i <= BIAS; i++)
        if (call->in_spec[i])
            STNI_TRY(stni_check_dtype(call, i, x->dtype, "input's"));
    if (!stni_gemm_serves(stni_wide_dtype(x->dtype)))
        return stn_op_fail(call, STN_ERR_DTYPE, "got dtype %s, wanted f32 f64 bf16 f16 i64 i32 c64 or c128",
                           stn_dtype_name(x->dtype));
    STNI_TRY(check_shapes(call));
    *meta = stni_meta_of(x);
    meta->shape[x->ndim - 1] = w->shape[0];
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_bilinear rule = {0};
    struct stni_labels bias;
    int last = call->in_spec[INPUT]->layout.ndim - 1;
    memset(&bias, STNI_NO_LABEL, sizeof bias);
    bias.memory_order = NULL;
    rule.in[INPUT] = rule.in[WEIGHT] = rule.out = bias;
    for (int d = 0; d < last; d++)
        rule.in[INPUT].of[d] = rule.out.of[d] = (int8_t)d;
    rule.in[INPUT].of[last] = rule.in[WEIGHT].of[1] = IN;
    rule.in[WEIGHT].of[0] = rule.out.of[last] = bias.of[0] = OUT;
    rule.added = &bias;
    return stni_bilinear_place(call, &rule);
}

static stn_status run(stn_op_call *call)
{
    STNI_TRY(stni_matmul_solve(call, call->in[INPUT], call->in[WEIGHT], 1, call->out[0]));
    return call->in[BIAS]
               ? stni_matmul_add(call, ADD, call->out[0], call->in[BIAS], (struct stni_pointwise_number){1, 1})
               : STN_OK;
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs >> INPUT & 1 ? 1u << WEIGHT : 0) | (needs >> WEIGHT & 1 ? 1u << INPUT : 0);
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *grad = call->grad_out[0];
    if (call->needs >> INPUT & 1)
        call->grad_in[INPUT] = stn_matmul(grad, stni_conjugate(call->in[WEIGHT]));
    if (call->needs >> WEIGHT & 1)
        call->grad_in[WEIGHT] = stni_contract_rows(grad, stni_conjugate(call->in[INPUT]));
    if (call->needs >> BIAS & 1)
        call->grad_in[BIAS] = stni_sum_to(grad, call->in_spec[BIAS]);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {
    [INPUT] = {.name = "input"}, [WEIGHT] = {.name = "weight"}, [BIAS] = {.name = "bias", .optional = 1}};

static const stn_kernel_slot slots[] = {
    [PRODUCT] = {"product", sizeof(struct stni_matmul_args)},
    [ADD] = {"add", sizeof(struct stni_pointwise_args)},
};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("product", STNI_MATMUL_DTYPES, struct stni_matmul_args, stni_matmul_cpu, stni_matmul_cpu_workspace),
    STNI_CPU_ROW("add", STNI_MATMUL_DTYPES, struct stni_pointwise_args, stni_pointwise_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_linear = {
    .size = sizeof(stn_op_desc),
    .name = "linear",
    STN_INPUTS(inputs),
    .n_outputs = 1,
    .impl = &impl,
};
