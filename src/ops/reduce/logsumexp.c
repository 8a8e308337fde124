/* logsumexp: y = log sum exp(x) = m + log sum exp(x - m) with the largest x for m.
 *
 * One pass over the input keeps m and the sum of each result. Ranks that share results reduce the first, bring their
 * sums about it, and add them up: two all-reduces of one f64 per result; a rank without elements brings -infinity
 * and 0. Results of 16-bit floats are f32 until they are rounded at the end, since gradients g exp(x - y) need the
 * digits of y. */
#include "core/base/dtype.h"
#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/cpu/widen.h"
#include "ops/elementwise/pointwise.h"
#include "ops/reduce/logsumexp_kernel.h"
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

enum { FORWARD, PARTS, SCALE, FINISH };

stn_tensor *stn_logsumexp(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_logsumexp, "logsumexp", input, n_dims, dims, keepdim);
}

static stn_status logsumexp(stn_op_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const stn_dtype dtype = call->in_spec[0]->layout.dtype;
    uint32_t reduced;
    STNI_TRY(stni_check_floating(call, 0));
    STNI_TRY(stni_dims_mask(call, "dim", &attrs->dim, call->in_spec[0]->layout.ndim, &reduced));
    call->out[0] = stn_cast(stni_call(STNI_OP_logsumexp_wide, 1, call->in, call->attrs), dtype);
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    STNI_TRY(stni_check_floating(call, 0));
    STNI_TRY(stni_reduction_check(call));
    call->out_meta[0].dtype = stni_wide_dtype(call->in_spec[0]->layout.dtype);
    return STN_OK;
}

static stn_status scratch(const stn_op_call *call, int64_t count, double **out)
{
    void *memory;
    STNI_TRY(stn_op_scratch(call, (size_t)count * sizeof(double), &memory));
    *out = memory;
    return STN_OK;
}

static stn_status run_shared(const stn_op_call *call, struct stni_logsumexp_args *args)
{
    stn_queue *queue = call->context->queue;
    const stn_dtype dtype = args->of.in_dtype;
    stn_comm *comm;
    STNI_TRY(stni_mesh_comm(call->out_spec[0]->layout.mesh, (uint32_t)call->note, &comm));
    STNI_TRY(scratch(call, args->count, &args->largest));
    STNI_TRY(scratch(call, args->count, &args->max));
    STNI_TRY(scratch(call, args->count, &args->sum));
    STNI_TRY(stn_op_launch(call, PARTS, dtype, args, sizeof *args));
    STNI_TRY(stni_comm_all_reduce(comm, queue, args->largest, args->max, args->count, STN_DTYPE_F64, STN_MAX));
    STNI_TRY(stn_op_launch(call, SCALE, dtype, args, sizeof *args));
    STNI_TRY(stni_comm_all_reduce(comm, queue, args->sum, args->sum, args->count, STN_DTYPE_F64, STN_SUM));
    return stn_op_launch(call, FINISH, dtype, args, sizeof *args);
}

static stn_status run(stn_op_call *call)
{
    struct stni_logsumexp_args args = {.count = call->out[0]->spec->local_numel};
    if (args.count == 0)
        return STN_OK;
    stni_reduction_args_make(call, call->attrs, STNI_REDUCTION_sum, &args.of);
    const int slot = call->note ? PARTS : FORWARD;
    const size_t bytes = stn_op_workspace(call, slot, args.of.in_dtype, &args);
    if (bytes > 0)
        STNI_TRY(stn_op_scratch(call, bytes, &args.of.workspace));
    return call->note ? run_shared(call, &args) : stn_op_launch(call, FORWARD, args.of.in_dtype, &args, sizeof args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? UINT64_C(1) << 32 | 1 : 0;
}

/* A tensor of the result's shape with the reduced dims in their places. */
static stn_tensor *with_dims(const stn_backward_call *call, stn_tensor *t)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const uint32_t reduced = stni_dims_mask_of(&attrs->dim, in->ndim);
    int64_t shape[STN_MAX_NDIM];
    for (int d = 0; d < in->ndim; d++)
        shape[d] = reduced >> d & 1 ? 1 : in->shape[d];
    return attrs->keepdim ? t : stn_view(t, in->ndim, shape);
}

