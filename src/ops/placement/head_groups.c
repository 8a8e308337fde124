#include "ops/placement/head_groups.h"

/* Whether a cut keeps groups of heads whole. */
static int keeps_groups(const struct stni_split *split, int64_t group)
{
    for (int i = 0; i < split->n_parts; i++)
        if (stni_split_offset(split, i) % group != 0)
            return 0;
    return 1;
}

stn_status stni_head_groups_cut(stn_context *context, struct stni_layout *leader, int head, int64_t group)
{
    const struct stni_split *split = group > 1 ? leader->split[head] : NULL;
    if (split == NULL || keeps_groups(split, group) || split->n / group < split->n_parts)
        return STN_OK;
    STNI_TRY(stni_split_balanced(context, split->n / group, split->n_levels, split->parts, &split));
    return stni_split_multiplied(context, split, group, &leader->split[head]);
}

stn_status stni_head_groups_follow(stn_context *context, const struct stni_layout *leader, int head, int64_t group,
                              struct stni_layout *layout, int own)
{
    int axes[STN_MAX_MESH_NDIM], n = stni_layout_dim_axes(leader, head, axes);
    if (n == 0 || !keeps_groups(leader->split[head], group))
        return STN_OK;
    for (int i = 0; i < n; i++)
        layout->placement[axes[i]] = stn_shard(own);
    return stni_split_divided(context, leader->split[head], group, &layout->split[own]);
}
