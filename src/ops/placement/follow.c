#include "ops/placement/follow.h"

#include "ops/placement/splits.h"

#include <string.h>

/* The leader's dim that dim `d` of a follower is in full; -1 for none. */
static int leads(const struct stni_layout *leader, const struct stni_layout *layout, const int8_t of[STN_MAX_NDIM],
                 int d)
{
    return of[d] >= 0 && layout->shape[d] == leader->shape[of[d]] ? of[d] : -1;
}

/* The longest of the first dims for each rank that it has so far; -1 where none has two elements. */
static int longest(const struct stni_layout *leader, int n_dims, const int64_t *ranks)
{
    int best = -1;
    for (int d = 0; d < n_dims; d++)
        if (leader->shape[d] / ranks[d] >= 2 &&
            (best < 0 || leader->shape[d] / ranks[d] > leader->shape[best] / ranks[best]))
            best = d;
    return best;
}

/* The leader's dim for a mesh axis; -1 for none. */
static int choose(const stn_op_call *call, int n, const struct stni_follower *followers, int n_dims,
                  const struct stni_layout *leader, int axis, const int64_t *ranks)
{
    int moves = 0;
    for (int i = 0; i < n; i++) {
        const struct stni_layout *in = &call->in_spec[followers[i].input]->layout;
        stn_placement placement = in->placement[axis];
        int d = placement.kind == STN_PLACE_SHARD ? leads(leader, in, followers[i].of, placement.dim) : -1;
        if (d >= 0)
            return d;
        moves |= placement.kind != STN_PLACE_REPLICATE;
    }
    return moves ? longest(leader, n_dims, ranks) : -1;
}

static void copy_split(const stn_op_call *call, int n, const struct stni_follower *followers,
                       struct stni_layout *leader, int dim)
{
    for (int i = 0; i < n; i++) {
        const struct stni_layout *in = &call->in_spec[followers[i].input]->layout;
        for (int d = 0; d < in->ndim; d++)
            if (leads(leader, in, followers[i].of, d) == dim)
                stni_splits_take(leader, dim, in, d, 1);
    }
}

stn_status stni_follow_lead(const stn_op_call *call, int n, const struct stni_follower *followers, int n_dims,
                            struct stni_layout *leader)
{
    int64_t ranks[STN_MAX_NDIM];
    for (int d = 0; d < STN_MAX_NDIM; d++)
        ranks[d] = 1;
    for (int axis = 0; leader->mesh && axis < leader->mesh->ndim; axis++) {
        int d = choose(call, n, followers, n_dims, leader, axis, ranks);
        leader->placement[axis] = d < 0 ? stn_replicate() : stn_shard(d);
        if (d >= 0)
            ranks[d] *= leader->mesh->sizes[axis];
    }
    for (int d = 0; leader->mesh && d < leader->ndim; d++)
        copy_split(call, n, followers, leader, d);
    return stni_layout_balance(call->context, leader);
}

stn_status stni_follow(const stn_op_call *call, const struct stni_layout *leader, const int8_t of[STN_MAX_NDIM],
                       int is_sum, struct stni_layout *layout, const stn_spec **out)
{
    memcpy(layout->axis_order, leader->axis_order, sizeof layout->axis_order);
    memset(layout->split, 0, sizeof layout->split);
    for (int axis = 0; layout->mesh && axis < layout->mesh->ndim; axis++) {
        stn_placement lead = leader->placement[axis];
        layout->placement[axis] = stn_replicate();
        if (lead.kind != STN_PLACE_SHARD)
            continue;
        if (is_sum)
            layout->placement[axis] = stn_partial(STN_SUM);
        for (int d = 0; d < layout->ndim; d++)
            if (leads(leader, layout, of, d) == lead.dim) {
                layout->placement[axis] = stn_shard(d);
                layout->split[d] = leader->split[lead.dim];
            }
    }
    return stni_spec_intern(call->context, layout, out);
}
