/* What a redistribution means for each axis. */
#include "core/redistribute/axis_roles.h"

#include <string.h>

static stn_placement placement_of(const struct stni_axis_roles_side *side, int k)
{
    return side->spec->layout.placement[side->axis[k]];
}

static void make_side(struct stni_axis_roles_side *side, const stn_spec *spec)
{
    memset(side, 0, sizeof *side);
    side->spec = spec;
    side->mesh = spec->layout.mesh;
    int wide[STN_MAX_MESH_NDIM] = {0};
    for (int a = 0; a < side->mesh->ndim; a++) {
        wide[a] = side->n;
        if (side->mesh->sizes[a] == 1)
            continue;
        side->axis[side->n] = a;
        side->size[side->n++] = side->mesh->sizes[a];
    }
    for (int d = 0; d < spec->layout.ndim; d++) {
        int axes[STN_MAX_MESH_NDIM];
        side->n_levels[d] = stni_layout_dim_axes(&spec->layout, d, axes);
        for (int l = 0; l < side->n_levels[d]; l++)
            side->level[d][l] = wide[axes[l]];
    }
}

/* Row-major steps over the axes in `mask`; the others add nothing. */
static void set_steps(struct stni_axis_roles_side *side, uint32_t mask)
{
    int step = 1;
    for (int k = side->n - 1; k >= 0; k--) {
        side->step[k] = (mask >> k & 1) != 0 ? step : 0;
        step *= (mask >> k & 1) != 0 ? side->size[k] : 1;
    }
}

/* Whether two splits of a dim have the same first `levels` levels, pieces taken whole. */
static int same_prefix(const struct stni_split *a, const struct stni_split *b, int levels)
{
    if (a == b || (a->offsets == NULL && b->offsets == NULL))
        return 1;
    int pieces = 1;
    for (int l = 0; l < levels; l++)
        pieces *= a->parts[l];
    int width_a = a->n_parts / pieces, width_b = b->n_parts / pieces;
    for (int i = 1; i < pieces; i++)
        if (stni_split_offset(a, i * width_a) != stni_split_offset(b, i * width_b))
            return 0;
    return 1;
}

/* Axes that shard a dim in both specs, at the same places, before any axis that differs: no element changes its
 * coordinate there. */
static uint32_t unmoved_axes(const struct stni_axis_roles *route)
{
    uint32_t unmoved = 0;
    const struct stni_axis_roles_side *src = &route->src, *dst = &route->dst;
    for (int d = 0; d < src->spec->layout.ndim; d++) {
        const struct stni_split *a = src->spec->layout.split[d], *b = dst->spec->layout.split[d];
        for (int l = 0; l < src->n_levels[d] && l < dst->n_levels[d] && src->level[d][l] == dst->level[d][l]; l++) {
            if (!same_prefix(a, b, l + 1))
                break;
            unmoved |= 1u << src->level[d][l];
        }
    }
    return unmoved;
}

/* Pending reductions are done from the first axis to the last. Sum and average may change places, other ops may not. */
static int may_change_places(int op, uint32_t others)
{
    uint32_t linear = 1u << STN_SUM | 1u << STN_AVG;
    uint32_t same = 1u << op;
    return (others & ~same) == 0 || ((same & linear) != 0 && (others & ~linear) == 0);
}

/* Which pending reductions stay pending: those of the same op on both sides, unless one of another op on a later
 * axis is done now. */
static uint32_t kept_axes(const struct stni_axis_roles *route)
{
    uint32_t kept = 0, taken = 0;
    for (int k = route->src.n - 1; k >= 0; k--) {
        stn_placement s = placement_of(&route->src, k);
        if (s.kind != STN_PLACE_PARTIAL)
            continue;
        stn_placement t = placement_of(&route->dst, k);
        if (t.kind == STN_PLACE_PARTIAL && t.op == s.op && may_change_places(s.op, taken))
            kept |= 1u << k;
        else
            taken |= 1u << s.op;
    }
    return kept;
}

static void note_source(struct stni_axis_roles *route, int k, uint32_t kept)
{
    uint32_t bit = 1u << k;
    stn_placement s = placement_of(&route->src, k);
    if (s.kind == STN_PLACE_REPLICATE && route->same_grid)
        route->coupled |= bit;
    else if (s.kind == STN_PLACE_REPLICATE)
        route->replicas |= bit;
    else if (s.kind == STN_PLACE_PARTIAL && (kept & bit) != 0)
        route->coupled |= bit;
    else if (s.kind == STN_PLACE_PARTIAL) {
        route->addends |= bit;
        route->ops |= 1u << s.op;
    }
}

/* A fresh Partial leaves each element where it is: a Shard is coupled, of others coordinate 0 is the holder. The
 * average has no identity: each coordinate holds the value, as under Replicate. */
static void note_destination(struct stni_axis_roles *route, int k, uint32_t kept)
{
    uint32_t bit = 1u << k;
    stn_placement t = placement_of(&route->dst, k);
    if (t.kind == STN_PLACE_SHARD || (kept & bit) != 0)
        return;
    if (t.kind == STN_PLACE_REPLICATE || t.op == STN_AVG) {
        route->fan_out |= bit;
        return;
    }
    route->fresh |= bit;
    route->fresh_ops |= 1u << t.op;
    if (route->same_grid && placement_of(&route->src, k).kind == STN_PLACE_SHARD)
        route->coupled |= bit;
    else
        route->first_only |= bit;
}

void stni_axis_roles_make(const stn_spec *src, const stn_spec *dst, struct stni_axis_roles *route)
{
    memset(route, 0, sizeof *route);
    make_side(&route->src, src);
    make_side(&route->dst, dst);
    route->same_grid = stni_mesh_same_grid(src->layout.mesh, dst->layout.mesh);
    uint32_t kept = route->same_grid ? kept_axes(route) : 0;
    for (int k = 0; k < route->src.n; k++)
        note_source(route, k, kept);
    for (int k = 0; k < route->dst.n; k++)
        note_destination(route, k, kept);
    if (route->same_grid)
        route->coupled |= unmoved_axes(route);
    route->fan_out &= ~route->coupled;
    set_steps(&route->src, ~route->coupled);
    set_steps(&route->dst, ~route->coupled);
    for (int k = 0; k < route->src.n && route->same_grid; k++)
        if ((route->coupled >> k & 1) == 0)
            route->axes |= 1u << route->src.axis[k];
}

int stni_axis_roles_find(const struct stni_axis_roles_side *side, int rank, int coordinate[STN_MAX_MESH_NDIM])
{
    int at[STN_MAX_MESH_NDIM];
    if (!stni_mesh_find(side->mesh, rank, at))
        return 0;
    for (int k = 0; k < side->n; k++)
        coordinate[k] = at[side->axis[k]];
    return 1;
}
