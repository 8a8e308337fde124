/* Redistribution: from what two specs say to copies, exchanges and reductions. */
#include "core/redistribute/redistribute.h"

#include "core/box/box.h"
#include "core/redistribute/exchange.h"
#include "core/redistribute/identity.h"
#include "core/redistribute/refine.h"
#include "core/device/trace.h"
#include "core/tensor/under_way.h"

#include <string.h>

static stn_status check(const stn_tensor *tensor, const stn_spec *spec)
{
    const struct stni_layout *from = &tensor->spec->layout, *to = &spec->layout;
    stn_context *context = tensor->context;
    if (spec->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "redistribute: spec is of another context, wanted one of the tensor's");
    if (from->dtype != to->dtype)
        return stni_fail(context, STN_ERR_DTYPE, "redistribute: spec has dtype %s, wanted the tensor's %s",
                         stn_dtype_name(to->dtype), stn_dtype_name(from->dtype));
    if (from->ndim != to->ndim)
        return stni_fail(context, STN_ERR_SHAPE, "redistribute: spec has %d dims, wanted the tensor's %d", to->ndim,
                         from->ndim);
    for (int d = 0; d < to->ndim; d++)
        if (from->shape[d] != to->shape[d])
            return stni_fail(context, STN_ERR_SHAPE,
                             "redistribute: spec has shape[%d] = %lld, wanted the tensor's %lld", d,
                             (long long)to->shape[d], (long long)from->shape[d]);
    if ((from->mesh == NULL) != (to->mesh == NULL))
        return stni_fail(context, STN_ERR_LAYOUT, "redistribute: spec is %s, wanted %s as the tensor",
                         to->mesh == NULL ? "local" : "on a mesh", to->mesh == NULL ? "one on a mesh" : "a local one");
    return STN_OK;
}

static stn_status check_reductions(stn_context *context, stn_dtype dtype, uint32_t ops)
{
    for (int op = 0; op < STN_REDUCE_OP_COUNT; op++)
        if ((ops >> op & 1) != 0 && !stni_box_reduces(dtype, (stn_reduce_op)op))
            return stni_fail(context, STN_ERR_DTYPE,
                             "redistribute: a pending minimum or maximum of dtype %s, wanted a dtype with an order",
                             stn_dtype_name(dtype));
    return STN_OK;
}

static struct stni_frame frame_of(const stn_tensor *tensor)
{
    return (struct stni_frame){tensor->data, tensor->spec->local_offset, tensor->strides,
                               (int64_t)stn_dtype_size(tensor->spec->layout.dtype)};
}

/* Whether nothing but pending reductions, of one op, end: each rank has the same chunk before and after, and sums
 * meet in it. */
static int only_reduces(const struct stni_axis_roles *route)
{
    const struct stni_axis_roles_side *src = &route->src, *dst = &route->dst;
    if (!route->same_grid || route->addends != route->fan_out || route->fresh != 0)
        return 0;
    if ((route->addends | route->coupled) != (1u << src->n) - 1)
        return 0;
    return memcmp(src->spec->layout.split, dst->spec->layout.split, sizeof src->spec->layout.split) == 0 &&
           memcmp(src->n_levels, dst->n_levels, sizeof src->n_levels) == 0 &&
           memcmp(src->level, dst->level, sizeof src->level) == 0;
}

static int first_op(uint32_t ops)
{
    int op = 0;
    while ((ops >> op & 1) == 0)
        op++;
    return op;
}