static stn_status backward(stn_backward_call *call)
{
    if (!call->grad_out[0])
        return STN_OK;
    stn_tensor *in[] = {call->in[0], with_dims(call, call->out[0]), with_dims(call, call->grad_out[0])};
    call->grad_in[0] = stni_call(STNI_OP_logsumexp_backward, 3, in, NULL);
    return stn_context_status(call->context);
}

/* Derivatives of g exp(x - y). */

static stn_tensor *by_input(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, call->out[0]);
}

static stn_tensor *by_output(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_neg(stn_mul(grad, call->out[0]));
}

static stn_tensor *by_grad(const stn_backward_call *call, stn_tensor *grad)
{
    return stn_mul(grad, stn_exp(stn_sub(call->in[0], call->in[1])));
}

/* The input alone says which dtype the gradient has. */
static const struct stni_pointwise_rule backward_rule = {
    .op = STNI_POINTWISE_exp_of_difference,
    .dtypes = STNI_FLOATING,
    .promotes = 1,
    .derivative = {{by_input, STNI_READS_OUT},
                   {by_output, STNI_READS_OUT},
                   {by_grad, STNI_READS_IN(0) | STNI_READS_IN(1)}},
};

static const struct stni_reduction_rule rule = {.op = STNI_REDUCTION_sum};

static const stn_kernel_slot slots[] = {
    [FORWARD] = {"forward", sizeof(struct stni_logsumexp_args)},
    [PARTS] = {"parts", sizeof(struct stni_logsumexp_args)},
    [SCALE] = {"scale", sizeof(struct stni_logsumexp_args)},
    [FINISH] = {"finish", sizeof(struct stni_logsumexp_args)},
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", STNI_FLOATING, struct stni_logsumexp_args, stni_logsumexp_cpu, NULL),
    STNI_CPU_ROW("parts", STNI_FLOATING, struct stni_logsumexp_args, stni_logsumexp_parts_cpu, NULL),
    STNI_CPU_ROW("scale", STNI_FLOATING, struct stni_logsumexp_args, stni_logsumexp_scale_cpu, NULL),
    STNI_CPU_ROW("finish", STNI_FLOATING, struct stni_logsumexp_args, stni_logsumexp_finish_cpu, NULL),
};
static const stn_op_impl impl = {
    .check = check,
    .place = stni_reduction_place_joined,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};
static const stn_input_schema backward_inputs[] = {{"input", 0, 0}, {"output", 0, 0}, {"grad", 0, 0}};

const stn_op_desc stni_op_logsumexp = {
    .size = sizeof(stn_op_desc), .name = "logsumexp", STN_INPUTS(stni_reduction_inputs),
    STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs), .attrs_init = &stni_reduction_defaults,
    .n_outputs = 1, .impl = &(const stn_op_impl){.compose = logsumexp},
    .signature = "input, dim, keepdim=",
};

const stn_op_desc stni_op_logsumexp_wide = {
    .size = sizeof(stn_op_desc), .name = "logsumexp_wide", STN_INPUTS(stni_reduction_inputs),
    STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs), .attrs_init = &stni_reduction_defaults,
    .n_outputs = 1, .flags = STN_OP_INTERNAL, .impl = &impl, .arg = (void *)&rule,
};

const stn_op_desc stni_op_logsumexp_backward = {
    .size = sizeof(stn_op_desc),
    .name = "logsumexp_backward",
    STN_INPUTS(backward_inputs),
    STNI_POINTWISE(&backward_rule),
    .flags = STN_OP_INTERNAL,
};
