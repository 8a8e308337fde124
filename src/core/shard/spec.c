/* Specs: interning, chunks and the public accessors. */
#include "core/shard/spec.h"

#include "core/context/context.h"
#include "core/shard/tables.h"

#include <string.h>

/* The layout is compared as bytes: no padding may be in it. */
_Static_assert(sizeof(struct stni_layout) ==
                   sizeof(void *) + 8 + STN_MAX_NDIM * (8 + 1 + sizeof(void *)) + STN_MAX_MESH_NDIM * 5,
               "struct stni_layout has padding");

static unsigned hash_layout(const struct stni_layout *layout)
{
    uint64_t words[3 + STN_MAX_MESH_NDIM * sizeof(stn_placement) / 8];
    words[0] = (uintptr_t)layout->mesh ^ (uint64_t)layout->dtype << 48 ^ (uint64_t)layout->ndim << 56;
    memcpy(&words[1], layout->memory_order, 8);
    memcpy(&words[2], layout->axis_order, 8);
    memcpy(&words[3], layout->placement, sizeof layout->placement);
    uint64_t hash = 0;
    size_t n_words = layout->mesh == NULL ? 2 : 3 + ((size_t)layout->mesh->ndim + 1) / 2;
    for (size_t i = 0; i < n_words; i++)
        hash = stni_hash_step(hash, words[i]);
    for (int d = 0; d < layout->ndim; d++)
        hash = stni_hash_step(hash, (uint64_t)layout->shape[d]);
    for (int d = 0; d < layout->ndim && layout->mesh != NULL; d++)
        hash = stni_hash_step(hash, (uintptr_t)layout->split[d]);
    return stni_hash_end(hash);
}

/* Elements of the whole; STN_ERR_SHAPE where their bytes cannot be counted. */
static stn_status count_elements(stn_context *context, const struct stni_layout *layout, int64_t *numel)
{
    int64_t n = 1, bytes = (int64_t)stn_dtype_size(layout->dtype);
    int empty = 0;
    for (int d = 0; d < layout->ndim; d++) {
        int64_t extent = layout->shape[d] == 0 ? 1 : layout->shape[d];
        empty |= layout->shape[d] == 0;
        if (__builtin_mul_overflow(bytes, extent, &bytes))
            return stni_fail(context, STN_ERR_SHAPE,
                             "spec: shape[0] to shape[%d] give more than 2^63 - 1 bytes of %s, wanted fewer", d,
                             stn_dtype_name(layout->dtype));
        n *= extent;
    }
    *numel = empty ? 0 : n;
    return STN_OK;
}

static void fill_local(stn_spec *spec)
{
    const struct stni_layout *layout = &spec->layout;
    if (layout->mesh != NULL && !layout->mesh->member)
        return;
    stni_spec_chunk_at(spec, layout->mesh == NULL ? NULL : layout->mesh->coordinate, spec->local_shape,
                       spec->local_offset);
    spec->local_numel = 1;
    int64_t stride = 1;
    for (int k = layout->ndim - 1; k >= 0; k--) {
        int d = layout->memory_order[k];
        spec->local_numel *= spec->local_shape[d];
        spec->strides[d] = stride;
        stride *= spec->local_shape[d] == 0 ? 1 : spec->local_shape[d];
    }
    spec->local_bytes = (size_t)spec->local_numel * stn_dtype_size(layout->dtype);
}

static void fill_axes(stn_spec *spec)
{
    for (int a = 0; a < STN_MAX_MESH_NDIM; a++) {
        spec->partial_axes |= (uint32_t)(spec->layout.placement[a].kind == STN_PLACE_PARTIAL) << a;
        spec->shard_axes |= (uint32_t)(spec->layout.placement[a].kind == STN_PLACE_SHARD) << a;
    }
}

static void use_splits(const struct stni_layout *layout, int n)
{
    for (int d = 0; d < layout->ndim; d++)
        if (layout->split[d] != NULL)
            ((struct stni_split *)layout->split[d])->refs += n;
}

