/* loss_backward: out = grad weight term / total, one pass, for the first derivatives of a loss and for the second
 * ones. It is linear in grad, so that its own backward is itself. Weights, and with them the total, have no
 * gradient. */
#include "core/tensor/tensor.h"
#include "ops/loss/loss.h"
#include "ops/common/call.h"
#include "ops/cpu/convert.h"
#include "ops/common/sum_to.h"

#include <shardtensor/ops.h>

static stn_tensor *call_term(const struct stni_loss_backward_attrs *attrs, stn_tensor *const in[STNI_LOSS_INPUTS])
{
    return stni_call(STNI_OP_loss_backward, STNI_LOSS_INPUTS, in, attrs);
}

static int of_difference(int64_t loss)
{
    return loss <= STNI_LOSS_LAST_OF_DIFFERENCE;
}

/* The derivative of a term by x, y or z (0, 1, 2); STNI_LOSS_TERMS: not among the terms. */
static int64_t derivative_of(int64_t term, int by)
{
    static const uint8_t of[STNI_LOSS_XX][3] = {[STNI_LOSS_VALUE] = {STNI_LOSS_X, STNI_LOSS_Y, STNI_LOSS_Z},
                                                [STNI_LOSS_X] = {STNI_LOSS_XX, STNI_LOSS_XY, STNI_LOSS_XZ},
                                                [STNI_LOSS_Y] = {STNI_LOSS_XY, STNI_LOSS_YY, STNI_LOSS_YZ},
                                                [STNI_LOSS_Z] = {STNI_LOSS_XZ, STNI_LOSS_YZ, STNI_LOSS_ZZ}};
    return term < STNI_LOSS_XX ? of[term][by] : STNI_LOSS_TERMS;
}

/* A function of x - y: the target's derivative is the input's with the other sign. */
static stn_status difference_gradients(const struct stni_loss_backward_attrs *attrs, stn_tensor *const *in,
                                       uint32_t wanted, const stn_spec *const *spec, stn_tensor **out)
{
    stn_tensor *grad = call_term(attrs, in);
    if (wanted >> STNI_LOSS_INPUT & 1)
        out[STNI_LOSS_INPUT] = stni_sum_to(grad, spec[STNI_LOSS_INPUT]);
    if (wanted >> STNI_LOSS_TARGET & 1)
        out[STNI_LOSS_TARGET] = stn_neg(stni_sum_to(grad, spec[STNI_LOSS_TARGET]));
    return STN_OK;
}

stn_status stni_loss_gradients(struct stni_loss_backward_attrs attrs, stn_tensor *const in[STNI_LOSS_INPUTS],
                               uint32_t wanted, const stn_spec *const *spec, stn_tensor **out)
{
    static const int inputs[] = {STNI_LOSS_INPUT, STNI_LOSS_TARGET, STNI_LOSS_EXTRA};
    const int64_t term = attrs.term;
    if (of_difference(attrs.loss) && wanted) {
        attrs.term = derivative_of(term, 0);
        return difference_gradients(&attrs, in, wanted, spec, out);
    }
    for (int by = 0; by < 3; by++) {
        const int i = inputs[by];
        attrs.term = derivative_of(term, by);
        if (wanted >> i & 1)
            out[i] = stni_sum_to(call_term(&attrs, in), spec[i]);
    }
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_loss_backward_attrs *attrs = call->attrs;
    const struct stni_layout *total = &call->in_spec[STNI_LOSS_TOTAL]->layout;
    if (attrs->loss < 0 || attrs->loss >= STNI_LOSS_COUNT || attrs->term < STNI_LOSS_X ||
        attrs->term >= STNI_LOSS_TERMS)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'loss' and 'term' got %d and %d, which is none", (int)attrs->loss,
                           (int)attrs->term);
    if (total->ndim != 0 || total->dtype != STN_DTYPE_F64)
        return stn_op_fail(call, STN_ERR_SHAPE, "'total' has %d dims and is %s, wanted a number of f64", total->ndim,
                           stn_dtype_name(total->dtype));
    return stni_loss_check_operands(call, STNI_LOSS_TOTAL, &call->out_meta[0]);
}