/* Reads the source where it is dense in the result's order; else the result takes a copy and is reduced in place. */
static stn_status all_reduce(const stn_tensor *from, const struct stni_axis_roles *route, const stn_tensor *to,
                             struct stni_under_way *way)
{
    stn_context *context = to->context;
    const stn_spec *spec = to->spec;
    if (!spec->layout.mesh->member)
        return STN_OK;
    const void *send = from->data;
    if (!stni_tensor_is_dense(from) ||
        memcmp(from->spec->layout.memory_order, spec->layout.memory_order, STN_MAX_NDIM) != 0) {
        STNI_TRY(stni_fail_queue(to->context, stni_tensor_copy_elements(to, from)));
        send = to->data;
    }
    stn_comm *comm;
    STNI_TRY(stni_mesh_comm(route->src.mesh, route->axes, &comm));
    const stn_reduce_op op = (stn_reduce_op)first_op(route->ops);
    if (way != NULL)
        return stni_under_way_all_reduce(context, way, comm, send, to->data, spec->local_numel, spec->layout.dtype, op);
    return stni_fail_queue(
        context, stni_comm_all_reduce(comm, context->queue, send, to->data, spec->local_numel, spec->layout.dtype, op));
}

/* Which identity this rank holds where no data comes to it; -1: none, data comes everywhere. From the last axis to
 * the first: along an axis that is reduced later, ranks beyond coordinate 0 stand for its identity, and among these
 * again along each axis before. The first coordinate keeps what is asked for, so that the reduction gives just that. */
static int missing_op(const struct stni_axis_roles *route, int rank)
{
    int at[STN_MAX_MESH_NDIM], op = -1;
    if (route->fresh == 0 || !stni_axis_roles_find(&route->dst, rank, at))
        return -1;
    for (int k = route->dst.n - 1; k >= 0; k--) {
        stn_placement p = route->dst.spec->layout.placement[route->dst.axis[k]];
        int fresh = (route->fresh >> k & 1) != 0, shard = fresh && (route->first_only >> k & 1) == 0;
        if (p.kind != STN_PLACE_PARTIAL || p.op == STN_AVG)
            continue;
        if (op < 0 ? shard || (fresh && at[k] != 0) : at[k] != 0)
            op = p.op;
    }
    return op;
}

static stn_status fill_missing(const struct stni_axis_roles *route, const stn_tensor *to)
{
    stn_context *context = to->context;
    int op = missing_op(route, context->rank);
    if (op < 0)
        return STN_OK;
    return stni_fail_queue(context, stni_fill_identity(context->queue, to->data, to->spec->local_numel,
                                                       to->spec->layout.dtype, (stn_reduce_op)op));
}

/* Sums first meet in pieces of what receivers will hold, at their final place in memory; then those who share them
 * gather. */
static stn_status reduce_and_gather(const stn_tensor *from, const stn_spec *pieces, const stn_tensor *to,
                                    struct stni_under_way *way)
{
    struct stni_axis_roles route;
    struct stni_frame src = frame_of(from), dst = frame_of(to);
    stn_dtype dtype = to->spec->layout.dtype;
    stni_axis_roles_make(from->spec, pieces, &route);
    STNI_TRY(stni_exchange_chunks(to->context, &route, dtype, &src, &dst, way));
    stni_axis_roles_make(pieces, to->spec, &route);
    return stni_exchange_chunks(to->context, &route, dtype, &dst, &dst, way);
}

static stn_status fill(const stn_tensor *from, const struct stni_axis_roles *route, const stn_tensor *to,
                       struct stni_under_way *way)
{
    if (to->spec->numel == 0)
        return STN_OK;
    if (route->addends != 0 && only_reduces(route))
        return all_reduce(from, route, to, way);
    STNI_TRY(fill_missing(route, to));
    const stn_spec *pieces = NULL;
    if (stni_axis_roles_reduces_twice(route))
        STNI_TRY(stni_refine(route, &pieces));
    if (pieces != NULL)
        return reduce_and_gather(from, pieces, to, way);
    struct stni_frame src = frame_of(from), dst = frame_of(to);
    return stni_exchange_chunks(to->context, route, to->spec->layout.dtype, &src, &dst, way);
}

static int is_one_op(uint32_t ops)
{
    return (ops & (ops - 1)) == 0;
}

/* The source with its first pending reductions of one op done: those of different ops are done from the first axis
 * to the last. */
