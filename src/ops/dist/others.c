/* dist_others: the derivative of a product or an extreme over ranks, from the summed cotangent and every rank's
 * value. Internal; its caller refuses it where a graph of the backward is made. */
#include "core/base/host_alloc.h"
#include "ops/common/check.h"
#include "ops/dist/all_reduction.h"
#include "ops/dist/all_reduce_kernel.h"
#include "ops/table.h"

#include <stddef.h>

static stn_status check(stn_op_call *call)
{
    call->out_meta[0] = stni_meta_of(&call->in_spec[1]->layout);
    return STN_OK;
}

/* Kernels read row-major memory. */
static stn_status place(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[1]->layout;
    STNI_TRY(stni_spec_local(call->context, in->dtype, in->ndim, in->shape, &call->out_spec[0]));
    call->want[0] = call->want[1] = call->out_spec[0];
    return STN_OK;
}

static stn_status gather(stn_op_call *call, stn_comm *comm, const stn_tensor *value, void **all)
{
    int p = stn_comm_size(comm);
    int64_t n = value->spec->numel;
    size_t size = stn_dtype_size(value->spec->layout.dtype);
    STNI_TRY(stn_op_scratch(call, (size_t)p * (size_t)n * size, all));
    int64_t *counts = stni_malloc((size_t)p * sizeof *counts);
    if (!counts)
        return stni_fail_memory(call->context, "counts", (size_t)p * sizeof *counts);
    for (int r = 0; r < p; r++)
        counts[r] = n;
    stn_status status =
        stni_comm_all_gather(comm, call->context->queue, value->data, *all, counts, value->spec->layout.dtype);
    stni_free(counts);
    return status;
}

static stn_status run(stn_op_call *call)
{
    const struct stni_others_attrs *attrs = call->attrs;
    stn_comm *comm;
    stn_tensor *grad, *value;
    STNI_TRY(stni_all_reduction_comm(call->context, attrs->mesh, &comm));
    STNI_TRY(stni_tensor_dense(call->in[0], &grad));
    stn_status status = stni_tensor_dense(call->in[1], &value);
    if (status == STN_OK) {
        void *all = value->data;
        if (comm)
            status = gather(call, comm, value, &all);
        struct stni_others_args args = {value->spec->layout.dtype,
                                        (stn_reduce_op)attrs->op,
                                        comm ? stn_comm_size(comm) : 1,
                                        comm ? stn_comm_rank(comm) : 0,
                                        value->spec->numel,
                                        grad->data,
                                        all,
                                        call->out[0]->data};
        if (status == STN_OK)
            status = stn_op_launch(call, 0, args.dtype, &args, sizeof args);
        stni_tensor_drop(&value);
    }
    stni_tensor_drop(&grad);
    return status;
}

enum { FLOATING = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

static const stn_input_schema inputs[] = {{.name = "grad"}, {.name = "input"}};
static const stn_attr_schema attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_others_attrs, mesh), NULL},
    {"op", STN_ATTR_INT, offsetof(struct stni_others_attrs, op), NULL},
};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_others_args)}};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("forward", FLOATING, struct stni_others_args, stni_others_cpu, NULL),
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(kernels)};

const stn_op_desc stni_op_dist_others = {
    .size = sizeof(stn_op_desc),
    .name = "dist_others",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_others_attrs),
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
