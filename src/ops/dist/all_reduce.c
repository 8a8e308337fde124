/* dist_all_reduce: a reduction over ranks of local tensors, differentiable under both conventions of docs/gradients.md. */
#include "ops/dist/all_reduce.h"

#include "core/base/dtype.h"
#include "ops/common/call.h"

#include <shardtensor/dist.h>
#include <shardtensor/ops.h>

#include <stddef.h>

stn_tensor *stn_dist_all_reduce(stn_tensor *input, const stn_mesh *mesh, stn_reduce_op op, stn_grad_convention convention)
{
    if (!mesh || mesh->context != stn_tensor_context(input))
        return stni_call_fail(input, STN_ERR_ARGUMENT, "dist_all_reduce: mesh is %s, wanted one of the input's context",
                              mesh ? "another context's" : "NULL");
    struct stni_all_reduce_attrs attrs = {mesh->id, op, convention};
    return stni_call(STNI_OP_dist_all_reduce, 1, &input, &attrs);
}

const stn_mesh *stni_all_reduce_mesh(const stn_context *context, const struct stni_all_reduce_attrs *attrs)
{
    int64_t id = attrs->mesh;
    return id >= 0 && id < context->shard.n_meshes ? context->shard.meshes[id] : NULL;
}

stn_status stni_all_reduce_comm(stn_context *context, const struct stni_all_reduce_attrs *attrs, stn_comm **out)
{
    const stn_mesh *mesh = stni_all_reduce_mesh(context, attrs);
    *out = NULL;
    return mesh->member ? stni_mesh_comm(mesh, stni_all_axes(mesh), out) : STN_OK;
}

static int can_combine(stn_dtype dtype, stn_reduce_op op)
{
    if (stni_dtype_is_complex(dtype))
        return op == STN_SUM || op == STN_AVG;
    return op != STN_AVG || stni_dtype_is_floating(dtype);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_all_reduce_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    if (in->mesh)
        return stn_op_fail(call, STN_ERR_LAYOUT, "input is on a mesh, wanted a local tensor; a sharded one is reduced by its placements");
    if (!stni_all_reduce_mesh(call->context, attrs))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "mesh got %lld, wanted the number of a mesh of this context", (long long)attrs->mesh);
    if (attrs->op < 0 || attrs->op >= STN_REDUCE_OP_COUNT || attrs->convention < 0 || attrs->convention > STN_GRAD_REPLICATED)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "op %lld or convention %lld is none", (long long)attrs->op, (long long)attrs->convention);
    if (!can_combine(in->dtype, (stn_reduce_op)attrs->op))
        return stn_op_fail(call, STN_ERR_DTYPE, "%s cannot be combined this way", stn_dtype_name(in->dtype));
    call->out_meta[0].dtype = in->dtype;
    call->out_meta[0].ndim = in->ndim;
    for (int d = 0; d < in->ndim; d++)
        call->out_meta[0].shape[d] = in->shape[d];
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status copy_through(stn_op_call *call, const stn_tensor *from)
{
    stn_box in, out;
    stni_tensor_box(from, &in);
    stni_tensor_box(call->out[0], &out);
    return stni_box_copy(call->context->queue, &out, &in, stn_dtype_size(from->spec->layout.dtype));
}

static stn_status run(stn_op_call *call)
{
    const struct stni_all_reduce_attrs *attrs = call->attrs;
    stn_comm *comm;
    stn_tensor *dense;
    STNI_TRY(stni_all_reduce_comm(call->context, attrs, &comm));
    if (!comm)
        return copy_through(call, call->in[0]);
    STNI_TRY(stni_tensor_dense(call->in[0], &dense));
    stn_status status = stni_comm_all_reduce(comm, call->context->queue, dense->data, call->out[0]->data, dense->spec->numel,
                                             dense->spec->layout.dtype, (stn_reduce_op)attrs->op);
    stni_tensor_drop(&dense);
    return status;
}

static int is_linear(int64_t op)
{
    return op == STN_SUM || op == STN_AVG;
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)needs; /* a collective's backward runs on every rank, whatever is needed */
    return is_linear(((const struct stni_all_reduce_attrs *)call->attrs)->op) ? 0 : 1;
}

/* Under B the adjoint sums the cotangents of all ranks; under A each rank's own is already that of the one loss. */
static stn_tensor *arriving(const stn_backward_call *call, const struct stni_all_reduce_attrs *attrs, const stn_mesh *mesh)
{
    if (attrs->convention == STN_GRAD_REPLICATED)
        return call->grad_out[0];
    return stn_dist_all_reduce(call->grad_out[0], mesh, STN_SUM, STN_GRAD_PER_RANK);
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_all_reduce_attrs *attrs = call->attrs;
    const stn_mesh *mesh = stni_all_reduce_mesh(call->context, attrs);
    stn_tensor *g = call->grad_out[0];
    if (!is_linear(attrs->op) && stn_grad_enabled(call->context)) /* a graph of this backward is being made */
        return stni_fail(call->context, STN_ERR_UNSUPPORTED,
                         "stn_grad: the backward of dist_all_reduce with PROD, MIN or MAX cannot be differentiated again");
    if (mesh->member)
        g = arriving(call, attrs, mesh);
    if (attrs->op == STN_AVG && mesh->member)
        g = stn_mul_number(g, 1.0 / mesh->size);
    if (!is_linear(attrs->op)) {
        stn_tensor *in[] = {g, call->in[0]};
        g = stni_call(STNI_OP_dist_others, 2, in, attrs);
    }
    call->grad_in[0] = g;
    return stn_context_status(call->context);
}

static const char *const op_names[] = {"sum", "avg", "prod", "min", "max", NULL};
static const char *const convention_names[] = {"per_rank", "replicated", NULL};
static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema attrs[] = {
    {"mesh", STN_ATTR_INT, offsetof(struct stni_all_reduce_attrs, mesh), NULL},
    {"op", STN_ATTR_CHOICE, offsetof(struct stni_all_reduce_attrs, op), op_names},
    {"convention", STN_ATTR_CHOICE, offsetof(struct stni_all_reduce_attrs, convention), convention_names},
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, .saves = saves, .backward = backward};

const stn_op_desc stni_op_dist_all_reduce = {
    .size = sizeof(stn_op_desc),
    .name = "dist_all_reduce",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs, struct stni_all_reduce_attrs),
    .n_outputs = 1,
    .flags = STN_OP_PER_RANK,
    .impl = &impl,
};
