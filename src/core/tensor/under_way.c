#include "core/tensor/under_way.h"

#include "core/base/host_alloc.h"

static stn_status failed(stn_context *context, stn_status status, const char *text)
{
    if (context->closed || context->error.status != STN_OK)
        return status;
    return stni_fail_rank(context, status, "redistribute: %s", text[0] != '\0' ? text : stn_status_text(status));
}

static const stn_request *last_step(const struct stni_under_way *way)
{
    return way->n_steps > 0 ? way->step[way->n_steps - 1] : NULL;
}

/* After its step was begun. */
static stn_status add_step(stn_context *context, struct stni_under_way *way, stn_comm *comm, stn_status status)
{
    if (status != STN_OK)
        return failed(context, status, stn_comm_error_text(comm));
    way->comm[way->n_steps++] = comm;
    return STN_OK;
}

stn_status stni_under_way_exchange(stn_context *context, struct stni_under_way *way, stn_comm *comm,
                                   const stn_exchange *messages)
{
    return add_step(context, way, comm,
                    stni_comm_exchange_begin(comm, messages, last_step(way), &way->step[way->n_steps]));
}

stn_status stni_under_way_all_reduce(stn_context *context, struct stni_under_way *way, stn_comm *comm, const void *send,
                                     void *recv, int64_t n, stn_dtype dtype, stn_reduce_op op)
{
    return add_step(
        context, way, comm,
        stni_comm_all_reduce_begin(comm, send, recv, n, dtype, op, last_step(way), &way->step[way->n_steps]));
}

stn_status stni_under_way_finish(stn_context *context, struct stni_under_way *way)
{
    stn_status first = STN_OK;
    for (int i = 0; i < way->n_steps; i++) {
        const stn_status status = stn_request_wait(&way->step[i]);
        if (status != STN_OK && first == STN_OK)
            first = failed(context, status, context->closed ? "" : stn_comm_error_text(way->comm[i]));
    }
    way->n_steps = 0;
    stni_tensor_drop(&way->between);
    return first;
}

void stni_under_way_drop(stn_context *context, struct stni_under_way *way)
{
    if (way == NULL)
        return;
    stni_under_way_finish(context, way);
    stni_tensor_drop(&way->source);
    stni_free(way);
}

void stni_tensor_set_under_way(stn_tensor *tensor, stn_tensor *source, struct stni_under_way *way)
{
    way->source = stn_tensor_retain(source);
    way->version = stni_tensor_root(source)->version;
    tensor->under_way = way;
    tensor->flags |= STNI_TENSOR_MOVED | STNI_TENSOR_UNDER_WAY;
}

void stni_tensor_hand_over_way(stn_tensor *from, stn_tensor *to)
{
    const uint32_t flags = from->flags & (STNI_TENSOR_MOVED | STNI_TENSOR_UNDER_WAY);
    if (!flags)
        return;
    to->under_way = from->under_way;
    to->flags |= flags;
    from->flags &= ~flags;
}

/* What the source's owner did meanwhile may be in the result or not. */
static stn_status check_source(stn_context *context, const struct stni_under_way *way)
{
    const uint32_t now = stni_tensor_root(way->source)->version;
    if (now == way->version)
        return STN_OK;
    return stni_fail(context, STN_ERR_STATE,
                     "redistribute: the tensor was changed in place before its redistribution was complete (version "
                     "%u, now %u)",
                     way->version, now);
}

stn_status stni_tensor_arrive(stn_tensor *tensor)
{
    struct stni_under_way *way = tensor->under_way;
    stn_context *context = tensor->context;
    if (!(tensor->flags & STNI_TENSOR_UNDER_WAY))
        return STN_OK;
    tensor->flags &= ~(uint32_t)STNI_TENSOR_UNDER_WAY;
    stn_status status = stni_under_way_finish(context, way);
    if (status == STN_OK && !context->closed)
        status = check_source(context, way);
    stni_tensor_drop(&way->source);
    return status;
}

void stni_tensor_drop_under_way(stn_tensor *tensor)
{
    stn_context *context = tensor->context;
    if ((tensor->flags & STNI_TENSOR_UNDER_WAY) && !context->closed && context->error.status == STN_OK)
        stni_fail(context, STN_ERR_STATE, "redistribute_begin: a result was released before it was waited for or used");
    stni_under_way_drop(context, tensor->under_way);
    tensor->flags &= ~(uint32_t)(STNI_TENSOR_MOVED | STNI_TENSOR_UNDER_WAY);
}
