#include "ops/util/whole.h"

int stni_dim_ranks(const struct stni_layout *layout, int dim, uint32_t *axes)
{
    int own[STN_MAX_MESH_NDIM], ranks = 1, n = layout->mesh ? stni_layout_dim_axes(layout, dim, own) : 0;
    *axes = 0;
    for (int i = 0; i < n; i++) {
        *axes |= 1u << own[i];
        ranks *= layout->mesh->sizes[own[i]];
    }
    return ranks;
}

int stni_longest_dim(const struct stni_layout *layout, uint32_t kept, int64_t *length)
{
    int longest = -1;
    *length = 0;
    for (int d = 0; d < layout->ndim; d++) {
        int64_t n = layout->split[d] ? layout->shape[d] / layout->split[d]->n_parts : layout->shape[d];
        if (kept >> d & 1 || (longest >= 0 && n <= *length))
            continue;
        longest = d;
        *length = n;
    }
    return longest;
}

/* The axis stands last, as the minor one of those that cut the dim. */
static void move_last(struct stni_layout *layout, int axis)
{
    int n = 0;
    for (int k = 0; k < layout->mesh->ndim; k++)
        if (layout->axis_order[k] != axis)
            layout->axis_order[n++] = layout->axis_order[k];
    layout->axis_order[n] = (uint8_t)axis;
}

stn_status stni_layout_recut(stn_context *context, struct stni_layout *layout, int dim, int other)
{
    int axes[STN_MAX_MESH_NDIM], n = stni_layout_dim_axes(layout, dim, axes);
    for (int i = 0; i < n; i++) {
        move_last(layout, axes[i]);
        layout->placement[axes[i]] = stn_shard(other);
        STNI_TRY(stni_split_refined(context, layout->split[other], layout->shape[other], layout->mesh->sizes[axes[i]],
                                    &layout->split[other]));
    }
    layout->split[dim] = NULL;
    return STN_OK;
}