static stn_status take_first_op(const struct stni_axis_roles *route, const stn_spec **out)
{
    struct stni_layout layout = route->src.spec->layout;
    int op = -1;
    for (int k = 0; k < route->src.n; k++) {
        stn_placement *p = &layout.placement[route->src.axis[k]];
        if ((route->addends >> k & 1) == 0)
            continue;
        if (op >= 0 && p->op != op)
            break;
        op = p->op;
        *p = stn_replicate();
    }
    return stni_spec_intern(route->src.spec->context, &layout, out);
}

/* The destination with replicas where reductions are to be pending. */
static stn_status before_spreading(const struct stni_axis_roles *route, const stn_spec **out)
{
    struct stni_layout layout = route->dst.spec->layout;
    for (int k = 0; k < route->dst.n; k++)
        if ((route->fresh >> k & 1) != 0)
            layout.placement[route->dst.axis[k]] = stn_replicate();
    return stni_spec_intern(route->dst.spec->context, &layout, out);
}

/* Whether ranks stand for identities of different ops by the elements: only from replicas they do so by their
 * coordinates alone. */
static int spreads_by_element(const struct stni_axis_roles *route)
{
    uint32_t ops = 0;
    for (int k = 0; k < route->dst.n; k++) {
        stn_placement p = route->dst.spec->layout.placement[route->dst.axis[k]];
        ops |= p.kind == STN_PLACE_PARTIAL && p.op != STN_AVG ? 1u << p.op : 0;
    }
    return route->fresh != (route->first_only & route->coupled) && !is_one_op(ops);
}

/* A spec on the way where one exchange, or a reduction and a gathering, does not lead to the goal; else NULL. */
static stn_status stop_between(const struct stni_axis_roles *route, const stn_spec **out)
{
    *out = NULL;
    if (!is_one_op(route->ops))
        return take_first_op(route, out);
    return spreads_by_element(route) ? before_spreading(route, out) : STN_OK;
}

/* With a `way` the last of the exchanges become its steps; those before a stop are done here. */
static stn_status move(stn_tensor *tensor, const stn_spec *spec, struct stni_under_way *way, stn_tensor **out)
{
    struct stni_axis_roles route;
    stni_axis_roles_make(tensor->spec, spec, &route);
    STNI_TRY(check_reductions(tensor->context, spec->layout.dtype, route.ops | route.fresh_ops));
    const stn_spec *between = NULL;
    stn_tensor *to;
    STNI_TRY(stop_between(&route, &between));
    if (between != NULL) {
        STNI_TRY(move(tensor, between, NULL, &to));
        stn_status status = move(to, spec, way, out);
        if (status == STN_OK && way != NULL)
            way->between = stn_tensor_retain(to);
        stni_tensor_drop(&to);
        return status;
    }
    STNI_TRY(stni_tensor_create(tensor->context, spec, &to));
    stn_status status = fill(tensor, &route, to, way);
    if (status != STN_OK && way != NULL)
        stni_under_way_finish(tensor->context, way); /* it writes to the result */
    if (status != STN_OK)
        stni_tensor_drop(&to);
    else
        *out = to;
    return status;
}

stn_status stni_redistribute_into(const stn_tensor *from, const stn_tensor *to)
{
    struct stni_axis_roles route;
    stni_axis_roles_make(from->spec, to->spec, &route);
    STNI_TRY(fill(from, &route, to, NULL));
    to->context->stats.redistributions++;
    return STN_OK;
}

/* Another order of the same chunk in memory. */
static stn_status reorder(stn_tensor *tensor, const stn_spec *spec, stn_tensor **out)
{
    stn_tensor *to;
    STNI_TRY(stni_tensor_create(tensor->context, spec, &to));
    stn_status status = stni_fail_queue(to->context, stni_tensor_copy_elements(to, tensor));
    if (status != STN_OK)
        stni_tensor_drop(&to);
    else
        *out = to;
    return status;
}

