/* dist_all_reduction: what dist_all_reduce records once its ranks have agreed; differentiable under both conventions
 * of docs/gradients.md. */
#include "ops/dist/all_reduction.h"

#include "ops/common/call.h"
#include "ops/common/check.h"

#include <shardtensor/dist.h>
#include <shardtensor/ops.h>

#include <stddef.h>

static const stn_mesh *mesh_of(const stn_context *context, int64_t mesh)
{
    return context->shard.meshes[mesh];
}

stn_status stni_all_reduction_comm(stn_context *context, int64_t number, stn_comm **out)
{
    const stn_mesh *mesh = mesh_of(context, number);
    *out = NULL;
    return mesh->member ? stni_mesh_comm(mesh, (1u << mesh->ndim) - 1, out) : STN_OK;
}

static stn_status run(stn_op_call *call)
{
    const struct stni_all_reduction_attrs *attrs = call->attrs;
    stn_comm *comm;
    stn_tensor *dense;
    STNI_TRY(stni_all_reduction_comm(call->context, attrs->mesh, &comm));
    if (!comm)
        return stni_tensor_copy_elements(call->out[0], call->in[0]);
    STNI_TRY(stni_tensor_dense(call->in[0], &dense));
    stn_status status = stni_comm_all_reduce(comm, call->context->queue, dense->data, call->out[0]->data,
                                             dense->spec->numel, dense->spec->layout.dtype, (stn_reduce_op)attrs->op);
    stni_tensor_drop(&dense);
    return status;
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)needs; /* a collective's backward runs on every rank, whatever is needed */
    return stni_reduction_is_linear(((const struct stni_all_reduction_attrs *)call->attrs)->op) ? 0 : 1;
}

/* Under B the adjoint sums the cotangents of all ranks; under A each rank's own is already that of the one loss. The
 * ranks have agreed on this backward as a whole. */
static stn_tensor *arriving(const stn_backward_call *call)
{
    const struct stni_all_reduction_attrs *attrs = call->attrs;
    const struct stni_all_reduction_attrs sum = {attrs->mesh, STN_SUM, STN_GRAD_PER_RANK};
    if (attrs->convention == STN_GRAD_REPLICATED || !mesh_of(call->context, attrs->mesh)->member)
        return call->grad_out[0];
    return stni_call(STNI_OP_dist_all_reduction, 1, &call->grad_out[0], &sum);
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_all_reduction_attrs *attrs = call->attrs;
    return stni_all_reduction_backward(call, attrs->mesh, attrs->op, arriving);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_all_reduction_attrs, mesh), NULL},
    {"op", STN_ATTR_INT, offsetof(struct stni_all_reduction_attrs, op), NULL},
    {"convention", STN_ATTR_INT, offsetof(struct stni_all_reduction_attrs, convention), NULL},
};

static const stn_op_impl impl = {
    .check = stni_check_same, .place = stni_place_same, .run = run, .saves = saves, .backward = backward};

const stn_op_desc stni_op_dist_all_reduction = {
    .size = sizeof(stn_op_desc),
    .name = "dist_all_reduction",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_all_reduction_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK | STN_OP_INTERNAL,
    .impl = &impl,
};
