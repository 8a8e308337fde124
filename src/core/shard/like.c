/* Specs cut like another, and the sizes of a spec's pieces. */
#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/shard/spec.h"

#include <string.h>

/* How many levels of the cuts of `dim` a layout with the axes `wanted` can take over: the major axes that both have,
 * in the same order. */
static int common_levels(const struct stni_layout *like, int dim, int n, const int *wanted)
{
    int axes[STN_MAX_MESH_NDIM], level = 0;
    int n_like = stni_layout_dim_axes(like, dim, axes);
    while (level < n && level < n_like && axes[level] == wanted[level])
        level++;
    return level;
}

/* The first levels of a split alone: each of its pieces holds all that minor axes made of it. */
static stn_status coarsen(stn_context *context, const struct stni_split *split, int n_levels,
                          const struct stni_split **out)
{
    int n_parts = 1;
    *out = split;
    if (n_levels == split->n_levels)
        return STN_OK;
    if (split->offsets == NULL)
        return stni_split_balanced(context, split->n, n_levels, split->parts, out);
    for (int l = 0; l < n_levels; l++)
        n_parts *= split->parts[l];
    int64_t *offsets = stni_malloc(((size_t)n_parts + 1) * sizeof *offsets);
    if (offsets == NULL)
        return stni_fail_memory(context, "offsets of a split", ((size_t)n_parts + 1) * sizeof *offsets);
    for (int i = 0; i <= n_parts; i++)
        offsets[i] = stni_split_offset(split, i * (split->n_parts / n_parts));
    stn_status status = stni_split_explicit(context, split->n, n_levels, split->parts, offsets, out);
    stni_free(offsets);
    return status;
}

/* The cuts of `dim` as far as both layouts share their axes; left to balance where they share none. */
static stn_status copy_splits(stn_context *context, const struct stni_layout *like, int dim, struct stni_layout *layout)
{
    int axes[STN_MAX_MESH_NDIM];
    int n = stni_layout_dim_axes(layout, dim, axes);
    if (dim >= like->ndim || like->shape[dim] != layout->shape[dim])
        return STN_OK;
    int level = common_levels(like, dim, n, axes);
    if (level == 0)
        return STN_OK;
    STNI_TRY(coarsen(context, like->split[dim], level, &layout->split[dim]));
    for (; level < n; level++)
        STNI_TRY(stni_split_refined(context, layout->split[dim], layout->shape[dim], layout->mesh->sizes[axes[level]],
                                    &layout->split[dim]));
    return STN_OK;
}

/* The balanced spec that callers would get, checked as theirs is. */
static stn_status create_balanced(const stn_spec *like, const stn_placement *placements, stn_dtype dtype, int ndim,
                                  const int64_t *shape, const stn_spec **out)
{
    const struct stni_layout *layout = &like->layout;
    int axis_order[STN_MAX_MESH_NDIM], memory_order[STN_MAX_NDIM];
    for (int a = 0; layout->mesh != NULL && a < layout->mesh->ndim; a++)
        axis_order[a] = layout->axis_order[a];
    for (int d = 0; d < layout->ndim; d++)
        memory_order[d] = layout->memory_order[d];
    const stn_spec_options options = {
        .size = sizeof options, .axis_order = axis_order, .memory_order = ndim == layout->ndim ? memory_order : NULL};
    return stn_spec_create(like->context, layout->mesh, placements, dtype, ndim, shape, &options, out);
}

stn_status stn_spec_like(const stn_spec *like, const stn_placement *placements, stn_dtype dtype, int ndim,
                         const int64_t *shape, const stn_spec **out)
{
    const stn_spec *balanced, *spec;
    stn_status status = STN_OK;
    if (like == NULL)
        return STN_ERR_ARGUMENT;
    STNI_TRY(like->context->error.status);
    if (out == NULL)
        return stni_fail(like->context, STN_ERR_ARGUMENT, "stn_spec_like: out is NULL, wanted where to put the spec");
    STNI_TRY(create_balanced(like, placements, dtype, ndim, shape, &balanced));
    struct stni_layout layout = balanced->layout;
    for (int d = 0; d < ndim && status == STN_OK; d++)
        status = copy_splits(like->context, &like->layout, d, &layout);
    if (status == STN_OK)
        status = stni_spec_intern(like->context, &layout, &spec);
    if (status == STN_OK)
        *out = stn_spec_retain(spec);
    stn_spec_release(&balanced);
    return status;
}

int stn_spec_sizes(const stn_spec *spec, int dim, int64_t *sizes)
{
    if (spec == NULL || dim < 0 || dim >= spec->layout.ndim)
        return 0;
    const struct stni_split *split = spec->layout.split[dim];
    const int n = split == NULL ? 1 : split->n_parts;
    for (int i = 0; i < n && sizes != NULL; i++)
        sizes[i] =
            split == NULL ? spec->layout.shape[dim] : stni_split_offset(split, i + 1) - stni_split_offset(split, i);
    return n;
}
