/* stn_spec_create and stn_spec_with_sizes: check what a caller passes, and turn it into a layout. */
#include "core/shard/spec.h"

#include "core/context/context.h"
#include "core/base/hash.h"
#include "core/tensor/scope.h"

#include <string.h>

static stn_status check_shape(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape)
{
    if (stn_dtype_size(dtype) == 0)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: dtype is %d, wanted 0 to %d", (int)dtype,
                         (int)STN_DTYPE_COUNT - 1);
    if (ndim < 0 || ndim > STN_MAX_NDIM)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: ndim is %d, wanted 0 to %d", ndim, STN_MAX_NDIM);
    if (ndim > 0 && shape == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: shape is NULL, wanted %d lengths", ndim);
    for (int d = 0; d < ndim; d++)
        if (shape[d] < 0)
            return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: shape[%d] is %lld, wanted at least 0", d,
                             (long long)shape[d]);
    return STN_OK;
}

static stn_status check_placement(stn_context *context, int axis, stn_placement p, int ndim)
{
    if (p.kind > STN_PLACE_PARTIAL)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: placements[%d].kind is %d, wanted 0 to %d", axis,
                         p.kind, STN_PLACE_PARTIAL);
    if (p.kind == STN_PLACE_SHARD && (p.dim < 0 || p.dim >= ndim))
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: placements[%d] shards dim %d, wanted 0 to %d",
                         axis, p.dim, ndim - 1);
    if (p.kind == STN_PLACE_PARTIAL && p.op >= STN_REDUCE_OP_COUNT)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: placements[%d].op is %d, wanted 0 to %d", axis,
                         p.op, STN_REDUCE_OP_COUNT - 1);
    return STN_OK;
}

static stn_status check_placements(stn_context *context, const stn_mesh *mesh, const stn_placement *placements,
                                   int ndim)
{
    if (mesh == NULL && placements != NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: placements given without a mesh, wanted NULL");
    if (mesh == NULL)
        return STN_OK;
    if (mesh->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "stn_spec_create: mesh is of another context, wanted one of this context");
    if (placements == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "stn_spec_create: placements is NULL, wanted one for each of %d axes", mesh->ndim);
    for (int a = 0; a < mesh->ndim; a++)
        STNI_TRY(check_placement(context, a, placements[a], ndim));
    return STN_OK;
}

/* Copies a permutation of 0 … n - 1; NULL: the one that changes nothing. */
static stn_status copy_order(stn_context *context, const char *name, const int *order, int n, uint8_t *out)
{
    uint32_t seen = 0;
    for (int k = 0; k < n; k++) {
        int at = order == NULL ? k : order[k];
        if (at < 0 || at >= n || (seen >> at & 1) != 0)
            return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: %s[%d] is %d, wanted each of 0 to %d once",
                             name, k, at, n - 1);
        seen |= 1u << at;
        out[k] = (uint8_t)at;
    }
    return STN_OK;
}

/* Running sums of the pieces' sizes; they have to end at `n`. */
static stn_status add_up(stn_context *context, const char *function, int dim, const int64_t *sizes, int n_parts,
                         int64_t n, int64_t *offsets)
{
    int64_t sum = 0;
    for (int i = 0; i < n_parts; i++) {
        offsets[i] = sum;
        if (sizes[i] < 0)
            return stni_fail(context, STN_ERR_ARGUMENT, "%s: sizes[%d][%d] is %lld, wanted at least 0", function, dim,
                             i, (long long)sizes[i]);
        if (__builtin_add_overflow(sum, sizes[i], &sum))
            return stni_fail(context, STN_ERR_SHAPE,
                             "%s: sizes[%d] add up to more than 2^63 - 1, wanted shape[%d] = %lld", function, dim, dim,
                             (long long)n);
    }
    if (sum != n)
        return stni_fail(context, STN_ERR_SHAPE, "%s: sizes[%d] add up to %lld, wanted shape[%d] = %lld", function, dim,
                         (long long)sum, dim, (long long)n);
    offsets[n_parts] = sum;
    return STN_OK;
}

/* The ranks of each axis that shards `dim`; returns how many axes do. */
static int parts_of(const struct stni_layout *layout, int dim, int parts[STN_MAX_MESH_NDIM], int *n_parts)
{
    int axes[STN_MAX_MESH_NDIM];
    const int n = stni_layout_dim_axes(layout, dim, axes);
    *n_parts = 1;
    for (int l = 0; l < n; l++) {
        parts[l] = layout->mesh->sizes[axes[l]];
        *n_parts *= parts[l];
    }
    return n;
}

