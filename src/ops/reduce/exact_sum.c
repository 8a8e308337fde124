/* exact_sum: the sum of the exact numbers, rounded once, so that neither the layout nor the order of additions can be seen in it (contract 36).
 *
 * Each rank adds up its chunk in integers (exact_sum_kernel.h), ranks that share results add up theirs in one all-reduce, and the result is rounded
 * behind it. */
#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/reduce/exact_sum_kernel.h"
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

static stn_status run(stn_op_call *call)
{
    struct stni_exact_sum_args args = {.count = call->out[0]->spec->local_numel};
    const stn_dtype dtype = call->out_spec[0]->layout.dtype;
    const int64_t words = args.count * stni_exact_words(dtype);
    stn_comm *comm;
    void *sums;
    if (args.count == 0)
        return STN_OK;
    stni_reduction_args_make(call, call->attrs, STNI_REDUCTION_sum, &args.of);
    STNI_TRY(stn_op_scratch(call, (size_t)words * sizeof(int64_t), &sums));
    args.sums = sums;
    STNI_TRY(stn_op_launch(call, ADD, dtype, &args, sizeof args));
    if (call->note) {
        STNI_TRY(stni_mesh_comm(call->out_spec[0]->layout.mesh, (uint32_t)call->note, &comm));
        STNI_TRY(stni_comm_all_reduce(comm, call->context->queue, sums, sums, words, STN_DTYPE_I64, STN_SUM));
    }
    return stn_op_launch(call, ROUND, dtype, &args, sizeof args);
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_reduction_attrs *attrs = call->attrs;
    const stn_spec *in = call->in_spec[0];
    if (call->grad_out[0])
        call->grad_in[0] = stni_reduction_expand(call->grad_out[0], in, stni_dims_mask_of(&attrs->dim, in->layout.ndim), attrs->keepdim);
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
    .check = check, .place = stni_reduction_place_joined, .run = run, .backward = backward, STN_SLOTS(slots), STN_KERNELS(kernels),
};

static const struct stni_reduction_rule rule = {.op = STNI_REDUCTION_sum};

const stn_op_desc stni_op_exact_sum = {
    .size = sizeof(stn_op_desc), .name = "exact_sum", STN_INPUTS(stni_reduction_inputs),
    STN_ATTRS(stni_reduction_attrs_schema, struct stni_reduction_attrs), .attrs_init = &stni_reduction_defaults,
    .n_outputs = 1, .impl = &impl, .arg = (void *)&rule,
};
