/* softmax_backward: the gradient of softmax from its output, y (g - sum g y) along the dim; log_softmax_backward: g
 * - exp(y) sum g. They are ops of their own, so that the first backward is one kernel (plus one all-reduce of a
 * number per line where ranks share lines), while the double backward is composed of other ops. */
#include "ops/softmax/softmax.h"

#include "ops/common/call.h"
#include "ops/common/check.h"

#include <shardtensor/ops.h>

enum { BACKWARD, DOT, APPLY };
enum { GRAD, OUTPUT };

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *output = &call->in_spec[OUTPUT]->layout;
    STNI_TRY(stni_softmax_check(call, OUTPUT));
    STNI_TRY(stni_check_dtype(call, GRAD, output->dtype, "output's"));
    return stni_check_shape(call, GRAD, output->ndim, output->shape, "output's");
}

/* The output's layout; the cotangent's where only that is sharded, since taking a chunk of a replica moves nothing. */
static stn_status place(stn_op_call *call)
{
    const stn_spec *grad = call->in_spec[GRAD], *output = call->in_spec[OUTPUT];
    int follow_grad = !output->shard_axes && !output->partial_axes && !grad->partial_axes;
    struct stni_layout layout = follow_grad ? grad->layout : output->layout;
    stni_layout_reduce(&layout, 0);
    STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[OUTPUT]));
    call->want[GRAD] = call->out_spec[0] = call->want[OUTPUT];
    return STN_OK;
}

static stn_status run_shared(stn_op_call *call, stn_comm *comm, struct stni_softmax_args *args)
{
    STNI_TRY(stni_softmax_stat(call, args, &args->stat));
    STNI_TRY(stn_op_launch(call, DOT, args->dtype, args, sizeof *args));
    STNI_TRY(stni_softmax_reduce_lines(call, comm, args->stat, args, STN_SUM));
    return stn_op_launch(call, APPLY, args->dtype, args, sizeof *args);
}

static stn_status run(stn_op_call *call)
{
    stn_comm *comm;
    struct stni_softmax_args args;
    STNI_TRY(stni_softmax_comm(call, call->in[GRAD]->spec, &comm));
    stni_softmax_args_make(call, call->in[GRAD], call->in[OUTPUT], call->out[0], &args);
    if (comm) /* an empty chunk takes part */
        return stni_lines_count(&args.lines) > 0 ? run_shared(call, comm, &args) : STN_OK;
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    return stn_op_launch(call, BACKWARD, args.dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << GRAD | 1u << OUTPUT : 0;
}

/* With r = y (g - s), s = sum g y, and a cotangent h: the gradient of g is y (h - t), t = sum h y, which is this op
 * again; that of y is h (g - s) - g t. */
static stn_status backward(stn_backward_call *call)
{
    stn_tensor *h = call->grad_out[0], *g = call->in[GRAD], *y = call->in[OUTPUT];
    if (!h)
        return STN_OK;
    const struct stni_softmax_attrs *attrs = call->attrs;
    if (call->needs >> GRAD & 1) {
        stn_tensor *in[] = {h, y};
        call->grad_in[GRAD] = stni_call(STNI_OP_softmax_backward, 2, in, attrs);
    }
    if (call->needs >> OUTPUT & 1) {
        int dim = (int)attrs->dim, n_dims = stn_tensor_ndim(y) > 0;
        stn_tensor *s = stn_sum(stn_mul(g, y), n_dims, &dim, 1), *t = stn_sum(stn_mul(h, y), n_dims, &dim, 1);
        call->grad_in[OUTPUT] = stn_add_scaled(stn_mul(h, stn_add_scaled(g, s, -1)), stn_mul(g, t), -1);
    }
    return stn_context_status(call->context);
}

/* With r = g - p s, p = exp(y), s = sum g, and a cotangent h: the gradient of g is h - sum h p, that of y is -h p s. */
static stn_status log_backward(stn_backward_call *call)
{
    stn_tensor *h = call->grad_out[0];
    if (!h)
        return STN_OK;
    const int dim = (int)((const struct stni_softmax_attrs *)call->attrs)->dim,
              n_dims = call->in_spec[GRAD]->layout.ndim > 0;
    stn_tensor *hp = stn_mul(h, stn_exp(call->in[OUTPUT]));
    if (call->needs >> GRAD & 1)
        call->grad_in[GRAD] = stn_sub(h, stn_sum(hp, n_dims, &dim, 1));
    if (call->needs >> OUTPUT & 1)
        call->grad_in[OUTPUT] = stn_mul_number(stn_mul(hp, stn_sum(call->in[GRAD], n_dims, &dim, 1)), -1);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {[GRAD] = {.name = "grad"}, [OUTPUT] = {.name = "output"}};
static const stn_attr_schema attrs[] = {{"dim", STN_ATTR_INT, offsetof(struct stni_softmax_attrs, dim), NULL}};
static const struct stni_softmax_attrs attrs_init = {-1};

static const struct stni_softmax_rule rule = {.logarithm = 0}, log_rule = {.logarithm = 1};

static const stn_kernel_slot slots[] = {
    [BACKWARD] = {"forward", sizeof(struct stni_softmax_args)},
    [DOT] = {"dot", sizeof(struct stni_softmax_args)},
    [APPLY] = {"apply", sizeof(struct stni_softmax_args)},
};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("forward", STNI_SOFTMAX_DTYPES, struct stni_softmax_args, stni_softmax_backward, NULL),
    STNI_ISA_ROWS("dot", STNI_SOFTMAX_DTYPES, struct stni_softmax_args, stni_softmax_dot, NULL),
    STNI_ISA_ROWS("apply", STNI_SOFTMAX_DTYPES, struct stni_softmax_args, stni_softmax_apply, NULL),
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
static const stn_op_impl log_impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = log_backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_softmax_backward = {
    .size = sizeof(stn_op_desc), .name = "softmax_backward", STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_softmax_attrs), .attrs_init = &attrs_init, .n_outputs = 1, .impl = &impl,
    .arg = (void *)&rule, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_log_softmax_backward = {
    .size = sizeof(stn_op_desc), .name = "log_softmax_backward", STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_softmax_attrs), .attrs_init = &attrs_init, .n_outputs = 1, .impl = &log_impl,
    .arg = (void *)&log_rule, .flags = STN_OP_INTERNAL,
};