static stn_status copy_sizes(stn_context *context, const char *function, struct stni_layout *layout, int dim,
                             const int64_t *sizes)
{
    int parts[STN_MAX_MESH_NDIM], n_parts;
    const int n = parts_of(layout, dim, parts, &n_parts);
    int64_t *offsets = stni_malloc(((size_t)n_parts + 1) * sizeof *offsets);
    if (offsets == NULL)
        return stni_fail_memory(context, "offsets of a split", ((size_t)n_parts + 1) * sizeof *offsets);
    stn_status status = add_up(context, function, dim, sizes, n_parts, layout->shape[dim], offsets);
    if (status == STN_OK && n > 0)
        status = stni_split_explicit(context, layout->shape[dim], n, parts, offsets, &layout->split[dim]);
    stni_free(offsets);
    return status;
}

static stn_status read_options(stn_context *context, struct stni_layout *layout, const stn_spec_options *given)
{
    stn_spec_options options = {0};
    if (given->size < sizeof given->size)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "stn_spec_create: options->size is %zu, wanted sizeof(stn_spec_options) = %zu", given->size,
                         sizeof options);
    memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    if (layout->mesh != NULL)
        STNI_TRY(copy_order(context, "axis_order", options.axis_order, layout->mesh->ndim, layout->axis_order));
    STNI_TRY(copy_order(context, "memory_order", options.memory_order, layout->ndim, layout->memory_order));
    for (int d = 0; d < layout->ndim && options.sizes != NULL; d++)
        if (options.sizes[d] != NULL)
            STNI_TRY(copy_sizes(context, "stn_spec_create", layout, d, options.sizes[d]));
    return STN_OK;
}

stn_status stn_spec_create(stn_context *context, const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype,
                           int ndim, const int64_t *shape, const stn_spec_options *options, const stn_spec **out)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    STNI_TRY(context->error.status);
    STNI_TRY(check_shape(context, dtype, ndim, shape));
    STNI_TRY(check_placements(context, mesh, placements, ndim));
    if (out == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_spec_create: out is NULL, wanted where to put the spec");

    struct stni_layout layout;
    stni_layout_init(&layout, mesh, dtype, ndim, shape);
    for (int a = 0; mesh != NULL && a < mesh->ndim; a++)
        layout.placement[a] = placements[a];
    if (options != NULL)
        STNI_TRY(read_options(context, &layout, options));
    const stn_spec *spec;
    STNI_TRY(stni_spec_intern(context, &layout, &spec));
    *out = stn_spec_retain(spec);
    return STN_OK;
}

static stn_status check_sizes(const stn_spec *spec, int dim, int n, const int64_t *sizes)
{
    const int ndim = spec->layout.ndim, wanted = stn_spec_sizes(spec, dim, NULL);
    if (dim < 0 || dim >= ndim)
        return stni_fail(spec->context, STN_ERR_ARGUMENT, "stn_spec_with_sizes: dim got %d, wanted 0 to %d", dim,
                         ndim - 1);
    if (n != wanted || sizes == NULL)
        return stni_fail(spec->context, STN_ERR_ARGUMENT,
                         "stn_spec_with_sizes: got %d sizes%s, wanted one for each of %d pieces of dim %d", n,
                         sizes == NULL ? " at NULL" : "", wanted, dim);
    return STN_OK;
}

static stn_status set_sizes(const stn_spec *spec, int dim, int n, const int64_t *sizes, const stn_spec **out)
{
    struct stni_layout layout = spec->layout;
    STNI_TRY(spec->context->error.status);
    STNI_TRY(check_sizes(spec, dim, n, sizes));
    STNI_TRY(copy_sizes(spec->context, "stn_spec_with_sizes", &layout, dim, sizes));
    return stni_spec_intern(spec->context, &layout, out);
}

const stn_spec *stn_spec_with_sizes(const stn_spec *spec, int dim, int n, const int64_t *sizes)
{
    const stn_spec *out;
    if (spec == NULL || set_sizes(spec, dim, n, sizes, &out) != STN_OK)
        return NULL;
    return stni_scope_own_spec(spec->context, stn_spec_retain(out));
}
