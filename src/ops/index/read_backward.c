/* What a read by index has to do backward: cotangents are added where the elements came from. */
#include "ops/index/access.h"

#include "autograd/leaf.h"
#include "core/shard/spec.h"

#include <shardtensor/ops.h>

stn_tensor *stni_index_count_reads(stn_context *context, stn_tensor *index, const stn_spec *table,
                                   const struct stni_access_attrs *attrs)
{
    struct stni_access_attrs adds = stni_access_like(attrs, STNI_ACCESS_ADD);
    struct stni_layout column = table->layout;
    const stn_spec *spec;
    adds.skip = 0;
    column.dtype = STN_DTYPE_F64;
    column.shape[1] = 1;
    column.split[1] = NULL;
    for (int a = 0; column.mesh && a < column.mesh->ndim; a++)
        if (column.placement[a].kind != STN_PLACE_SHARD || column.placement[a].dim == 1)
            column.placement[a] = stn_replicate();
    if (stni_spec_intern(context, &column, &spec) != STN_OK)
        return context->error_tensor;
    return stni_index_write_zeros(spec, index, stn_unsqueeze(stn_cast(stn_eq(index, index), STN_DTYPE_F64), -1), &adds);
}

/* The cotangent of a read of slices, each over how often that slice is read. */
static stn_tensor *over_frequency(const stn_backward_call *call, stn_tensor *grad)
{
    struct stni_access_attrs reads = stni_access_like(call->attrs, STNI_ACCESS_SET);
    stn_tensor *index = call->in[STNI_ACCESS_INDEX];
    stn_tensor *counts = stni_index_count_reads(call->context, index, call->in_spec[STNI_ACCESS_TABLE], call->attrs);
    reads.skip = 0;
    stn_tensor *times = stni_index_read(counts, index, &reads);
    return stn_tensor_is_error(grad) ? grad : stn_cast(stn_div(grad, times), stn_tensor_dtype(grad));
}

stn_tensor *stni_index_cotangent(stn_tensor *cotangent, const stn_spec *forward, const struct stni_access_attrs *attrs)
{
    const stn_spec *spec;
    if (!attrs->at_home || !forward->layout.mesh)
        return cotangent;
    if (stni_gradient_spec(forward, &spec) != STN_OK)
        return forward->context->error_tensor;
    return stn_redistribute(cotangent, spec);
}

stn_status stni_index_read_backward(stn_backward_call *call)
{
    struct stni_access_attrs attrs = stni_access_like(call->attrs, STNI_ACCESS_ADD);
    stn_tensor *grad = stni_index_cotangent(call->grad_out[0], call->out_spec[0], call->attrs);
    if (((const struct stni_access_attrs *)call->attrs)->by_frequency)
        grad = over_frequency(call, grad);
    call->grad_in[STNI_ACCESS_TABLE] =
        stni_index_write_zeros(call->in_spec[STNI_ACCESS_TABLE], call->in[STNI_ACCESS_INDEX], grad, &attrs);
    return stn_context_status(call->context);
}
