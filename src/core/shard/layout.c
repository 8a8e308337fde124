/* Layouts: what a spec says, as a value that can be edited, and its canonical form. */
#include "core/shard/spec.h"

#include <string.h>

void stni_layout_init(struct stni_layout *layout, const stn_mesh *mesh, stn_dtype dtype, int ndim, const int64_t *shape)
{
    memset(layout, 0, sizeof *layout);
    layout->mesh = mesh;
    layout->dtype = dtype;
    layout->ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        layout->shape[d] = shape[d];
        layout->memory_order[d] = (uint8_t)d;
    }
    for (int a = 0; mesh != NULL && a < mesh->ndim; a++)
        layout->axis_order[a] = (uint8_t)a;
}

int stni_layout_dim_axes(const struct stni_layout *layout, int dim, int axes[STN_MAX_MESH_NDIM])
{
    int n = 0;
    for (int k = 0; layout->mesh != NULL && k < layout->mesh->ndim; k++) {
        int a = layout->axis_order[k];
        stn_placement p = layout->placement[a];
        if (p.kind == STN_PLACE_SHARD && p.dim == dim && layout->mesh->sizes[a] > 1)
            axes[n++] = a;
    }
    return n;
}

uint32_t stni_layout_axes_mask(const struct stni_layout *layout, int dim)
{
    int axes[STN_MAX_MESH_NDIM], n = stni_layout_dim_axes(layout, dim, axes);
    uint32_t mask = 0;
    for (int i = 0; i < n; i++)
        mask |= 1u << axes[i];
    return mask;
}

uint32_t stni_layout_reduce(struct stni_layout *layout, uint32_t kept)
{
    uint32_t reduced = 0;
    for (int a = 0; layout->mesh != NULL && a < layout->mesh->ndim; a++) {
        const stn_placement p = layout->placement[a];
        if (p.kind != STN_PLACE_PARTIAL || (kept >> p.op & 1))
            continue;
        layout->placement[a] = stn_replicate();
        reduced |= 1u << a;
    }
    return reduced;
}

static int split_fits(const struct stni_split *split, int64_t n, int n_levels, const int *parts)
{
    return split != NULL && split->n == n && split->n_levels == n_levels &&
           memcmp(split->parts, parts, (size_t)n_levels * sizeof *parts) == 0;
}

stn_status stni_layout_balance(stn_context *context, struct stni_layout *layout)
{
    for (int d = 0; d < layout->ndim; d++) {
        int axes[STN_MAX_MESH_NDIM], parts[STN_MAX_MESH_NDIM];
        int n = stni_layout_dim_axes(layout, d, axes);
        for (int l = 0; l < n; l++)
            parts[l] = layout->mesh->sizes[axes[l]];
        if (n == 0)
            layout->split[d] = NULL;
        else if (!split_fits(layout->split[d], layout->shape[d], n, parts))
            STNI_TRY(stni_split_balanced(context, layout->shape[d], n, parts, &layout->split[d]));
    }
    return STN_OK;
}

static stn_placement canonical_placement(stn_placement p, int axis_size)
{
    if (axis_size == 1 || p.kind == STN_PLACE_REPLICATE)
        return stn_replicate();
    return p.kind == STN_PLACE_SHARD ? stn_shard(p.dim) : stn_partial((stn_reduce_op)p.op);
}

/* Only the order among axes that shard the same dim has a meaning: these take the places that mesh order gives to
 * them together. */
static void canonical_axis_order(struct stni_layout *layout)
{
    uint8_t order[STN_MAX_MESH_NDIM] = {0};
    for (int a = 0; a < layout->mesh->ndim; a++)
        order[a] = (uint8_t)a;
    for (int d = 0; d < layout->ndim; d++) {
        int axes[STN_MAX_MESH_NDIM];
        int n = stni_layout_dim_axes(layout, d, axes);
        for (int a = 0, k = 0; a < layout->mesh->ndim && n > 1; a++)
            if (layout->placement[a].kind == STN_PLACE_SHARD && layout->placement[a].dim == d)
                order[a] = (uint8_t)axes[k++];
    }
    memcpy(layout->axis_order, order, sizeof order);
}

static void canonical_memory_order(struct stni_layout *layout)
{
    uint8_t order[STN_MAX_NDIM] = {0};
    int n = 0;
    for (int k = 0; k < layout->ndim; k++)
        if (layout->shape[layout->memory_order[k]] != 1)
            order[n++] = layout->memory_order[k];
    for (int d = 0; d < layout->ndim; d++)
        if (layout->shape[d] == 1)
            order[n++] = (uint8_t)d;
    memcpy(layout->memory_order, order, sizeof order);
}

void stni_layout_canonicalise(struct stni_layout *layout)
{
    int axes = layout->mesh == NULL ? 0 : layout->mesh->ndim;
    for (int a = 0; a < axes; a++)
        layout->placement[a] = canonical_placement(layout->placement[a], layout->mesh->sizes[a]);
    for (int a = axes; a < STN_MAX_MESH_NDIM; a++)
        layout->placement[a] = stn_replicate();
    if (layout->mesh != NULL)
        canonical_axis_order(layout);
    else
        memset(layout->axis_order, 0, sizeof layout->axis_order);
    for (int d = layout->ndim; d < STN_MAX_NDIM; d++) {
        layout->shape[d] = 0;
        layout->split[d] = NULL;
    }
    canonical_memory_order(layout);
}
