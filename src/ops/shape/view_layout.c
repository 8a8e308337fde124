/* Layouts of views (contract 2, "Views"). */
#include "ops/shape/view_layout.h"

#include "core/context/context.h"
#include "core/base/host_alloc.h"

#include <string.h>

int64_t stni_view_after(const int64_t *shape, int dim, int end)
{
    int64_t product = 1;
    for (int d = dim + 1; d < end; d++)
        product *= shape[d];
    return product;
}

static int old_end(const struct stni_view_group *g)
{
    return g->old_first + g->old_n;
}

static int new_end(const struct stni_view_group *g)
{
    return g->new_first + g->new_n;
}

static void find_cut(struct stni_view_group *g, const int64_t *new_shape)
{
    g->cut = g->new_n > 0 ? g->new_first : -1;
    for (int d = new_end(g) - 1; d >= g->new_first; d--)
        if (new_shape[d] != 1)
            g->cut = d;
    g->after = g->cut < 0 ? 1 : stni_view_after(new_shape, g->cut, new_end(g));
}

void stni_view_groups_make(int old_ndim, const int64_t *old_shape, int new_ndim, const int64_t *new_shape,
                           struct stni_view_groups *out)
{
    int i = 0, j = 0;
    *out = (struct stni_view_groups){0};
    while (i < old_ndim && j < new_ndim) {
        struct stni_view_group *g = &out->group[out->n++];
        int64_t old_product = old_shape[i], new_product = new_shape[j];
        g->old_first = i++;
        g->new_first = j++;
        while (old_product != new_product)
            if (old_product < new_product)
                old_product *= old_shape[i++];
            else
                new_product *= new_shape[j++];
        g->old_n = i - g->old_first;
        g->new_n = j - g->new_first;
    }
    /* What is left is all ones. */
    if (out->n == 0 && (old_ndim > 0 || new_ndim > 0))
        out->n = 1;
    if (out->n > 0) {
        struct stni_view_group *last = &out->group[out->n - 1];
        last->old_n = old_ndim - last->old_first;
        last->new_n = new_ndim - last->new_first;
    }
    for (int g = 0; g < out->n; g++)
        find_cut(&out->group[g], new_shape);
}

/* How a group of the old shape is sharded: by which axes, major to minor, and at which flat indices: those of
 * `split`, times `scale`. */
struct group_cut {
    int n_axes, axes[STN_MAX_MESH_NDIM];
    int in_place; /* the chunks are already ranges of the flat index; else they move to a balanced cut, and split is NULL */
    const struct stni_split *split;
    int64_t scale;
};

static void find_group_cut(const struct stni_layout *in, const struct stni_view_group *g, struct group_cut *out)
{
    int64_t before = 1;
    *out = (struct group_cut){.in_place = 1, .scale = 1};
    for (int d = g->old_first; d < old_end(g); d++) {
        int n = stni_layout_dim_axes(in, d, out->axes + out->n_axes);
        if (n > 0) {
            out->in_place = out->n_axes == 0 && before == 1;
            out->split = out->in_place ? in->split[d] : NULL;
            out->scale = out->in_place ? stni_view_after(in->shape, d, old_end(g)) : 1;
        }
        out->n_axes += n;
        before *= in->shape[d];
    }
}

static stn_status balance_group(const stn_spec *in, const struct stni_view_group *g, struct group_cut *cut)
{
    int parts[STN_MAX_MESH_NDIM];
    for (int i = 0; i < cut->n_axes; i++)
        parts[i] = in->layout.mesh->sizes[cut->axes[i]];
    int64_t n = stni_view_after(in->layout.shape, g->old_first - 1, old_end(g));
    return stni_split_balanced(in->context, n, cut->n_axes, parts, &cut->split);
}

/* out[i] = ceil(split[i] scale / after): a row that straddles goes to the rank that has its beginning. */
static stn_status derive_split(stn_context *context, const struct group_cut *cut, int64_t n, int64_t after,
                               const struct stni_split **out)
{
    const struct stni_split *from = cut->split;
    if (from->n == n && cut->scale == after) {
        *out = from;
        return STN_OK;
    }
    if (!from->offsets && from->n % from->n_parts == 0 && n % from->n_parts == 0)
        return stni_split_balanced(context, n, from->n_levels, from->parts, out);
    size_t bytes = ((size_t)from->n_parts + 1) * sizeof(int64_t);
    int64_t *offsets = stni_malloc(bytes);
    if (!offsets)
        return stni_fail_memory(context, "cut of a view", bytes);
    for (int i = 0; i <= from->n_parts; i++) {
        int64_t flat = stni_split_offset(from, i) * cut->scale;
        offsets[i] = flat / after + (flat % after != 0);
    }
    stn_status status = stni_split_explicit(context, n, from->n_levels, from->parts, offsets, out);
    stni_free(offsets);
    return status;
}

/* Moves the Shards of a group to its new dim, and lists their axes in the order in which they cut. */
static stn_status place_group(const stn_spec *in, const struct stni_view_group *g, struct stni_layout *out,
                              int *n_ordered)
{
    struct group_cut cut;
    find_group_cut(&in->layout, g, &cut);
    if (cut.n_axes == 0)
        return STN_OK;
    if (!cut.in_place)
        STNI_TRY(balance_group(in, g, &cut));
    for (int i = 0; i < cut.n_axes; i++) {
        out->placement[cut.axes[i]] = stn_shard(g->cut);
        out->axis_order[(*n_ordered)++] = (uint8_t)cut.axes[i];
    }
    return derive_split(in->context, &cut, out->shape[g->cut], g->after, &out->split[g->cut]);
}

