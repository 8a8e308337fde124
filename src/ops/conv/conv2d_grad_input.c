/* conv2d_grad_input: the adjoint of conv2d in its input, x = sum over outputs that read it of grad weight.
 *
 * An element of the input gathers from every position that it stands at: its own, and those that the boundary gives it. */
#include "ops/conv/conv.h"
#include "ops/conv/conv_kernel.h"
#include "ops/conv/solve.h"

#include <string.h>

stn_tensor *stni_conv2d_grad_input(stn_tensor *grad, stn_tensor *weight, const int64_t *x_shape, int x_ndim,
                                   const struct stni_conv_attrs *attrs)
{
    struct stni_conv_attrs own = *attrs;
    stn_tensor *in[] = {grad, weight};
    own.size = (stn_ints){2, {x_shape[x_ndim - 2], x_shape[x_ndim - 1]}};
    return stni_call(STNI_OP_conv2d_grad_input, 2, in, &own);
}

static stn_status check(stn_op_call *call)
{
    struct stni_conv conv;
    STNI_TRY(stni_conv_check_dtypes(call));
    STNI_TRY(stni_conv_of_grad_input(call, 2, &conv));
    call->out_meta[0].dtype = call->in_spec[0]->layout.dtype;
    stni_conv_shape_x(&conv, &call->out_meta[0]);
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_conv conv;
    struct stni_conv_labels labels;
    STNI_TRY(stni_conv_of_grad_input(call, 2, &conv));
    stni_conv_label(&conv, &labels);
    struct stni_bilinear rule = {.in = {labels.y, labels.weight}, .out = labels.x};
    if (labels.group_label >= 0)
        rule.parts[labels.group_label] = conv.groups;
    return stni_bilinear_place(call, &rule);
}

static stn_status run(stn_op_call *call)
{
    struct stni_conv conv;
    STNI_TRY(stni_conv_of_grad_input(call, 2, &conv));
    return stni_conv_solve(call, &conv, STNI_CONV_GRAD_INPUT, call->out[0], call->in[0], call->in[1], NULL);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs & 1 ? 2u : 0) | (needs & 2 ? 1u : 0);
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *grad = call->grad_out[0];
    if (call->needs & 1)
        call->grad_in[0] = stni_conv2d_forward(grad, call->in[1], call->attrs);
    if (call->needs & 2)
        call->grad_in[1] = stni_conv2d_grad_weight(grad, call->in[0], call->in_spec[1]->layout.shape, call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "grad"}, {.name = "weight"}};

static const stn_kernel_slot slots[] = {
    [STNI_CONV_SOLVE] = {"conv2d_grad_input.solve", sizeof(struct stni_conv_args)},
    [STNI_CONV_ADD] = {"conv2d_grad_input.add", sizeof(struct stni_conv_add_args)},
};

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "conv2d_grad_input.solve", "cpu", STNI_CONV_DTYPES, sizeof(struct stni_conv_args), stni_conv_cpu},
    {sizeof(stn_kernel), "conv2d_grad_input.add", "cpu", STNI_CONV_DTYPES, sizeof(struct stni_conv_add_args), stni_conv_add_cpu},
};

const stn_op_desc stni_op_conv2d_grad_input = {
    .size = sizeof(stn_op_desc),
    .name = "conv2d_grad_input",
    .inputs = inputs,
    .n_inputs = 2,
    .attrs = stni_conv_grad_input_attrs,
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
