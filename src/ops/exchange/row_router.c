/* Routed rows: the exchanges. */
#include "ops/exchange/row_router.h"

#include "core/base/host_alloc.h"

#include <string.h>

stn_status stni_rows_memory(const stn_op_call *call, int64_t n, size_t size, void *out)
{
    void *pointer;
    STNI_TRY(stn_op_scratch(call, (size_t)(n > 0 ? n : 1) * size, &pointer));
    memcpy(out, &pointer, sizeof pointer);
    return STN_OK;
}

/* Numbers of a route: the call's memory, or the route's own. */
static stn_status route_memory(const struct stni_rows_route *route, int64_t n, int lasts, struct stni_storage **memory,
                               int64_t **out)
{
    if (!lasts)
        return stni_rows_memory(route->call, n, sizeof **out, out);
    STNI_TRY(stni_storage_create(route->call->context, (size_t)(n > 0 ? n : 1) * sizeof **out, memory));
    *out = (*memory)->data;
    return STN_OK;
}

static int64_t rows_each(const struct stni_rows_owners *owners)
{
    return owners->rows_each > 0 ? owners->rows_each : 1;
}

/* Rows of each rank of the communicator, on the host: beginnings, then ends. */
static void find_ranges(const struct stni_rows_owners *owners, int n_ranks, int64_t *ranges)
{
    const stn_mesh *mesh = owners->spec->layout.mesh;
    const struct stni_split *split = owners->spec->layout.split[owners->dim];
    int coordinate[STN_MAX_MESH_NDIM];
    for (int r = 0; r < n_ranks; r++) {
        memcpy(coordinate, mesh->coordinate, sizeof coordinate);
        for (int a = mesh->ndim - 1, rest = r; a >= 0; a--) {
            if (!(owners->axes >> a & 1))
                continue;
            coordinate[a] = rest % mesh->sizes[a];
            rest /= mesh->sizes[a];
        }
        int piece = stni_spec_piece(owners->spec, owners->dim, coordinate);
        ranges[r] = stni_split_offset(split, piece) * rows_each(owners);
        ranges[n_ranks + r] = stni_split_offset(split, piece + 1) * rows_each(owners);
    }
}

static stn_status plan(struct stni_rows_route *route, int slot, int lasts, struct stni_rows_plan_args *args)
{
    const stn_op_call *call = route->call;
    int64_t n = args->n;
    STNI_TRY(stni_rows_memory(call, 4 * n, sizeof(int64_t), &args->work));
    STNI_TRY(stni_rows_memory(call, n, sizeof(int64_t), &route->asked));
    STNI_TRY(route_memory(route, n, lasts, &route->slot_memory, &route->slot));
    STNI_TRY(stni_rows_memory(call, (int64_t)args->n_ranks + 1, sizeof(int64_t), &route->counts));
    args->unique = route->asked;
    args->slot = route->slot;
    args->counts = route->counts;
    return stn_op_launch(call, slot, STN_DTYPE_I64, args, sizeof *args);
}

static stn_status allocate_host(struct stni_rows_route *route)
{
    int64_t p = route->n_ranks;
    size_t bytes = (size_t)(6 * p) * sizeof(int64_t);
    route->host = stni_malloc(bytes);
    if (!route->host)
        return stni_fail_memory(route->call->context, "counts of routed rows", bytes);
    route->send_counts = route->host + 2 * p; /* the ranges come first */
    route->recv_counts = route->host + 3 * p;
    route->send_sized = route->host + 4 * p;
    route->recv_sized = route->host + 5 * p;
    return STN_OK;
}

/* All-to-all of how many rows each rank requests of each other; the host waits for the numbers. */
static stn_status exchange_counts(struct stni_rows_route *route, int lasts)
{
    stn_queue *queue = route->call->context->queue;
    int p = route->n_ranks;
    size_t bytes = (size_t)p * sizeof(int64_t);
    int64_t *theirs;
    STNI_TRY(stni_rows_memory(route->call, (int64_t)p + 1, sizeof(int64_t), &theirs));
    for (int r = 0; r < p; r++)
        route->send_sized[r] = route->recv_sized[r] = 1;
    STNI_TRY(stni_comm_all_to_all(route->comm, queue, route->counts, route->send_sized, theirs, route->recv_sized,
                                  STN_DTYPE_I64));
    STNI_TRY(stni_queue_copy(queue, route->send_counts, route->counts, bytes, STNI_COPY_TO_HOST));
    STNI_TRY(stni_queue_copy(queue, route->recv_counts, theirs, bytes, STNI_COPY_TO_HOST));
    STNI_TRY(stni_queue_sync_for(queue, STN_SYNC_COUNTS));
    for (int r = 0; r < p; r++) {
        route->n_asked += route->send_counts[r];
        route->n_received += route->recv_counts[r];
    }
    STNI_TRY(route_memory(route, route->n_received, lasts, &route->received_memory, &route->received));
    return stni_comm_all_to_all(route->comm, queue, route->asked, route->send_counts, route->received,
                                route->recv_counts, STN_DTYPE_I64);
}

