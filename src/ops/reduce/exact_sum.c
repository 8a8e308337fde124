/* exact_sum: the sum of the exact numbers, rounded once, so that neither the layout nor the order of additions can be
 * seen in it (contract 36).
 *
 * Each rank adds up its chunk in integers (exact_sum_kernel.h), ranks that share results add up theirs in one
 * all-reduce, and the result is rounded behind it. */
#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "dispatch/registry.h"
#include "dispatch/services.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/cpu/strided.h"
#include "ops/reduce/exact_sum.h"
#include "ops/reduce/reduction.h"

#include <shardtensor/ops.h>

enum { ADD, ROUND };

stn_tensor *stn_exact_sum(stn_tensor *input, int n_dims, const int *dims, int keepdim)
{
    return stni_reduction_call(STNI_OP_exact_sum, "exact_sum", input, n_dims, dims, keepdim);
}

static stn_status check(stn_op_call *call)
{
    STNI_TRY(stni_check_floating(call, 0));
    return stni_reduction_check(call);
}

stn_status stni_exact_sum_run(const stn_op_call *call, struct stni_exact_sum_args *args)
{
    const stn_op *op = call->context->registry->ops[STNI_OP_exact_sum];
    const int64_t words = args->count * stni_exact_words(args->dtype);
    stn_comm *comm;
    void *sums;
    STNI_TRY(stn_op_scratch(call, (size_t)words * sizeof(int64_t), &sums));
    args->sums = sums;
    STNI_TRY(stni_slot_launch(op, ADD, args->of.in_dtype, args, sizeof *args));
    if (call->note) {
        STNI_TRY(stni_mesh_comm(call->out_spec[0]->layout.mesh, (uint32_t)call->note, &comm));
        STNI_TRY(stni_comm_all_reduce(comm, call->context->queue, sums, sums, words, STN_DTYPE_I64, STN_SUM));
    }
    return stni_slot_launch(op, ROUND, args->of.out_dtype, args, sizeof *args);
}

stn_status stni_exact_squares_add(const stn_tensor *tensor, int64_t *sum)
{
    const stn_spec *spec = tensor->spec;
    struct stni_exact_sum_args args = {.of = {.in_dtype = spec->layout.dtype,
                                              .out_dtype = STN_DTYPE_F64,
                                              .in = tensor->data,
                                              .n_reduced = spec->layout.ndim},
                                       .dtype = STN_DTYPE_F64,
                                       .sums = sum,
                                       .count = 1,
                                       .squares = 1,
                                       .goes_on = 1};
    if (spec->local_numel == 0)
        return STN_OK;
    for (int d = 0; d < spec->layout.ndim; d++) {
        args.of.reduced[d] = spec->local_shape[d];
        args.of.reduced_in[d] = tensor->strides[d];
    }
    args.of.n_reduced = stni_merge_dims(args.of.n_reduced, args.of.reduced, 1, (int64_t *[]){args.of.reduced_in});
    return stni_slot_launch(tensor->context->registry->ops[STNI_OP_exact_sum], ADD, args.of.in_dtype, &args,
                            sizeof args);
}

stn_status stni_exact_squares_round(stn_context *context, int64_t *sum, double *out)
{
    const struct stni_exact_sum_args args = {.of = {.in_dtype = STN_DTYPE_F64, .out_dtype = STN_DTYPE_F64, .out = out},
                                             .dtype = STN_DTYPE_F64, .sums = sum, .count = 1, .step = 1};
    return stni_slot_launch(context->registry->ops[STNI_OP_exact_sum], ROUND, STN_DTYPE_F64, &args, sizeof args);
}

static stn_dtype real_of(stn_dtype dtype)
{
    return dtype == STN_DTYPE_C64 ? STN_DTYPE_F32 : dtype == STN_DTYPE_C128 ? STN_DTYPE_F64 : dtype;
}

/* Every second real of both sides. */
static void take_parts(struct stni_exact_sum_args *args)
{
    struct stni_reduce_args *of = &args->of;
    of->in_dtype = of->out_dtype = args->dtype;
    args->step = 2;
    for (int d = 0; d < of->n_kept; d++)
        of->kept_in[d] *= 2;
    for (int d = 0; d < of->n_reduced; d++)
        of->reduced_in[d] *= 2;
}

stn_status stni_exact_sum_reduce(const stn_op_call *call, const struct stni_reduce_args *of)
{
    const stn_dtype dtype = of->in_dtype, real = real_of(dtype);
    struct stni_exact_sum_args args = {.of = *of, .dtype = real, .count = call->out[0]->spec->local_numel, .step = 1};
    if (real == dtype)
        return stni_exact_sum_run(call, &args);
    take_parts(&args);
    for (int part = 0; part < 2; part++) {
        args.of.in = (const char *)of->in + (of->in != NULL ? (size_t)part * stn_dtype_size(real) : 0);
        args.of.out = (char *)of->out + (size_t)part * stn_dtype_size(real);
        STNI_TRY(stni_exact_sum_run(call, &args));
    }
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    struct stni_reduce_args of;
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    stni_reduction_args_make(call, call->attrs, STNI_REDUCTION_sum, &of);
    return stni_exact_sum_reduce(call, &of);
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const stn_spec *in = call->in_spec[0];
    if (call->grad_out[0])
        call->grad_in[0] = stni_reduction_expand(call->grad_out[0], in, stni_dims_mask_of(&attrs->dim, in->layout.ndim),
                                                 attrs->keepdim);
    return stn_context_status(call->context);
}

enum { DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

static const stn_kernel_slot slots[] = {[ADD] = {"add", sizeof(struct stni_exact_sum_args)},
                                        [ROUND] = {"round", sizeof(struct stni_exact_sum_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("add", DTYPES, struct stni_exact_sum_args, stni_exact_sum_add_cpu, NULL),
    STNI_CPU_ROW("round", DTYPES, struct stni_exact_sum_args, stni_exact_sum_round_cpu, NULL),
};
static const stn_op_impl impl = {
    .check = check,
    .place = stni_reduction_place_joined,
    .run = run,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

static const struct stni_reduction_rule rule = {.op = STNI_REDUCTION_sum};

const stn_op_desc stni_op_exact_sum = {
    .size = sizeof(stn_op_desc), .name = "exact_sum", STN_INPUTS(stni_reduction_inputs),
    STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs), .attrs_init = &stni_reduction_defaults,
    .n_outputs = 1, .impl = &impl, .arg = (void *)&rule,
};
