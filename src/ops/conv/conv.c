/* The functions that the ops of the family share, and their descriptors. plan.h tells how a rank computes its share
 * where windowed dims are sharded. */
#include "ops/conv/conv.h"

#include "ops/conv/conv_kernel.h"
#include "ops/conv/conv_labels.h"
#include "ops/conv/conv_solve.h"
#include "ops/elementwise/pointwise.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <stddef.h>

const struct stni_conv_roles stni_conv_roles[] = {
    [STNI_CONV_FORWARD] = {{STNI_CONV_X, STNI_CONV_WEIGHT}, STNI_CONV_Y},
    [STNI_CONV_GRAD_INPUT] = {{STNI_CONV_Y, STNI_CONV_WEIGHT}, STNI_CONV_X},
    [STNI_CONV_GRAD_WEIGHT] = {{STNI_CONV_X, STNI_CONV_Y}, STNI_CONV_WEIGHT},
};

const struct stni_conv_attrs stni_conv_attrs_init = {.stride = {.n = -1},
                                                     .padding = {.n = -1},
                                                     .dilation = {.n = -1},
                                                     .output_padding = {.n = -1},
                                                     .size = {.n = -1},
                                                     .groups = 1,
                                                     .dim_mode = {-1, -1, -1}};

/* The rows of each schema follow one another in one table. */
static const char *const paddings[] = {"given", "valid", "same", NULL};
#define ROW(name, type, field, choices) {#name, STN_ATTR_##type, offsetof(struct stni_conv_attrs, field), choices}

static const stn_attr_schema forward_schema[] = {
    ROW(padding, CHOICE, auto_padding, paddings), ROW(padding_mode, CHOICE, mode, stni_conv_modes),
    ROW(last_padding_mode, CHOICE, dim_mode, stni_conv_modes), ROW(stride, INTS, stride, NULL),
    ROW(padding, INTS, padding, NULL), ROW(dilation, INTS, dilation, NULL), ROW(groups, INT, groups, NULL),
};
static const stn_attr_schema transpose_schema[] = {
    ROW(stride, INTS, stride, NULL), ROW(padding, INTS, padding, NULL), ROW(dilation, INTS, dilation, NULL),
    ROW(groups, INT, groups, NULL), ROW(output_padding, INTS, output_padding, NULL),
};
static const stn_attr_schema grad_input_schema[] = {
    ROW(padding, CHOICE, auto_padding, paddings), ROW(padding_mode, CHOICE, mode, stni_conv_modes),
    ROW(last_padding_mode, CHOICE, dim_mode, stni_conv_modes), ROW(stride, INTS, stride, NULL),
    ROW(padding, INTS, padding, NULL), ROW(dilation, INTS, dilation, NULL), ROW(groups, INT, groups, NULL),
    ROW(output_padding, INTS, output_padding, NULL), ROW(input_size, INTS, size, NULL),
};
static const stn_attr_schema grad_weight_schema[] = {
    ROW(kernel_size, INTS, size, NULL), ROW(padding, CHOICE, auto_padding, paddings),
    ROW(padding_mode, CHOICE, mode, stni_conv_modes), ROW(last_padding_mode, CHOICE, dim_mode, stni_conv_modes),
    ROW(stride, INTS, stride, NULL), ROW(padding, INTS, padding, NULL), ROW(dilation, INTS, dilation, NULL),
    ROW(groups, INT, groups, NULL), ROW(output_padding, INTS, output_padding, NULL),
};

static const struct stni_conv_roles *roles_of(const void *rule)
{
    return &stni_conv_roles[((const struct stni_conv_rule *)rule)->kind];
}

static stn_status check(stn_op_call *call)
{
    struct stni_conv conv;
    STNI_TRY(stni_conv_check_dtypes(call));
    STNI_TRY(stni_conv_read(call, &conv));
    call->out_meta[0].dtype = call->in_spec[0]->layout.dtype;
    stni_conv_shape(&conv, roles_of(call->arg)->out, &call->out_meta[0]);
    return STN_OK;
}

static stn_status read(const stn_op_call *call, struct stni_conv *conv)
{
    STNI_TRY(stni_conv_read(call, conv));
    conv->joins = call->context->joins_halos;
    return STN_OK;
}

