/* conv2d_grad_weight: the adjoint of conv2d in its weight, weight[t] = sum over outputs of the input that tap t reads times grad. Partial(sum)
 * where the batch, rows or columns are cut. */
#include "ops/conv/conv.h"
#include "ops/conv/conv_kernel.h"
#include "ops/conv/solve.h"

#include <string.h>

stn_tensor *stni_conv2d_grad_weight(stn_tensor *x, stn_tensor *grad, const int64_t *weight_shape,
                                    const struct stni_conv_attrs *attrs)
{
    struct stni_conv_attrs own = *attrs;
    stn_tensor *in[] = {x, grad};
    own.size = (stn_ints){2, {weight_shape[2], weight_shape[3]}};
    return stni_call(STNI_OP_conv2d_grad_weight, 2, in, &own);
}

static stn_status check(stn_op_call *call)
{
    struct stni_conv conv;
    STNI_TRY(stni_conv_check_dtypes(call));
    STNI_TRY(stni_conv_of_grad_weight(call, 2, &conv));
    call->out_meta[0].dtype = call->in_spec[0]->layout.dtype;
    stni_conv_shape_weight(&conv, &call->out_meta[0]);
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_conv conv;
    struct stni_conv_labels labels;
    STNI_TRY(stni_conv_of_grad_weight(call, 2, &conv));
    stni_conv_label(&conv, &labels);
    struct stni_bilinear rule = {.in = {labels.x, labels.y}, .out = labels.weight, .leading = labels.windows};
    if (labels.group_label >= 0)
        rule.parts[labels.group_label] = conv.groups;
    return stni_bilinear_place(call, &rule);
}

static stn_status run(stn_op_call *call)
{
    struct stni_conv conv;
    STNI_TRY(stni_conv_of_grad_weight(call, 2, &conv));
    return stni_conv_solve(call, &conv, STNI_CONV_GRAD_WEIGHT, call->in[0], call->in[1], call->out[0], NULL);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs & 1 ? 2u : 0) | (needs & 2 ? 1u : 0);
}

static stn_status backward(stn_backward_call *call)
{
    const stn_spec *x = call->in_spec[0];
    stn_tensor *grad = call->grad_out[0];
    if (call->needs & 1)
        call->grad_in[0] = stni_conv2d_grad_input(call->in[1], grad, x->layout.shape, x->layout.ndim, call->attrs);
    if (call->needs & 2)
        call->grad_in[1] = stni_conv2d_forward(call->in[0], grad, call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "grad"}};

static const stn_kernel_slot slots[] = {
    [STNI_CONV_SOLVE] = {"conv2d_grad_weight.solve", sizeof(struct stni_conv_args)},
    [STNI_CONV_NARROW] = {"conv2d_grad_weight.narrow", sizeof(struct stni_conv_narrow_args)},
};

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "conv2d_grad_weight.solve", "cpu", STNI_CONV_DTYPES, sizeof(struct stni_conv_args), stni_conv_cpu},
    {sizeof(stn_kernel), "conv2d_grad_weight.narrow", "cpu", STNI_CONV_NARROW_DTYPES, sizeof(struct stni_conv_narrow_args),
     stni_conv_narrow_cpu},
};

const stn_op_desc stni_op_conv2d_grad_weight = {
    .size = sizeof(stn_op_desc),
    .name = "conv2d_grad_weight",
    .inputs = inputs,
    .n_inputs = 2,
    .attrs = stni_conv_grad_weight_attrs,
    .n_attrs = STNI_CONV_N_ATTRS + 1,
    .attrs_size = sizeof(struct stni_conv_attrs),
    .attrs_init = &stni_conv_attrs_init,
    .n_outputs = 1,
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    .slots = slots,
    .n_slots = 2,
    .kernels = kernels,
    .n_kernels = 2,
};
