#include "ops/placement/unshard.h"

#include "core/redistribute/refine.h"

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

stn_status stni_layout_recut(stn_context *context, struct stni_layout *layout, int dim, int other)
{
    int axes[STN_MAX_MESH_NDIM], n = stni_layout_dim_axes(layout, dim, axes);
    for (int i = 0; i < n; i++)
        STNI_TRY(stni_layout_cut_further(context, layout, axes[i], other));
    layout->split[dim] = NULL;
    return STN_OK;
}

uint32_t stni_cut_dims(const struct stni_layout *layout)
{
    uint32_t mask = 0;
    for (int a = 0; layout->mesh && a < layout->mesh->ndim; a++)
        if (layout->placement[a].kind == STN_PLACE_SHARD)
            mask |= 1u << layout->placement[a].dim;
    return mask;
}

/* How far axes could be moved to other dims. */
enum moved { STUCK, STARVED, MOVED };

/* Moves the axes that cut the dims in `wanted` to other dims. STARVED: some ranks get no elements. */
static stn_status move_cuts(stn_context *context, struct stni_layout *layout, uint32_t wanted, enum moved *out)
{
    uint32_t kept = wanted;
    int64_t length;
    *out = STUCK;
    for (int d = 0; d < layout->ndim; d++)
        kept |= layout->shape[d] <= 1 ? 1u << d : 0;
    for (int d = 0; d < layout->ndim; d++) {
        if (!(wanted & stni_cut_dims(layout) & 1u << d))
            continue;
        int other = stni_longest_dim(layout, kept, &length);
        if (other < 0)
            return STN_OK;
        STNI_TRY(stni_layout_recut(context, layout, d, other));
    }
    *out = MOVED;
    for (int d = 0; d < layout->ndim; d++)
        if (!(kept >> d & 1) && layout->split[d] && layout->split[d]->n_parts > layout->shape[d])
            *out = STARVED;
    return STN_OK;
}

static void gather(struct stni_layout *layout, uint32_t wanted)
{
    for (int a = 0; a < layout->mesh->ndim; a++)
        if (layout->placement[a].kind == STN_PLACE_SHARD && wanted >> layout->placement[a].dim & 1)
            layout->placement[a] = stn_replicate();
}

/* Tries all dims at once; else the first one that leaves every rank elements; else the first one for which it is
 * possible at all. */
stn_status stni_layout_unshard(stn_context *context, struct stni_layout *layout, uint32_t wanted)
{
    const struct stni_layout start = *layout;
    struct stni_layout starved = start;
    const uint32_t cut = stni_cut_dims(layout) & wanted;
    enum moved moved, best = STUCK;
    if (!cut)
        return STN_OK;
    STNI_TRY(move_cuts(context, layout, cut, &moved));
    for (int d = 0; d < start.ndim && moved != MOVED; d++) {
        if (!(cut >> d & 1))
            continue;
        *layout = start;
        STNI_TRY(move_cuts(context, layout, 1u << d, &moved));
        if (moved == STARVED && best == STUCK) {
            starved = *layout;
            best = STARVED;
        }
    }
    if (moved == MOVED)
        return STN_OK;
    *layout = starved;
    if (best == STUCK)
        gather(layout, wanted);
    return STN_OK;
}