/* In the gradient by the weight the windowed dims are sharded as x is. `run` is told of the memory order. */
static stn_status place(stn_op_call *call)
{
    const struct stni_conv_roles *roles = roles_of(call->arg);
    struct stni_conv conv;
    struct stni_conv_labels labels;
    STNI_TRY(read(call, &conv));
    call->note = (uint64_t)(conv.row_major = stni_conv_wants_row_major(call));
    stni_conv_label(&conv, &labels);
    if (stni_conv_copies_source(call, &conv))
        labels.of[roles->in[0]].memory_order = NULL;
    struct stni_bilinear rule = {.in = {labels.of[roles->in[0]], labels.of[roles->in[1]]}, .out = labels.of[roles->out],
                                 .leading = roles->out == STNI_CONV_WEIGHT ? labels.windows : 0};
    const struct stni_labels bias = stni_conv_label_bias(&conv, &rule.out);
    rule.added = &bias;
    if (labels.group_label >= 0)
        rule.parts[labels.group_label] = conv.groups;
    return stni_bilinear_place(call, &rule);
}

static stn_status run(stn_op_call *call)
{
    const struct stni_conv_roles *roles = roles_of(call->arg);
    struct stni_conv conv;
    stn_tensor *t[STNI_CONV_ROLES];
    STNI_TRY(read(call, &conv));
    conv.row_major = (int)call->note;
    t[roles->in[0]] = call->in[0], t[roles->in[1]] = call->in[1], t[roles->out] = call->out[0];
    return stni_conv_solve(call, &conv, t[STNI_CONV_X], t[STNI_CONV_Y], t[STNI_CONV_WEIGHT],
                           call->n_in > 2 ? call->in[2] : NULL);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return (needs & 1 ? 2u : 0) | (needs & 2 ? 1u : 0);
}

/* One of the three, of the shape of `like`, from the other two. */
static stn_tensor *derive(const struct stni_conv_rule *rule, const struct stni_conv_attrs *attrs,
                          enum stni_conv_role wanted, const struct stni_layout *like, stn_tensor *const *t)
{
    static const enum stni_op_index ops[][STNI_CONV_MAX_DIMS] = {
        [STNI_CONV_Y] = {STNI_OP_conv1d, STNI_OP_conv2d, STNI_OP_conv3d},
        [STNI_CONV_X] = {STNI_OP_conv1d_grad_input, STNI_OP_conv2d_grad_input, STNI_OP_conv3d_grad_input},
        [STNI_CONV_WEIGHT] = {STNI_OP_conv1d_grad_weight, STNI_OP_conv2d_grad_weight, STNI_OP_conv3d_grad_weight}};
    struct stni_conv_attrs own = *attrs;
    const struct stni_conv_roles *roles = &stni_conv_roles[wanted];
    stn_tensor *in[] = {t[roles->in[0]], t[roles->in[1]]};
    own.size = stni_conv_attrs_init.size;
    if (wanted != STNI_CONV_Y)
        own.size.n = rule->dims;
    for (int d = 0; d < own.size.n; d++)
        own.size.v[d] = like->shape[like->ndim - rule->dims + d];
    return stni_call(ops[wanted][rule->dims - 1], 2, in, &own);
}

/* All dims but the channels. */
static stn_tensor *sum_to_channels(stn_tensor *grad, int ndim, int dims)
{
    int over[STN_MAX_NDIM], n = 0, channel = ndim - dims - 1;
    for (int d = 0; d < ndim; d++)
        if (d != channel)
            over[n++] = d;
    return stn_sum(grad, n, over, 0);
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_conv_rule *rule = call->arg;
    const struct stni_conv_roles *roles = roles_of(rule);
    for (int i = 0; i < 2; i++) {
        stn_tensor *t[STNI_CONV_ROLES];
        if (!(call->needs >> i & 1))
            continue;
        t[roles->out] = call->grad_out[0];
        t[roles->in[1 - i]] = stni_conjugate(call->in[1 - i]);
        call->grad_in[i] = derive(rule, call->attrs, roles->in[i], &call->in_spec[i]->layout, t);
    }
    if (call->needs & 4)
        call->grad_in[2] = sum_to_channels(call->grad_out[0], call->out_spec[0]->layout.ndim, rule->dims);
    return stn_context_status(call->context);
}

/* The bias and, of the gradients, no third input. */
static const stn_input_schema forward_inputs[] = {
    {.name = "input"}, {.name = "weight"}, {.name = "bias", .optional = 1}};
static const stn_input_schema grad_input_inputs[] = {{.name = "grad"}, {.name = "weight"}};
static const stn_input_schema grad_weight_inputs[] = {{.name = "input"}, {.name = "grad"}};

