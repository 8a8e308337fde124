/* Finer splits. */
#include "core/redistribute/refine.h"

#include <string.h>

/* The dim with the longest pieces, which can best be divided among more ranks. */
static int longest_dim(const struct stni_layout *layout)
{
    int longest = 0;
    int64_t length = -1;
    for (int d = 0; d < layout->ndim; d++) {
        int64_t piece = layout->split[d] == NULL ? layout->shape[d] : layout->shape[d] / layout->split[d]->n_parts;
        if (piece > length) {
            length = piece;
            longest = d;
        }
    }
    return longest;
}

stn_status stni_layout_cut_further(stn_context *context, struct stni_layout *layout, int axis, int dim)
{
    int n = 0;
    for (int k = 0; k < layout->mesh->ndim; k++)
        if (layout->axis_order[k] != axis)
            layout->axis_order[n++] = layout->axis_order[k];
    layout->axis_order[n] = (uint8_t)axis;
    layout->placement[axis] = stn_shard(dim);
    return stni_split_refined(context, layout->split[dim], layout->shape[dim], layout->mesh->sizes[axis],
                              &layout->split[dim]);
}

/* Where the source is sharded along the axis too, its own dim: what a rank has of it stays. */
static int dim_for(const struct stni_axis_roles *route, const struct stni_layout *layout, int k)
{
    if (!route->same_grid)
        return longest_dim(layout);
    stn_placement p = route->src.spec->layout.placement[route->src.axis[k]];
    return p.kind == STN_PLACE_SHARD ? p.dim : longest_dim(layout);
}

stn_status stni_refine(const struct stni_axis_roles *route, const stn_spec **out)
{
    const stn_spec *dst = route->dst.spec;
    struct stni_layout layout = dst->layout;
    *out = NULL;
    if (layout.ndim == 0)
        return STN_OK;
    for (int k = 0; k < route->dst.n; k++)
        if ((route->fan_out >> k & 1) != 0)
            STNI_TRY(stni_layout_cut_further(dst->context, &layout, route->dst.axis[k], dim_for(route, &layout, k)));
    return stni_spec_intern(dst->context, &layout, out);
}
