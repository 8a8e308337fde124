/* loss_backward: out = grad weight term(input - target) / total, one pass, for the slope of a loss and for its curvature. It is linear in
 * grad, so that its own backward is itself. Weights, and with them the total, have no gradient. */
#include "core/tensor.h"
#include "ops/loss/loss.h"
#include "ops/util/call.h"
#include "ops/util/convert.h"
#include "ops/util/sum_to.h"

#include <shardtensor/ops.h>

stn_tensor *stni_loss_backward_call(const struct stni_loss_backward_attrs *attrs, stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                                    stn_tensor *grad, stn_tensor *total)
{
    stn_tensor *in[] = {[STNI_LOSS_INPUT] = input, [STNI_LOSS_TARGET] = target, [STNI_LOSS_WEIGHT] = weight, [STNI_LOSS_GRAD] = grad,
                        [STNI_LOSS_TOTAL] = total};
    return stni_call(STNI_OP_loss_backward, 5, in, attrs);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_loss_backward_attrs *attrs = call->attrs;
    const struct stni_layout *total = &call->in_spec[STNI_LOSS_TOTAL]->layout;
    if (attrs->loss < 0 || attrs->loss >= STNI_LOSS_COUNT || attrs->term < STNI_LOSS_SLOPE || attrs->term > STNI_LOSS_CURVATURE)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'loss' and 'term' got %d and %d, which is none", (int)attrs->loss, (int)attrs->term);
    if (total->ndim != 0 || total->dtype != STN_DTYPE_F64)
        return stn_op_fail(call, STN_ERR_SHAPE, "'total' has %d dims and is %s, wanted a number of f64", total->ndim, stn_dtype_name(total->dtype));
    return stni_loss_check_operands(call, STNI_LOSS_TOTAL, &call->out_meta[0]);
}

static stn_status place(stn_op_call *call)
{
    return stni_loss_place_operands(call, 5, &call->out_meta[0], &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    const struct stni_loss_backward_attrs *attrs = call->attrs;
    const stn_tensor *out = call->out[0];
    struct stni_loss_args args = {.loss = (enum stni_loss)attrs->loss, .term = (enum stni_loss_term)attrs->term, .p = attrs->p,
                                  .compute = stni_compute_dtype(out->spec->layout.dtype), .total = call->in[STNI_LOSS_TOTAL]->data};
    stn_meta whole;
    if (out->spec->local_numel == 0)
        return STN_OK;
    STNI_TRY(stni_loss_check_operands(call, STNI_LOSS_TOTAL, &whole));
    stni_loss_args_make(call, STNI_LOSS_TOTAL, &whole, out, &args);
    return stn_op_launch(call, 0, out->spec->layout.dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 31 : 0;
}

/* With a cotangent h: of grad it is this op with h in grad's place; of input the op of the next derivative with h grad there. */
static stn_status backward(stn_backward_call *call)
{
    struct stni_loss_backward_attrs attrs = *(const struct stni_loss_backward_attrs *)call->attrs;
    stn_tensor *const *in = call->in, *h = call->grad_out[0];
    if (!h)
        return STN_OK;
    if (call->needs >> STNI_LOSS_GRAD & 1)
        call->grad_in[STNI_LOSS_GRAD] = stni_sum_to(stni_loss_backward_call(&attrs, in[0], in[1], in[2], h, in[4]), call->in_spec[STNI_LOSS_GRAD]);
    if (!(call->needs & 3) || attrs.term == STNI_LOSS_CURVATURE) /* which is constant almost everywhere */
        return stn_context_status(call->context);
    attrs.term = STNI_LOSS_CURVATURE;
    stn_tensor *curved = stni_loss_backward_call(&attrs, in[0], in[1], in[2], stn_mul(h, in[STNI_LOSS_GRAD]), in[4]);
    if (call->needs >> STNI_LOSS_INPUT & 1)
        call->grad_in[STNI_LOSS_INPUT] = stni_sum_to(curved, call->in_spec[STNI_LOSS_INPUT]);
    if (call->needs >> STNI_LOSS_TARGET & 1)
        call->grad_in[STNI_LOSS_TARGET] = stn_neg(stni_sum_to(curved, call->in_spec[STNI_LOSS_TARGET]));
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {
    [STNI_LOSS_INPUT] = {.name = "input"}, [STNI_LOSS_TARGET] = {.name = "target"}, [STNI_LOSS_WEIGHT] = {.name = "weight", .optional = 1},
    [STNI_LOSS_GRAD] = {.name = "grad"}, [STNI_LOSS_TOTAL] = {.name = "total"}};

static const stn_attr_schema attrs_schema[] = {
    {"loss", STN_ATTR_INT, offsetof(struct stni_loss_backward_attrs, loss), NULL},
    {"term", STN_ATTR_INT, offsetof(struct stni_loss_backward_attrs, term), NULL},
    {"p", STN_ATTR_FLOAT, offsetof(struct stni_loss_backward_attrs, p), NULL},
};

static const struct stni_loss_backward_attrs defaults = {STNI_LOSS_mse_loss, STNI_LOSS_SLOPE, 1};

static const stn_kernel_slot slots[] = {{"loss_backward.terms", sizeof(struct stni_loss_args)}};

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "loss_backward.terms", "cpu", STNI_LOSS_DTYPES, sizeof(struct stni_loss_args), stni_loss_cpu},
};

const stn_op_desc stni_op_loss_backward = {
    .size = sizeof(stn_op_desc),
    .name = "loss_backward",
    .inputs = inputs,
    .n_inputs = 5,
    .attrs = attrs_schema,
    .n_attrs = 3,
    .attrs_size = sizeof(struct stni_loss_backward_attrs),
    .attrs_init = &defaults,
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