/* What solves problems, and what is done beside it. */
static const stn_kernel_slot slots[] = {
    [STNI_CONV_SOLVE] = {"solve", sizeof(struct stni_conv_args)},
    [STNI_CONV_ADD] = {"add", sizeof(struct stni_conv_add_args)},
    [STNI_CONV_NARROW] = {"narrow", sizeof(struct stni_conv_narrow_args)},
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("solve", STNI_CONV_DTYPES, struct stni_conv_args, stni_conv_cpu, stni_conv_cpu_workspace),
    STNI_CPU_ROW("add", STNI_CONV_DTYPES, struct stni_conv_add_args, stni_conv_add_cpu, NULL),
    STNI_CPU_ROW("narrow", STNI_CONV_NARROW_DTYPES, struct stni_conv_narrow_args, stni_conv_narrow_cpu, NULL),
};
static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_conv1d = {
    .size = sizeof(stn_op_desc), .name = "conv1d", STN_INPUTS(forward_inputs),
    STN_ATTRS(forward_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){1, STNI_CONV_FORWARD, 0},
    .signature = "input, weight, bias=, stride=1, padding=0, dilation=1, groups=, *, padding_mode=, last_padding_mode=",
};

const stn_op_desc stni_op_conv2d = {
    .size = sizeof(stn_op_desc), .name = "conv2d", STN_INPUTS(forward_inputs),
    STN_ATTRS(forward_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){2, STNI_CONV_FORWARD, 0},
    .signature = "input, weight, bias=, stride=1, padding=0, dilation=1, groups=, *, padding_mode=, last_padding_mode=",
};

const stn_op_desc stni_op_conv3d = {
    .size = sizeof(stn_op_desc), .name = "conv3d", STN_INPUTS(forward_inputs),
    STN_ATTRS(forward_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){3, STNI_CONV_FORWARD, 0},
    .signature = "input, weight, bias=, stride=1, padding=0, dilation=1, groups=, *, padding_mode=, last_padding_mode=",
};

const stn_op_desc stni_op_conv_transpose1d = {
    .size = sizeof(stn_op_desc), .name = "conv_transpose1d", STN_INPUTS(forward_inputs),
    STN_ATTRS(transpose_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){1, STNI_CONV_GRAD_INPUT, 1},
    .signature = "input, weight, bias=, stride=1, padding=0, output_padding=0, groups=, dilation=1",
};

const stn_op_desc stni_op_conv_transpose2d = {
    .size = sizeof(stn_op_desc), .name = "conv_transpose2d", STN_INPUTS(forward_inputs),
    STN_ATTRS(transpose_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){2, STNI_CONV_GRAD_INPUT, 1},
    .signature = "input, weight, bias=, stride=1, padding=0, output_padding=0, groups=, dilation=1",
};

const stn_op_desc stni_op_conv_transpose3d = {
    .size = sizeof(stn_op_desc), .name = "conv_transpose3d", STN_INPUTS(forward_inputs),
    STN_ATTRS(transpose_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){3, STNI_CONV_GRAD_INPUT, 1},
    .signature = "input, weight, bias=, stride=1, padding=0, output_padding=0, groups=, dilation=1",
};

const stn_op_desc stni_op_conv1d_grad_input = {
    .size = sizeof(stn_op_desc), .name = "conv1d_grad_input", STN_INPUTS(grad_input_inputs),
    STN_ATTRS(grad_input_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){1, STNI_CONV_GRAD_INPUT, 0}, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_conv2d_grad_input = {
    .size = sizeof(stn_op_desc), .name = "conv2d_grad_input", STN_INPUTS(grad_input_inputs),
    STN_ATTRS(grad_input_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){2, STNI_CONV_GRAD_INPUT, 0}, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_conv3d_grad_input = {
    .size = sizeof(stn_op_desc), .name = "conv3d_grad_input", STN_INPUTS(grad_input_inputs),
    STN_ATTRS(grad_input_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){3, STNI_CONV_GRAD_INPUT, 0}, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_conv1d_grad_weight = {
    .size = sizeof(stn_op_desc), .name = "conv1d_grad_weight", STN_INPUTS(grad_weight_inputs),
    STN_ATTRS(grad_weight_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){1, STNI_CONV_GRAD_WEIGHT, 0}, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_conv2d_grad_weight = {
    .size = sizeof(stn_op_desc), .name = "conv2d_grad_weight", STN_INPUTS(grad_weight_inputs),
    STN_ATTRS(grad_weight_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){2, STNI_CONV_GRAD_WEIGHT, 0}, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_conv3d_grad_weight = {
    .size = sizeof(stn_op_desc), .name = "conv3d_grad_weight", STN_INPUTS(grad_weight_inputs),
    STN_ATTRS(grad_weight_schema, struct stni_conv_attrs), .attrs_init = &stni_conv_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&(const struct stni_conv_rule){3, STNI_CONV_GRAD_WEIGHT, 0}, .flags = STN_OP_INTERNAL,
};
