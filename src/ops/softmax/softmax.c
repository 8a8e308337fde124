/* softmax: y = exp(x - max) / sum exp(x - max) along a dim; log_softmax: x - max - log sum exp(x - max).
 *
 * A line that lies on one rank is one kernel. Where ranks share lines, the maximum and then the sum are all-reduced
 * over exactly those ranks; an empty chunk brings -inf and 0. The shifted form is that of Goodfellow, Bengio and
 * Courville 2016, section 4.1. */
#include "ops/softmax/softmax.h"

#include "ops/common/call.h"

#include <shardtensor/ops.h>

enum { FORWARD, MAX, SUM, SCALE };

stn_tensor *stn_softmax(stn_tensor *input, int dim)
{
    struct stni_softmax_attrs attrs = {dim};
    return stni_call(STNI_OP_softmax, 1, &input, &attrs);
}

stn_tensor *stn_log_softmax(stn_tensor *input, int dim)
{
    struct stni_softmax_attrs attrs = {dim};
    return stni_call(STNI_OP_log_softmax, 1, &input, &attrs);
}

static stn_status check(stn_op_call *call)
{
    return stni_softmax_check(call, 0);
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout layout = call->in_spec[0]->layout;
    stni_layout_reduce(&layout, 0);
    STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[0]));
    call->out_spec[0] = call->want[0];
    return STN_OK;
}

static stn_status run_shared(stn_op_call *call, stn_comm *comm, struct stni_softmax_args *args)
{
    STNI_TRY(stni_softmax_stat(call, args, &args->stat));
    STNI_TRY(stni_softmax_stat(call, args, &args->total));
    STNI_TRY(stn_op_launch(call, MAX, args->dtype, args, sizeof *args));
    STNI_TRY(stni_softmax_reduce_lines(call, comm, args->stat, args, STN_MAX));
    STNI_TRY(stn_op_launch(call, SUM, args->dtype, args, sizeof *args));
    STNI_TRY(stni_softmax_reduce_lines(call, comm, args->total, args, STN_SUM));
    return stn_op_launch(call, SCALE, args->dtype, args, sizeof *args);
}

static stn_status run(stn_op_call *call)
{
    stn_comm *comm;
    struct stni_softmax_args args;
    STNI_TRY(stni_softmax_comm(call, call->in[0]->spec, &comm));
    stni_softmax_args_make(call, call->in[0], NULL, call->out[0], &args);
    if (comm) /* an empty chunk takes part */
        return stni_lines_count(&args.lines) > 0 ? run_shared(call, comm, &args) : STN_OK;
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    return stn_op_launch(call, FORWARD, args.dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? UINT64_C(1) << 32 : 0;
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *in[] = {call->grad_out[0], call->out[0]};
    call->grad_in[0] = stni_call(((const struct stni_softmax_rule *)call->arg)->backward, 2, in, call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs[] = {{"dim", STN_ATTR_INT, offsetof(struct stni_softmax_attrs, dim), NULL}};
static const struct stni_softmax_attrs attrs_init = {-1};

static const struct stni_softmax_rule rule = {STNI_OP_softmax_backward, 0},
                                      log_rule = {STNI_OP_log_softmax_backward, 1};

static const stn_kernel_slot slots[] = {
    [FORWARD] = {"forward", sizeof(struct stni_softmax_args)},
    [MAX] = {"max", sizeof(struct stni_softmax_args)},
    [SUM] = {"sum", sizeof(struct stni_softmax_args)},
    [SCALE] = {"scale", sizeof(struct stni_softmax_args)},
};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("forward", STNI_SOFTMAX_DTYPES, struct stni_softmax_args, stni_softmax_forward, NULL),
    STNI_ISA_ROWS("max", STNI_SOFTMAX_DTYPES, struct stni_softmax_args, stni_softmax_max, NULL),
    STNI_ISA_ROWS("sum", STNI_SOFTMAX_DTYPES, struct stni_softmax_args, stni_softmax_sum, NULL),
    STNI_ISA_ROWS("scale", STNI_SOFTMAX_DTYPES, struct stni_softmax_args, stni_softmax_scale, NULL),
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

const stn_op_desc stni_op_softmax = {
    .size = sizeof(stn_op_desc), .name = "softmax", STN_INPUTS(inputs), STN_ATTRS(attrs, struct stni_softmax_attrs),
    .attrs_init = &attrs_init, .n_outputs = 1, .impl = &impl, .arg = (void *)&rule,
    .signature = "input, dim",
};

const stn_op_desc stni_op_log_softmax = {
    .size = sizeof(stn_op_desc), .name = "log_softmax", STN_INPUTS(inputs), STN_ATTRS(attrs, struct stni_softmax_attrs),
    .attrs_init = &attrs_init, .n_outputs = 1, .impl = &impl, .arg = (void *)&log_rule,
    .signature = "input, dim",
};
