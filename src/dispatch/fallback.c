/* "No rule": correct first, and never silent about cost. */
#include "dispatch/fallback.h"

#include "core/base/thread_state.h"
#include "core/redistribute/redistribute.h"
#include "core/tensor/tensor.h"
#include "dispatch/registry.h"

#include <string.h>

static stn_status replicated(stn_context *context, const stn_spec *spec, const stn_spec **out)
{
    struct stni_layout layout;
    stni_layout_init(&layout, spec->layout.mesh, spec->layout.dtype, spec->layout.ndim, spec->layout.shape);
    return stni_spec_intern(context, &layout, out);
}

static int same_shape(const stn_spec *spec, const stn_meta *meta)
{
    return spec->layout.ndim == meta->ndim &&
           memcmp(spec->layout.shape, meta->shape, (size_t)meta->ndim * sizeof meta->shape[0]) == 0;
}

/* The input whose layout an output takes: one of its shape first, else the first that is sharded. */
static const stn_spec *layout_source(const stn_op_call *call, const stn_meta *meta)
{
    const stn_spec *sharded = NULL;
    for (int i = 0; i < call->n_in; i++) {
        const stn_spec *s = call->in_spec[i];
        if (!s || !s->shard_axes)
            continue;
        if (same_shape(s, meta))
            return s;
        if (!sharded)
            sharded = s;
    }
    return sharded;
}

/* Shards stay where the output has the dim; the split is that of the source where shapes are equal, else balanced. */
static stn_status output_spec(const stn_op_call *call, const stn_mesh *mesh, const stn_meta *meta, const stn_spec **out)
{
    struct stni_layout layout;
    const stn_spec *source = mesh ? layout_source(call, meta) : NULL;
    stni_layout_init(&layout, mesh, meta->dtype, meta->ndim, meta->shape);
    if (source && source->layout.ndim == meta->ndim) {
        for (int a = 0; a < mesh->ndim; a++)
            if (source->layout.placement[a].kind == STN_PLACE_SHARD)
                layout.placement[a] = source->layout.placement[a];
        memcpy(layout.axis_order, source->layout.axis_order, sizeof layout.axis_order);
        if (same_shape(source, meta))
            memcpy(layout.split, source->layout.split, sizeof layout.split);
    }
    return stni_spec_intern(call->context, &layout, out);
}

static void log_cost(const stn_op_call *call)
{
    double bytes = 0;
    char text[256] = "";
    for (int i = 0; i < call->n_in; i++) {
        const stn_spec *s = call->in_spec[i];
        if (!s || !(s->shard_axes | s->partial_axes))
            continue;
        bytes += (double)(s->numel - (s->partial_axes ? 0 : s->local_numel)) * (double)stn_dtype_size(s->layout.dtype);
        if (!text[0])
            stn_spec_describe(s, text, sizeof text);
    }
    stni_log(call->context, STN_LOG_INFO, "%s has no rule for this layout (%s …): gathers %.0f bytes on this rank",
             call->op->desc->name, text, bytes);
}

/* That of all inputs; NULL: they are local, or there are none. */
static const stn_mesh *mesh_of(const stn_op_call *call)
{
    int i = 0;
    while (i < call->n_in && !call->in_spec[i])
        i++;
    return i < call->n_in ? call->in_spec[i]->layout.mesh : NULL;
}

stn_status stni_fallback_place(stn_op_call *call)
{
    const stn_mesh *mesh = mesh_of(call);
    for (int i = 0; i < call->n_in; i++)
        if (call->in_spec[i])
            STNI_TRY(replicated(call->context, call->in_spec[i], &call->want[i]));
    for (int k = 0; k < call->n_out; k++)
        STNI_TRY(output_spec(call, mesh, &call->out_meta[k], &call->out_spec[k]));
    if (mesh)
        log_cost(call);
    return STN_OK;
}

/* What a fallback call holds besides the caller's: local tensors on the same memory. */
struct local_call {
    stn_op_call call;
    stn_tensor *in[STN_MAX_INPUTS], *out[STN_MAX_OUTPUTS];
    const stn_spec *in_spec[STN_MAX_INPUTS], *want[STN_MAX_INPUTS], *out_spec[STN_MAX_OUTPUTS];
};