static int same_order(const stn_spec *a, const stn_spec *b)
{
    return memcmp(a->layout.memory_order, b->layout.memory_order, sizeof a->layout.memory_order) == 0;
}

/* What one rank does by itself is no redistribution: a mesh of one rank, another order in memory. */
static stn_status change(stn_tensor *tensor, const stn_spec *spec, int same_chunks, struct stni_under_way *way,
                         stn_tensor **out)
{
    if (same_chunks)
        return reorder(tensor, spec, out);
    STNI_TRY(move(tensor, spec, way, out));
    tensor->context->stats.redistributions++;
    return STN_OK;
}

static const char *move_name(int same_chunks)
{
    return same_chunks ? "reorder" : "redistribute";
}

/* Recorded beside from and to: for which op. */
static stn_status change_recorded(stn_tensor *tensor, const stn_spec *spec, int same_chunks, struct stni_under_way *way,
                                  stn_tensor **out)
{
    stn_context *context = tensor->context;
    const struct stni_comm_stats before = context->comm_stats;
    const int64_t start = stni_trace_now();
    struct stni_trace_args args = {0};
    const char *op = stni_trace_op(context->trace);
    stni_trace_arg_spec(&args, "from", tensor->spec);
    stni_trace_arg_spec(&args, "to", spec);
    if (op)
        stni_trace_arg(&args, "for", op);
    STNI_TRY(change(tensor, spec, same_chunks, way, out));
    args.bytes = context->comm_stats.bytes_sent - before.bytes_sent;
    args.messages = context->comm_stats.messages - before.messages;
    stni_trace_add_args(context->trace, STNI_TRACE_MOVE, move_name(same_chunks), start, &args);
    stni_trace_add_memory(context->trace, stni_mempool_stats(context->pool)->live_bytes);
    return STN_OK;
}

STNI_COLD static stn_status change_traced(stn_tensor *tensor, const stn_spec *spec, int same_chunks,
                                          struct stni_under_way *way, stn_tensor **out)
{
    const struct stni_trace *trace = tensor->context->trace;
    const int marked = stni_trace_mark_begin(trace, move_name(same_chunks));
    const stn_status status = stni_trace_records(trace) ? change_recorded(tensor, spec, same_chunks, way, out)
                                                        : change(tensor, spec, same_chunks, way, out);
    stni_trace_mark_end(marked);
    return status;
}

/* The same logical value: whoever differentiates the result differentiates the tensor. */
static void share_history(const stn_tensor *tensor, stn_tensor *to)
{
    stn_context *context = tensor->context;
    to->flags |= tensor->flags & STNI_TENSOR_REQUIRES_GRAD;
    if ((tensor->node != NULL || tensor->leaf != NULL) && context->share_autograd != NULL)
        context->share_autograd(tensor, to);
}

stn_status stni_redistribute_by(stn_tensor *tensor, const stn_spec *spec, struct stni_under_way *way, stn_tensor **out)
{
    stn_tensor *to = NULL;
    STNI_TRY(check(tensor, spec));
    int same_chunks = stni_spec_same_chunks(tensor->spec, spec);
    if (same_chunks && same_order(tensor->spec, spec)) {
        STNI_TRY(stni_tensor_on(tensor->context, spec, tensor->storage, tensor->data, tensor->strides, 0, &to));
    } else {
        STNI_TRY(tensor->context->trace ? change_traced(tensor, spec, same_chunks, way, &to)
                                        : change(tensor, spec, same_chunks, way, &to));
    }
    share_history(tensor, to);
    *out = to;
    return STN_OK;
}

stn_status stni_redistribute(stn_tensor *tensor, const stn_spec *spec, stn_tensor **out)
{
    STNI_TRY(stni_tensor_arrive(tensor));
    if (tensor->spec == spec) {
        *out = stn_tensor_retain(tensor);
        return STN_OK;
    }
    return stni_redistribute_by(tensor, spec, NULL, out);
}