static stn_status place(stn_op_call *call)
{
    return stni_loss_place_operands(call, STNI_LOSS_INPUTS, &call->out_meta[0], &call->out_spec[0]);
}

static stn_status run(stn_op_call *call)
{
    const struct stni_loss_backward_attrs *attrs = call->attrs;
    const stn_tensor *out = call->out[0];
    struct stni_loss_args args = {.loss = (enum stni_loss)attrs->loss,
                                  .term = (enum stni_loss_term)attrs->term,
                                  .p = attrs->p,
                                  .q = attrs->q,
                                  .compute = stni_compute_dtype(out->spec->layout.dtype),
                                  .total = call->in[STNI_LOSS_TOTAL]->data};
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
    return needs ? (1u << STNI_LOSS_INPUTS) - 1 : 0;
}

/* With a cotangent h, the gradient of grad is this op with h in grad's place; those of the other inputs are this op
 * for the next derivative, with h times grad in grad's place. */
static stn_status backward(stn_backward_call *call)
{
    const struct stni_loss_backward_attrs *attrs = call->attrs;
    const uint32_t wanted = call->needs & (1u << STNI_LOSS_INPUT | 1u << STNI_LOSS_TARGET | 1u << STNI_LOSS_EXTRA);
    stn_tensor *in[STNI_LOSS_INPUTS], *h = call->grad_out[0];
    if (!h)
        return STN_OK;
    for (int i = 0; i < STNI_LOSS_INPUTS; i++)
        in[i] = call->in[i];
    in[STNI_LOSS_GRAD] = h;
    if (call->needs >> STNI_LOSS_GRAD & 1)
        call->grad_in[STNI_LOSS_GRAD] = stni_sum_to(call_term(attrs, in), call->in_spec[STNI_LOSS_GRAD]);
    if (!wanted)
        return stn_context_status(call->context);
    if (attrs->term >= STNI_LOSS_XX) {
        const stn_op_call as = {.size = sizeof as, .context = call->context, .op = call->op};
        if (of_difference(attrs->loss)) /* constant almost everywhere */
            return stn_context_status(call->context);
        return stn_op_fail(&as, STN_ERR_UNSUPPORTED,
                           "third derivatives of this loss were asked for, wanted at most second ones");
    }
    in[STNI_LOSS_GRAD] = stn_mul(h, call->in[STNI_LOSS_GRAD]);
    STNI_TRY(stni_loss_gradients(*attrs, in, wanted, call->in_spec, call->grad_in));
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {[STNI_LOSS_INPUT] = {.name = "input"},
                                          [STNI_LOSS_TARGET] = {.name = "target"},
                                          [STNI_LOSS_WEIGHT] = {.name = "weight", .optional = 1},
                                          [STNI_LOSS_EXTRA] = {.name = "extra", .optional = 1},
                                          [STNI_LOSS_GRAD] = {.name = "grad"},
                                          [STNI_LOSS_TOTAL] = {.name = "total"}};

static const stn_attr_schema attrs_schema[] = {
    {"loss", STN_ATTR_INT, offsetof(struct stni_loss_backward_attrs, loss), NULL},
    {"term", STN_ATTR_INT, offsetof(struct stni_loss_backward_attrs, term), NULL},
    {"p", STN_ATTR_FLOAT, offsetof(struct stni_loss_backward_attrs, p), NULL},
    {"q", STN_ATTR_FLOAT, offsetof(struct stni_loss_backward_attrs, q), NULL},
};

static const struct stni_loss_backward_attrs defaults = {STNI_LOSS_mse_loss, STNI_LOSS_X, 1, 0};

static const stn_kernel_slot slots[] = {{"terms", sizeof(struct stni_loss_args)}};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("terms", STNI_LOSS_DTYPES, struct stni_loss_args, stni_loss_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_loss_backward = {
    .size = sizeof(stn_op_desc),
    .name = "loss_backward",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_loss_backward_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