/* Groups keep their order in memory where each is contiguous there: returns 1. Else the view is row-major. */
static int order_memory(const struct stni_layout *in, const struct stni_view_groups *groups, struct stni_layout *out)
{
    int at = 0, n = 0;
    uint8_t order[STN_MAX_NDIM];
    while (at < in->ndim && in->shape[in->memory_order[at]] != 1) {
        const struct stni_view_group *g = groups->group;
        while (in->memory_order[at] >= old_end(g))
            g++;
        for (int d = g->old_first; d < old_end(g); d++)
            if (in->shape[d] != 1 && (at == in->ndim || in->memory_order[at++] != d))
                return 0;
        for (int d = g->new_first; d < new_end(g); d++)
            if (out->shape[d] != 1)
                order[n++] = (uint8_t)d;
    }
    for (int d = 0; d < out->ndim; d++)
        if (out->shape[d] == 1)
            order[n++] = (uint8_t)d;
    memcpy(out->memory_order, order, (size_t)n);
    return 1;
}

/* A tensor without elements: any dim may hold a Shard, and the cuts are balanced. */
static void place_empty(const struct stni_layout *in, struct stni_layout *out)
{
    memcpy(out->axis_order, in->axis_order, sizeof out->axis_order);
    for (int a = 0; a < in->mesh->ndim; a++)
        if (in->placement[a].kind == STN_PLACE_SHARD)
            out->placement[a] = stn_shard(in->placement[a].dim < out->ndim ? in->placement[a].dim : out->ndim - 1);
}

static stn_status place_groups(const stn_spec *in, const struct stni_view_groups *groups, struct stni_layout *out)
{
    int n_ordered = 0;
    for (int g = 0; g < groups->n; g++)
        STNI_TRY(place_group(in, &groups->group[g], out, &n_ordered));
    for (int a = 0; a < in->layout.mesh->ndim; a++)
        if (in->layout.placement[a].kind != STN_PLACE_SHARD)
            out->axis_order[n_ordered++] = (uint8_t)a;
    return STN_OK;
}

/* `in` without Shards, for a view without dims. */
static stn_status unshard(const stn_spec *in, const stn_spec **want)
{
    struct stni_layout layout = in->layout;
    for (int a = 0; a < layout.mesh->ndim; a++)
        if (layout.placement[a].kind == STN_PLACE_SHARD)
            layout.placement[a] = stn_replicate();
    return stni_spec_intern(in->context, &layout, want);
}

/* Whether every piece begins at a whole row of the new cut. Looks at single pieces only where divisibility does not
 * tell. */
static int cut_is_exact(const struct group_cut *cut, const struct stni_split *to, int64_t after)
{
    const struct stni_split *from = cut->split;
    if (cut->scale % after == 0)
        return 1;
    if (!from->offsets && from->n % from->n_parts == 0)
        return from->n / from->n_parts * cut->scale % after == 0;
    for (int i = 0; i <= from->n_parts; i++)
        if (stni_split_offset(from, i) * cut->scale != stni_split_offset(to, i) * after)
            return 0;
    return 1;
}

static uint32_t axes_that_move(const stn_spec *in, const stn_spec *out, const struct stni_view_groups *groups)
{
    uint32_t moves = 0;
    for (int i = 0; i < groups->n; i++) {
        const struct stni_view_group *g = &groups->group[i];
        struct group_cut cut;
        find_group_cut(&in->layout, g, &cut);
        if (cut.n_axes == 0 || (cut.in_place && cut_is_exact(&cut, out->layout.split[g->cut], g->after)))
            continue;
        for (int a = 0; a < cut.n_axes; a++)
            moves |= 1u << cut.axes[a];
    }
    return moves;
}

stn_status stni_view_place(const stn_spec *in, int ndim, const int64_t *shape, struct stni_view_place *out)
{
    struct stni_layout layout;
    struct stni_view_groups groups = {0};
    *out = (struct stni_view_place){.want = in};
    if (ndim == 0 && in->shard_axes)
        STNI_TRY(unshard(in, &out->want));
    in = out->want;
    stni_layout_init(&layout, in->layout.mesh, in->layout.dtype, ndim, shape);
    if (in->numel > 0) {
        stni_view_groups_make(in->layout.ndim, in->layout.shape, ndim, shape, &groups);
        out->keeps_order = order_memory(&in->layout, &groups, &layout);
    }
    for (int a = 0; layout.mesh && a < layout.mesh->ndim; a++)
        if (in->layout.placement[a].kind == STN_PLACE_PARTIAL)
            layout.placement[a] = in->layout.placement[a];
    if (in->shard_axes && in->numel > 0)
        STNI_TRY(place_groups(in, &groups, &layout));
    else if (in->shard_axes)
        place_empty(&in->layout, &layout);
    STNI_TRY(stni_spec_intern(in->context, &layout, &out->out));
    out->moves = axes_that_move(in, out->out, &groups);
    return STN_OK;
}

int stni_view_strides(const struct stni_view_groups *groups, const int64_t *old_shape, const int64_t *old_strides,
                      const int64_t *new_shape, int64_t *new_strides)
{
    for (int i = 0; i < groups->n; i++) {
        const struct stni_view_group *g = &groups->group[i];
        int64_t step = 1, size = 1; /* of what has been merged, from the fastest dim on; a repeated dim has the step 0 */
        for (int d = old_end(g) - 1; d >= g->old_first; d--) {
            if (old_shape[d] == 1)
                continue;
            if (size != 1 && old_strides[d] != step * size)
                return 0;
            if (size == 1)
                step = old_strides[d];
            size *= old_shape[d];
        }
        int64_t stride = step;
        for (int d = new_end(g) - 1; d >= g->new_first; d--) {
            new_strides[d] = stride;
            stride *= new_shape[d];
        }
    }
    return 1;
}