static stn_status make(stn_context *context, const struct stni_layout *layout, unsigned hash, const stn_spec **out)
{
    int64_t numel = 0;
    STNI_TRY(count_elements(context, layout, &numel));
    stn_spec *spec = stni_calloc(1, sizeof *spec);
    if (spec == NULL)
        return stni_fail_memory(context, "spec", sizeof *spec);
    spec->layout = *layout;
    spec->context = context;
    spec->numel = numel;
    fill_axes(spec);
    fill_local(spec);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, context->shard.specs, &spec->layout, sizeof spec->layout, hash, spec);
    if (spec->hh.tbl == NULL) {
        stni_free(spec);
        return stni_fail_memory(context, "table of specs", sizeof *spec);
    }
    use_splits(layout, 1);
    context->shard.n_specs++;
    *out = spec;
    return STN_OK;
}

stn_status stni_spec_intern(stn_context *context, const struct stni_layout *layout, const stn_spec **out)
{
    struct stni_layout canonical = *layout;
    stni_layout_canonicalise(&canonical);
    STNI_TRY(stni_layout_balance(context, &canonical));
    unsigned hash = hash_layout(&canonical);
    stn_spec *found;
    HASH_FIND_BYHASHVALUE(hh, context->shard.specs, &canonical, sizeof canonical, hash, found);
    if (found == NULL)
        return make(context, &canonical, hash, out);
    *out = found;
    return STN_OK;
}

void stni_spec_free(stn_spec *spec)
{
    HASH_DEL(spec->context->shard.specs, spec);
    use_splits(&spec->layout, -1);
    spec->context->shard.n_specs--;
    stni_free(spec);
}

stn_status stni_spec_local(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, const stn_spec **out)
{
    struct stni_layout layout;
    stni_layout_init(&layout, NULL, dtype, ndim, shape);
    return stni_spec_intern(context, &layout, out);
}

stn_status stni_spec_of_chunk(const stn_spec *spec, const stn_spec **out)
{
    struct stni_layout layout;
    stni_layout_init(&layout, NULL, spec->layout.dtype, spec->layout.ndim, spec->local_shape);
    memcpy(layout.memory_order, spec->layout.memory_order, sizeof layout.memory_order);
    return stni_spec_intern(spec->context, &layout, out);
}

int stni_spec_piece(const stn_spec *spec, int dim, const int coordinate[STN_MAX_MESH_NDIM])
{
    int axes[STN_MAX_MESH_NDIM], piece = 0;
    int n = stni_layout_dim_axes(&spec->layout, dim, axes);
    for (int l = 0; l < n; l++)
        piece = piece * spec->layout.mesh->sizes[axes[l]] + coordinate[axes[l]];
    return piece;
}

void stni_spec_chunk_at(const stn_spec *spec, const int coordinate[STN_MAX_MESH_NDIM], int64_t *shape, int64_t *offset)
{
    for (int d = 0; d < spec->layout.ndim; d++) {
        const struct stni_split *split = spec->layout.split[d];
        int piece = split == NULL ? 0 : stni_spec_piece(spec, d, coordinate);
        int64_t begin = split == NULL ? 0 : stni_split_offset(split, piece);
        int64_t end = split == NULL ? spec->layout.shape[d] : stni_split_offset(split, piece + 1);
        if (offset != NULL)
            offset[d] = begin;
        if (shape != NULL)
            shape[d] = end - begin;
    }
}

void stn_spec_chunk(const stn_spec *spec, int rank, int64_t *shape, int64_t *offset)
{
    int coordinate[STN_MAX_MESH_NDIM];
    if (spec == NULL)
        return;
    size_t bytes = (size_t)spec->layout.ndim * sizeof(int64_t);
    if (spec->layout.mesh == NULL || stni_mesh_find(spec->layout.mesh, rank, coordinate)) {
        stni_spec_chunk_at(spec, coordinate, shape, offset);
        return;
    }
    if (shape != NULL)
        memset(shape, 0, bytes);
    if (offset != NULL)
        memset(offset, 0, bytes);
}

/* Axes of more than one rank, in mesh order; returns how many. `place` gives an axis its place among them. */
static int wide_axes(const stn_mesh *mesh, int axes[STN_MAX_MESH_NDIM], int place[STN_MAX_MESH_NDIM])
{
    int n = 0;
    for (int a = 0; a < mesh->ndim; a++) {
        place[a] = n;
        if (mesh->sizes[a] > 1)
            axes[n++] = a;
    }
    return n;
}