static stn_status local_input(struct local_call *local, int i, const stn_tensor *t)
{
    stn_context *context = local->call.context;
    local->in_spec[i] = NULL;
    if (t) {
        STNI_TRY(stni_spec_of_chunk(t->spec, &local->in_spec[i]));
        STNI_TRY(stni_tensor_on(context, local->in_spec[i], t->storage, t->data, t->strides, 0, &local->in[i]));
    }
    local->want[i] = local->in_spec[i];
    return STN_OK;
}

/* In place, want is the given layout: the local tensor is the caller's memory, and the caller's handle the result. */
static int is_in_place(const stn_op_call *call)
{
    return (call->op->desc->flags & STN_OP_IN_PLACE) != 0;
}

static stn_status local_output(struct local_call *local, int k, const stn_spec *spec)
{
    const struct stni_layout *l = &spec->layout;
    stn_context *context = local->call.context;
    STNI_TRY(stni_spec_local(context, l->dtype, l->ndim, l->shape, &local->out_spec[k]));
    if (local->call.op->desc->flags & STN_OP_ALIAS)
        return STN_OK;
    if (is_in_place(&local->call)) {
        local->out[k] = stn_tensor_retain(local->in[0]);
        return STN_OK;
    }
    return stni_tensor_create(context, local->out_spec[k], &local->out[k]);
}

/* A local result, the same on every rank, in the layout that was promised. */
static stn_status lay_out(stn_op_call *call, int k, stn_tensor *local)
{
    const stn_spec *whole;
    stn_tensor *replica;
    STNI_TRY(replicated(call->context, call->out_spec[k], &whole));
    stn_tensor *dense;
    STNI_TRY(stni_tensor_dense(local, &dense));
    stn_status status = stni_tensor_on(call->context, whole, dense->storage, dense->data, NULL, 0, &replica);
    if (status == STN_OK) {
        status = stni_redistribute(replica, call->out_spec[k], &call->out[k]);
        stni_tensor_drop(&replica);
    }
    stni_tensor_drop(&dense);
    return status;
}

static stn_status run_local(struct local_call *local, stn_op_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        STNI_TRY(local_input(local, i, call->in[i]));
    for (int k = 0; k < call->n_out; k++)
        STNI_TRY(local_output(local, k, call->out_spec[k]));
    struct stni_thread_state *guard = stni_thread_state_here();
    guard->conversion_depth++;
    stn_no_grad_begin(call->context);
    stn_status status = call->op->impl.run(&local->call);
    stn_no_grad_end(call->context);
    guard->conversion_depth--;
    return status;
}

/* Ranks outside the mesh have nothing to compute, but a handle with an empty chunk. */
static stn_status outside(stn_op_call *call)
{
    for (int k = 0; k < call->n_out && !is_in_place(call); k++)
        STNI_TRY(stni_tensor_create(call->context, call->out_spec[k], &call->out[k]));
    return STN_OK;
}

stn_status stni_fallback_run(stn_op_call *call)
{
    const stn_mesh *mesh = mesh_of(call);
    call->context->stats.fallbacks++;
    if (mesh && !mesh->member)
        return outside(call);
    struct local_call local;
    memset(local.in, 0, sizeof local.in);
    memset(local.out, 0, sizeof local.out);
    local.call = *call;
    local.call.local = 1;
    local.call.in = local.in;
    local.call.out = local.out;
    local.call.in_spec = local.in_spec;
    local.call.want = local.want;
    local.call.out_spec = local.out_spec;
    stn_status status = run_local(&local, call);
    for (int k = 0; k < call->n_out && status == STN_OK && !is_in_place(call); k++)
        status = lay_out(call, k, local.out[k]);
    for (int k = 0; k < call->n_out; k++)
        stni_tensor_drop(&local.out[k]);
    for (int i = 0; i < call->n_in; i++)
        stni_tensor_drop(&local.in[i]);
    return status;
}
