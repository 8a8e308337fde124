/* The frame of public functions of this family, aliases, zeros, and nodes recorded by hand. */
#include "ops/redistribute/action.h"

#include "autograd/node.h"
#include "core/redistribute/identity.h"

stn_status stni_action_begin(stn_context *context)
{
    stni_context_reap(context);
    if (context->error.status != STN_OK)
        return context->error.status;
    if (context->busy++ == 0 && context->shard.n_specs > context->shard.collect_at)
        stni_shard_collect(context, 0);
    return STN_OK;
}

stn_status stni_action_begin_on(const stn_tensor *tensor, const char *what)
{
    STNI_TRY(stni_tensor_require(tensor, what));
    return stni_action_begin(tensor->context);
}

stn_status stni_action_end(stn_context *context, stn_status status)
{
    context->busy--;
    if (status != STN_OK && context->error.status == STN_OK)
        stni_fail_queue(context, status);
    return context->error.status;
}

stn_tensor *stni_action_give(stn_context *context, stn_status status, stn_tensor *out)
{
    return stni_action_end(context, status) == STN_OK ? stni_tensor_publish(out) : context->error_tensor;
}

stn_status stni_alias(stn_tensor *base, const stn_spec *spec, stn_tensor **out)
{
    STNI_TRY(stni_tensor_on(base->context, spec, base->storage, base->data, base->strides, 0, out));
    stni_tensor_show(*out, base);
    return STN_OK;
}

stn_status stni_zeros(stn_context *context, const stn_spec *spec, stn_tensor **out)
{
    STNI_TRY(stni_tensor_create(context, spec, out));
    stn_status status = stni_fill_zeros(context->queue, (*out)->data, spec->local_numel, spec->layout.dtype);
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

stn_status stni_record_unary(const stn_op_desc *desc, const void *attrs, stn_tensor *in, stn_tensor *out)
{
    uint32_t needs = stni_needs_grad(in->context, 1, &in);
    const stn_spec *want = in->spec, *out_spec = out->spec;
    stn_op_call call = {.size = sizeof call,
                        .context = in->context,
                        .attrs = attrs,
                        .n_in = 1,
                        .n_out = 1,
                        .in = &in,
                        .out = &out,
                        .in_spec = &in->spec,
                        .want = &want,
                        .out_spec = &out_spec};
    return needs ? stni_node_record(&call, desc, needs) : STN_OK;
}
