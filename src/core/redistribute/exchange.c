/* From a plan to a call of the communicator. */
#include "core/redistribute/exchange.h"

#include "core/box/box.h"
#include "core/context/context.h"
#include "core/base/host_alloc.h"
#include "core/shard/group.h"

/* The plan's memory is the context's: it serves all its exchanges. */
static stn_status plan_of(stn_context *context, struct stni_plan **out)
{
    if (context->shard.plan == NULL)
        context->shard.plan = stni_calloc(1, sizeof **out);
    if (context->shard.plan == NULL)
        return stni_fail_memory(context, "plan", sizeof **out);
    *out = context->shard.plan;
    return STN_OK;
}

static void drop_own(struct stni_plan_messages *messages, int self)
{
    int kept = 0;
    for (int i = 0; i < messages->n; i++)
        if (messages->items[i].peer != self)
            messages->items[kept++] = messages->items[i];
    messages->n = kept;
}

/* Nobody else is concerned: at most one box, from this rank to itself, which what is under way may have to bring
 * first. */
static stn_status copy_own(stn_context *context, const struct stni_plan *plan, stn_dtype dtype,
                           struct stni_under_way *way)
{
    if (way != NULL)
        STNI_TRY(stni_under_way_finish(context, way));
    for (int i = 0; i < plan->recv.n; i++)
        STNI_TRY(stni_fail_queue(context, stni_box_copy(context->queue, &plan->recv.items[i].box,
                                                        &plan->send.items[i].box, stn_dtype_size(dtype))));
    return STN_OK;
}

static int place_of(const struct stni_group_comm *group, int rank)
{
    int low = 0, high = group->n;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (group->ranks[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* World ranks become places among the group's, which are sorted. */
static void name_places(const struct stni_group_comm *group, struct stni_plan_messages *messages)
{
    for (int i = 0; i < messages->n; i++)
        messages->items[i].peer = place_of(group, messages->items[i].peer);
}

static stn_status find_comm(const struct stni_axis_roles *route, struct stni_plan *plan, stn_comm **out)
{
    if (route->same_grid)
        return stni_mesh_comm(route->src.mesh, route->axes, out);
    const struct stni_group_comm *group = NULL;
    STNI_TRY(stni_mesh_group_union(route->src.mesh, route->dst.mesh, &group));
    if (group->n < route->src.mesh->context->size) {
        name_places(group, &plan->send);
        name_places(group, &plan->recv);
    }
    *out = group->comm;
    return STN_OK;
}

static stn_reduce_op only_op(uint32_t ops)
{
    int op = 0;
    while ((ops >> op & 1) == 0 && op < STN_REDUCE_OP_COUNT - 1)
        op++;
    return (stn_reduce_op)op;
}

stn_status stni_exchange_chunks(stn_context *context, const struct stni_axis_roles *route, stn_dtype dtype,
                                const struct stni_frame *src, const struct stni_frame *dst, struct stni_under_way *way)
{
    if (!route->src.mesh->member && !route->dst.mesh->member)
        return STN_OK;
    struct stni_plan *plan = NULL;
    STNI_TRY(plan_of(context, &plan));
    STNI_TRY(stni_plan_make(context, route, context->rank, src, dst, plan));
    if (src->data == dst->data) {
        drop_own(&plan->send, stni_plan_self(route, context->rank));
        drop_own(&plan->recv, stni_plan_self(route, context->rank));
    }
    if (route->same_grid && route->axes == 0)
        return copy_own(context, plan, dtype, way);

    stn_comm *comm;
    STNI_TRY(find_comm(route, plan, &comm));
    stn_exchange exchange = {.dtype = dtype,
                             .reduce = route->addends != 0,
                             .op = only_op(route->ops),
                             .n_send = plan->send.n,
                             .n_recv = plan->recv.n,
                             .send = plan->send.items,
                             .recv = plan->recv.items};
    return way != NULL ? stni_under_way_exchange(context, way, comm, &exchange)
                       : stni_fail_queue(context, stni_comm_exchange(comm, context->queue, &exchange));
}