static stn_status open_ranks(struct stni_rows_route *route, int slot, const struct stni_rows_owners *owners,
                             struct stni_rows_plan_args *args)
{
    const stn_op_call *call = route->call;
    int64_t *ranges;
    size_t bytes;
    STNI_TRY(stni_mesh_comm(owners->spec->layout.mesh, owners->axes, &route->comm));
    args->n_ranks = route->n_ranks = stn_comm_size(route->comm);
    bytes = 2 * (size_t)route->n_ranks * sizeof(int64_t);
    STNI_TRY(allocate_host(route));
    find_ranges(owners, route->n_ranks, route->host);
    if (owners->without_own) {
        args->own_begin = route->host[stn_comm_rank(route->comm)];
        args->own_end = route->host[route->n_ranks + stn_comm_rank(route->comm)];
    }
    STNI_TRY(stni_rows_memory(call, 2 * (int64_t)route->n_ranks, sizeof(int64_t), &ranges));
    STNI_TRY(stni_queue_copy(call->context->queue, ranges, route->host, bytes, STNI_COPY_TO_DEVICE));
    args->ranges = ranges;
    STNI_TRY(plan(route, slot, owners->lasts, args));
    return exchange_counts(route, owners->lasts);
}

stn_status stni_rows_open(const stn_op_call *call, int plan_slot, const struct stni_rows_owners *owners,
                           struct stni_rows_plan_args *args, struct stni_rows_route *route)
{
    *route = (struct stni_rows_route){.call = call};
    STNI_TRY(stni_context_not_captured(call->context, "indexing along a sharded dim",
                                       "for what goes to which rank depends on values"));
    args->n_rows = owners->spec->layout.shape[owners->dim] * rows_each(owners);
    stn_status status = open_ranks(route, plan_slot, owners, args);
    if (status != STN_OK) {
        stni_queue_sync_for(call->context->queue, STN_SYNC_COUNTS); /* copies from and to route->host */
        stni_rows_close(route);
    }
    return status;
}

static stn_status exchange_rows(struct stni_rows_route *route, const void *rows, const int64_t *send, void *out,
                                const int64_t *recv, int64_t width, stn_dtype dtype)
{
    for (int r = 0; r < route->n_ranks; r++) {
        route->send_sized[r] = send[r] * width;
        route->recv_sized[r] = recv[r] * width;
    }
    return stni_comm_all_to_all(route->comm, route->call->context->queue, rows, route->send_sized, out,
                                route->recv_sized, dtype);
}

stn_status stni_rows_reply(struct stni_rows_route *route, const void *rows, void *out, int64_t width, stn_dtype dtype)
{
    return exchange_rows(route, rows, route->recv_counts, out, route->send_counts, width, dtype);
}

stn_status stni_rows_send(struct stni_rows_route *route, const void *rows, void *out, int64_t width, stn_dtype dtype)
{
    return exchange_rows(route, rows, route->send_counts, out, route->recv_counts, width, dtype);
}

int64_t stni_rows_received_before(const struct stni_rows_route *route)
{
    int64_t n = 0;
    for (int r = 0; r < stn_comm_rank(route->comm); r++)
        n += route->recv_counts[r];
    return n;
}

void stni_rows_close(struct stni_rows_route *route)
{
    if (!route->is_kept) {
        stni_free(route->host);
        stni_storage_release(route->slot_memory);
        stni_storage_release(route->received_memory);
    }
    *route = (struct stni_rows_route){.call = NULL};
}

void stni_rows_keep(struct stni_rows_route *route, struct stni_rows_route *kept)
{
    *kept = *route;
    kept->call = NULL;
    kept->asked = kept->counts = NULL;
    route->is_kept = 1;
}

void stni_rows_open_again(const stn_op_call *call, const struct stni_rows_route *kept, struct stni_rows_route *route)
{
    *route = *kept;
    route->call = call;
    route->is_kept = route->is_again = 1;
}
