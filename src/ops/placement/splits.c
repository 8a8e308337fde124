#include "ops/placement/splits.h"

#include "core/base/clamp.h"
#include "core/base/host_alloc.h"

int stni_splits_match(const struct stni_layout *a, int a_dim, const struct stni_layout *b, int b_dim)
{
    const uint32_t axes = stni_layout_axes_mask(a, a_dim);
    return axes && axes == stni_layout_axes_mask(b, b_dim);
}

/* Whether the same axes cut both dims, and `to` has no cut yet; then these axes get the order that they have in
 * `from`, in the places that they occupy together. */
static int join(struct stni_layout *to, int to_dim, const struct stni_layout *from, int from_dim)
{
    int axes[STN_MAX_MESH_NDIM];
    if (to->split[to_dim] || !stni_splits_match(to, to_dim, from, from_dim))
        return 0;
    const uint32_t mask = stni_layout_axes_mask(to, to_dim);
    stni_layout_dim_axes(from, from_dim, axes);
    for (int k = 0, i = 0; k < to->mesh->ndim; k++)
        if (mask >> to->axis_order[k] & 1)
            to->axis_order[k] = (uint8_t)axes[i++];
    return 1;
}

void stni_splits_take(struct stni_layout *to, int to_dim, const struct stni_layout *from, int from_dim, int dims)
{
    for (int d = 0; d < dims; d++)
        if (join(to, to_dim + d, from, from_dim + d))
            to->split[to_dim + d] = from->split[from_dim + d];
}

typedef int64_t (*offset_function)(int64_t offset, int64_t start, int64_t n, int64_t n_from);

/* offset'[i] = function(offset[i]), from 0 to n. */
static stn_status moved(stn_context *context, const struct stni_split *in, int64_t n, int64_t start,
                        offset_function function, const struct stni_split **out)
{
    size_t bytes = ((size_t)in->n_parts + 1) * sizeof(int64_t);
    int64_t *offsets = stni_malloc(bytes);
    if (!offsets)
        return stni_fail_memory(context, "cut that follows another", bytes);
    for (int i = 0; i < in->n_parts; i++)
        offsets[i] = function(stni_split_offset(in, i), start, n, in->n);
    offsets[0] = 0;
    offsets[in->n_parts] = n;
    stn_status status = stni_split_explicit(context, n, in->n_levels, in->parts, offsets, out);
    stni_free(offsets);
    return status;
}

/* How many elements of the part stand before element `offset` of the whole. */
static int64_t in_part(int64_t offset, int64_t start, int64_t n, int64_t n_from)
{
    (void)n_from;
    return stni_clamp(offset - start, 0, n);
}

/* Where element `offset` of the part stands in the whole; its ends are the whole's. */
static int64_t in_whole(int64_t offset, int64_t start, int64_t n, int64_t n_from)
{
    return offset == 0 ? 0 : offset == n_from ? n : offset + start;
}

stn_status stni_splits_take_part(stn_context *context, struct stni_layout *to, int to_dim,
                                 const struct stni_layout *from, int from_dim, int64_t start)
{
    if (!join(to, to_dim, from, from_dim))
        return STN_OK;
    if (to->shape[to_dim] != from->shape[from_dim])
        return moved(context, from->split[from_dim], to->shape[to_dim], start, in_part, &to->split[to_dim]);
    to->split[to_dim] = from->split[from_dim];
    return STN_OK;
}

stn_status stni_splits_take_whole(stn_context *context, struct stni_layout *to, int to_dim,
                                  const struct stni_layout *from, int from_dim, int64_t start)
{
    const struct stni_split *part = from->split[from_dim], *balanced, *again;
    int64_t n = to->shape[to_dim];
    if (!join(to, to_dim, from, from_dim))
        return STN_OK;
    STNI_TRY(stni_split_balanced(context, n, part->n_levels, part->parts, &balanced));
    STNI_TRY(moved(context, balanced, part->n, start, in_part, &again));
    to->split[to_dim] = balanced;
    return again == part ? STN_OK : moved(context, part, n, start, in_whole, &to->split[to_dim]);
}
