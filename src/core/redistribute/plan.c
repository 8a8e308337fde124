/* The plan of one exchange: a rank's receives from the source's side, and as their mirror its sends to the
 * destination's. */
#include "core/redistribute/plan.h"

#include "core/base/host_alloc.h"
#include "core/redistribute/peers.h"
#include "core/redistribute/overlap.h"

#include <string.h>

/* Which replica sends to a receiver: the receiver itself where it is a replica, so that it keeps what it has; else
 * the replicas take turns. */
static void choose_replica(const struct stni_axis_roles *route, int rank, int position, int pin[STN_MAX_MESH_NDIM])
{
    int own[STN_MAX_MESH_NDIM];
    int member = stni_axis_roles_find(&route->src, rank, own);
    for (int k = route->src.n - 1; k >= 0; k--) {
        if ((route->replicas >> k & 1) == 0)
            continue;
        pin[k] = member ? own[k] : position % route->src.size[k];
        position /= route->src.size[k];
    }
}

static int is_empty(const struct stni_overlap *walk)
{
    for (int d = 0; d < walk->side->spec->layout.ndim; d++)
        if (walk->shape[d] == 0)
            return 1;
    return 0;
}

/* 1 if a coordinate along some axis of `mask` is not 0. */
static int beyond_first(const int *coordinate, int n, uint32_t mask)
{
    for (int k = 0; k < n; k++)
        if ((mask >> k & 1) != 0 && coordinate[k] != 0)
            return 1;
    return 0;
}

static stn_status plan_receives(stn_context *context, const struct stni_axis_roles *route, int rank,
                                const struct stni_frame *frame, struct stni_plan *plan, int *ordered)
{
    int at[STN_MAX_MESH_NDIM];
    if (!stni_axis_roles_find(&route->dst, rank, at) || beyond_first(at, route->dst.n, route->first_only))
        return STN_OK;
    struct stni_overlap walk = {.side = &route->src, .each = route->addends};
    stn_spec_chunk(route->dst.spec, rank, walk.shape, walk.offset);
    if (is_empty(&walk))
        return STN_OK;
    for (int k = 0; k < route->src.n; k++)
        walk.pin[k] = (route->coupled >> k & 1) != 0 ? at[k] : -1;
    if (route->replicas != 0)
        choose_replica(route, rank, stni_mesh_position(route->dst.mesh, rank), walk.pin);
    return stni_overlap_peers(context, &walk, frame, plan, &plan->recv, ordered);
}

static stn_status plan_sends(stn_context *context, const struct stni_axis_roles *route, int rank,
                             const struct stni_frame *frame, struct stni_plan *plan, int *ordered)
{
    int at[STN_MAX_MESH_NDIM];
    if (!stni_axis_roles_find(&route->src, rank, at) ||
        beyond_first(at, route->src.n, route->coupled & route->first_only))
        return STN_OK;
    struct stni_overlap walk = {.side = &route->dst, .each = route->fan_out};
    stn_spec_chunk(route->src.spec, rank, walk.shape, walk.offset);
    if (is_empty(&walk))
        return STN_OK;
    for (int k = 0; k < route->dst.n; k++)
        walk.pin[k] = (route->coupled >> k & 1) != 0 ? at[k] : (route->first_only >> k & 1) != 0 ? 0 : -1;
    return stni_overlap_peers(context, &walk, frame, plan, &plan->send, ordered);
}

/* Of the receivers that need parts of this rank's chunk, drops those that other replicas send to. Peers are
 * positions of the destination. */
static void drop_others(const struct stni_axis_roles *route, int rank, struct stni_plan_messages *send)
{
    int own[STN_MAX_MESH_NDIM] = {0}, kept = 0;
    stni_axis_roles_find(&route->src, rank, own);
    for (int i = 0; i < send->n; i++) {
        int pin[STN_MAX_MESH_NDIM], mine = 1, position = send->items[i].peer;
        choose_replica(route, stni_mesh_rank(route->dst.mesh, position), position, pin);
        for (int k = 0; k < route->src.n; k++)
            mine &= (route->replicas >> k & 1) == 0 || pin[k] == own[k];
        if (mine)
            send->items[kept++] = send->items[i];
    }
    send->n = kept;
}

/* Peers become world ranks; those of a list are in no order. */
static void name_world_ranks(struct stni_plan_messages *messages, const stn_mesh *mesh, int *ordered)
{
    int before = -1;
    *ordered = 1;
    for (int i = 0; i < messages->n; i++) {
        int rank = stni_mesh_rank(mesh, messages->items[i].peer);
        messages->items[i].peer = rank;
        *ordered &= rank > before;
        before = rank;
    }
}

int stni_plan_self(const struct stni_axis_roles *route, int rank)
{
    int at[STN_MAX_MESH_NDIM], number = 0;
    if (!route->same_grid)
        return rank;
    if (!stni_axis_roles_find(&route->src, rank, at))
        return -1;
    for (int k = 0; k < route->src.n; k++)
        number += at[k] * route->src.step[k];
    return number;
}

stn_status stni_plan_make(stn_context *context, const struct stni_axis_roles *route, int rank,
                          const struct stni_frame *src, const struct stni_frame *dst, struct stni_plan *plan)
{
    int send_ordered = 1, recv_ordered = 1;
    plan->send.n = plan->recv.n = 0;
    STNI_TRY(plan_receives(context, route, rank, dst, plan, &recv_ordered));
    STNI_TRY(plan_sends(context, route, rank, src, plan, &send_ordered));
    if (!route->same_grid) {
        if (route->replicas != 0)
            drop_others(route, rank, &plan->send);
        name_world_ranks(&plan->recv, route->src.mesh, &recv_ordered);
        name_world_ranks(&plan->send, route->dst.mesh, &send_ordered);
    }
    if (!recv_ordered)
        STNI_TRY(stni_peers_sort(context, &plan->recv));
    return send_ordered ? STN_OK : stni_peers_sort(context, &plan->send);
}

void stni_plan_free(struct stni_plan *plan)
{
    stni_free(plan->send.items);
    stni_free(plan->recv.items);
    stni_free(plan->entries);
    memset(plan, 0, sizeof *plan);
}