int stni_spec_same_chunks(const stn_spec *a, const stn_spec *b)
{
    const struct stni_layout *la = &a->layout, *lb = &b->layout;
    if (la->ndim != lb->ndim || memcmp(la->shape, lb->shape, sizeof la->shape) != 0 ||
        (la->mesh == NULL) != (lb->mesh == NULL))
        return 0;
    if (la->mesh == NULL)
        return 1;
    if (!stni_mesh_same_grid(la->mesh, lb->mesh) || memcmp(la->split, lb->split, sizeof la->split) != 0)
        return 0;
    int wide_a[STN_MAX_MESH_NDIM] = {0}, wide_b[STN_MAX_MESH_NDIM] = {0}, place_a[STN_MAX_MESH_NDIM],
        place_b[STN_MAX_MESH_NDIM];
    int n = wide_axes(la->mesh, wide_a, place_a);
    wide_axes(lb->mesh, wide_b, place_b);
    for (int k = 0; k < n; k++)
        if (memcmp(&la->placement[wide_a[k]], &lb->placement[wide_b[k]], sizeof la->placement[0]) != 0)
            return 0;
    for (int d = 0; d < la->ndim; d++) {
        int axes_a[STN_MAX_MESH_NDIM], axes_b[STN_MAX_MESH_NDIM];
        n = stni_layout_dim_axes(la, d, axes_a);
        stni_layout_dim_axes(lb, d, axes_b);
        for (int l = 0; l < n; l++)
            if (place_a[axes_a[l]] != place_b[axes_b[l]])
                return 0;
    }
    return 1;
}

const stn_spec *stn_spec_retain(const stn_spec *spec)
{
    if (spec == NULL)
        return NULL;
    atomic_fetch_add_explicit(&((stn_spec *)spec)->held, 1, memory_order_relaxed);
    stni_context_keep(spec->context);
    return spec;
}

void stn_spec_release(const stn_spec **handle)
{
    if (handle == NULL || *handle == NULL)
        return;
    stn_spec *spec = (stn_spec *)*handle;
    stn_context *context = spec->context;
    *handle = NULL;
    atomic_fetch_sub_explicit(&spec->held, 1, memory_order_release);
    stni_context_unkeep(context);
}

/* What callers hear of NULL, which is what they get as the spec of an error tensor: f32, local, without dims and
 * elements. */
static const stn_spec *or_none(const stn_spec *spec)
{
    static const stn_spec none;
    return spec == NULL ? &none : spec;
}

const stn_mesh *stn_spec_mesh(const stn_spec *spec)
{
    return or_none(spec)->layout.mesh;
}

stn_dtype stn_spec_dtype(const stn_spec *spec)
{
    return or_none(spec)->layout.dtype;
}

int stn_spec_ndim(const stn_spec *spec)
{
    return or_none(spec)->layout.ndim;
}

const int64_t *stn_spec_shape(const stn_spec *spec)
{
    return or_none(spec)->layout.shape;
}

const int64_t *stn_spec_local_shape(const stn_spec *spec)
{
    return or_none(spec)->local_shape;
}

const int64_t *stn_spec_local_offset(const stn_spec *spec)
{
    return or_none(spec)->local_offset;
}

stn_placement stn_spec_placement(const stn_spec *spec, int axis)
{
    const stn_mesh *mesh = or_none(spec)->layout.mesh;
    return mesh != NULL && axis >= 0 && axis < mesh->ndim ? spec->layout.placement[axis] : stn_replicate();
}

const uint8_t *stn_spec_axis_order(const stn_spec *spec)
{
    return or_none(spec)->layout.axis_order;
}

const uint8_t *stn_spec_memory_order(const stn_spec *spec)
{
    return or_none(spec)->layout.memory_order;
}

int64_t stn_spec_numel(const stn_spec *spec)
{
    return or_none(spec)->numel;
}

int64_t stn_spec_local_numel(const stn_spec *spec)
{
    return or_none(spec)->local_numel;
}
