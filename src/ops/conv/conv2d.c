/* conv2d: y = conv(input, weight) + bias.
 *
 * It is linear in the input and in the weight, and so are its two gradients in what they read: the three ops (conv2d, conv2d_grad_input,
 * conv2d_grad_weight) are each other's derivatives, which makes every order of derivative right. plan.h tells how a rank computes its
 * share where rows or columns are cut. */
#include "ops/conv/conv.h"
#include "ops/conv/conv_kernel.h"
#include "ops/conv/solve.h"

#include <shardtensor/ops.h>

#include <string.h>

/* Returns NULL, or the error tensor of what does not fit. */
static stn_tensor *read_attrs(stn_tensor *input, const stn_conv2d_attrs *given, struct stni_conv_attrs *attrs)
{
    if (given->size != sizeof *given)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "conv2d: attrs.size got %zu, wanted %zu", given->size, sizeof *given);
    attrs->stride.n = attrs->padding.n = attrs->dilation.n = 2;
    for (int d = 0; d < 2; d++) {
        attrs->stride.v[d] = given->stride[d] == 0 ? 1 : given->stride[d];
        attrs->padding.v[d] = given->padding[d];
        attrs->dilation.v[d] = given->dilation[d] == 0 ? 1 : given->dilation[d];
        if ((unsigned)given->mode[d] > STN_PADDING_CIRCULAR)
            return stni_call_fail(input, STN_ERR_ARGUMENT, "conv2d: attrs.mode got %d, wanted an stn_padding_mode", (int)given->mode[d]);
    }
    attrs->groups = given->groups == 0 ? 1 : given->groups;
    attrs->auto_padding = given->same ? STNI_CONV_PADDING_SAME : STNI_CONV_PADDING_GIVEN;
    attrs->mode = given->mode[0];
    attrs->last_mode = given->mode[1];
    return NULL;
}

stn_tensor *stn_conv2d(stn_tensor *input, stn_tensor *weight, stn_tensor *bias, const stn_conv2d_attrs *given)
{
    struct stni_conv_attrs attrs = stni_conv_attrs_init;
    stn_tensor *in[] = {input, weight, bias};
    if (given != NULL && !stn_tensor_is_error(input)) {
        stn_tensor *error = read_attrs(input, given, &attrs);
        if (error != NULL)
            return error;
    }
    return stni_call(STNI_OP_conv2d, 3, in, &attrs);
}

stn_tensor *stni_conv2d_forward(stn_tensor *x, stn_tensor *weight, const struct stni_conv_attrs *attrs)
{
    struct stni_conv_attrs own = *attrs;
    stn_tensor *in[] = {x, weight};
    own.size = stni_conv_attrs_init.size;
    return stni_call(STNI_OP_conv2d, 2, in, &own);
}

static stn_status check(stn_op_call *call)
{
    struct stni_conv conv;
    STNI_TRY(stni_conv_check_dtypes(call));
    STNI_TRY(stni_conv_of_forward(call, 2, &conv));
    call->out_meta[0].dtype = call->in_spec[0]->layout.dtype;
    stni_conv_shape_y(&conv, &call->out_meta[0]);
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_conv conv;
    struct stni_conv_labels labels;
    STNI_TRY(stni_conv_of_forward(call, 2, &conv));
    stni_conv_label(&conv, &labels);
    struct stni_bilinear rule = {.in = {labels.x, labels.weight}, .out = labels.y, .added = &labels.bias};
    if (labels.group_label >= 0)
        rule.parts[labels.group_label] = conv.groups;
    return stni_bilinear_place(call, &rule);
}

static stn_status run(stn_op_call *call)
{
    struct stni_conv conv;
    STNI_TRY(stni_conv_of_forward(call, 2, &conv));
    return stni_conv_solve(call, &conv, STNI_CONV_FORWARD, call->in[0], call->out[0], call->in[1], call->n_in > 2 ? call->in[2] : NULL);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs & 1 ? 2u : 0) | (needs & 2 ? 1u : 0);
}

static stn_status backward(stn_backward_call *call)
{
    const stn_spec *input = call->in_spec[0], *weight = call->in_spec[1];
    stn_tensor *grad = call->grad_out[0];
    if (call->needs & 1)
        call->grad_in[0] = stni_conv2d_grad_input(grad, call->in[1], input->layout.shape, input->layout.ndim, call->attrs);
    if (call->needs & 2)
        call->grad_in[1] = stni_conv2d_grad_weight(call->in[0], grad, weight->layout.shape, call->attrs);
    if (call->needs & 4) {
        /* All dims but the channels. */
        static const int batched[] = {0, 2, 3}, single[] = {1, 2};
        int is_batched = input->layout.ndim == 4;
        call->grad_in[2] = stn_sum(grad, is_batched ? 3 : 2, is_batched ? batched : single, 0);
    }
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "weight"}, {.name = "bias", .optional = 1}};

static const stn_kernel_slot slots[] = {[STNI_CONV_SOLVE] = {"conv2d.solve", sizeof(struct stni_conv_args)}};

static const stn_kernel kernels[] = {
    {sizeof(stn_kernel), "conv2d.solve", "cpu", STNI_CONV_DTYPES, sizeof(struct stni_conv_args), stni_conv_cpu},
};

const stn_op_desc stni_op_conv2d = {
    .size = sizeof(stn_op_desc),
    .name = "conv2d",
    .inputs = inputs,
    .n_inputs = 3,
    .attrs = stni_conv_grad_input_attrs, /* but for the size */
    .n_attrs = STNI_CONV_N_ATTRS,
    .attrs_size = sizeof(struct stni_conv_attrs),
    .attrs_init = &stni_conv_attrs_init,
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
