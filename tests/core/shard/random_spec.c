/* Random meshes and specs. */
#include "core/shard/random_spec.h"

#include "harness.h"

#include "core/shard/world.h"

#include <stdlib.h>

void random_shape(uint64_t *state, struct random_shape *out)
{
    out->ndim = (int)world_random(state, 5);
    for (int d = 0; d < out->ndim; d++)
        out->shape[d] = world_random(state, 40) == 0 ? 0 : 1 + (int64_t)world_random(state, 9);
}

static void shuffle(uint64_t *state, int *items, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)world_random(state, (uint64_t)i + 1), t = items[i];
        items[i] = items[j];
        items[j] = t;
    }
}

const stn_mesh *random_mesh(uint64_t *state, stn_context *context)
{
    int ndim = 1 + (int)world_random(state, 3), sizes[3], size = 1, room = context->size;
    for (int a = 0; a < ndim; a++) {
        sizes[a] = 1 + (int)world_random(state, (uint64_t)(room < 4 ? room : 4));
        if (a == 0 && world_random(state, 3) == 0)
            sizes[a] = room;
        room /= sizes[a];
        size *= sizes[a];
    }
    int *ranks = malloc((size_t)context->size * sizeof *ranks), how = (int)world_random(state, 3);
    for (int i = 0; i < context->size; i++)
        ranks[i] = i;
    if (how == 2)
        shuffle(state, ranks, context->size);
    int offset = how == 1 ? (int)world_random(state, (uint64_t)(context->size - size) + 1) : 0;
    const stn_mesh *mesh = NULL;
    CHECK_STATUS(stn_mesh_create(context, ndim, sizes, NULL, how == 0 ? NULL : ranks + offset, &mesh), STN_OK);
    free(ranks);
    return mesh;
}

static stn_placement random_placement(uint64_t *state, int ndim, uint32_t ops)
{
    int kind = (int)world_random(state, ops == 0 ? 3 : 4);
    if (kind == 3) {
        int op = (int)world_random(state, STN_REDUCE_OP_COUNT);
        while ((ops >> op & 1) == 0)
            op = (op + 1) % STN_REDUCE_OP_COUNT;
        return stn_partial((stn_reduce_op)op);
    }
    return kind == 0 || ndim == 0 ? stn_replicate() : stn_shard((int)world_random(state, (uint64_t)ndim));
}

/* Sizes of `parts` pieces that add up to n, many of them 0. */
static int64_t *random_sizes(uint64_t *state, int parts, int64_t n)
{
    int64_t *sizes = calloc((size_t)parts, sizeof *sizes);
    while (n > 0) {
        int64_t some = 1 + (int64_t)world_random(state, (uint64_t)n);
        sizes[world_random(state, (uint64_t)parts)] += some;
        n -= some;
    }
    return sizes;
}

const stn_spec *random_spec(uint64_t *state, stn_context *context, const stn_mesh *mesh,
                            const struct random_shape *shape, stn_dtype dtype, uint32_t ops)
{
    stn_placement placements[STN_MAX_MESH_NDIM];
    int axis_order[STN_MAX_MESH_NDIM], memory_order[STN_MAX_NDIM], parts[STN_MAX_NDIM];
    int64_t *sizes[STN_MAX_NDIM] = {NULL};
    for (int d = 0; d < shape->ndim; d++) {
        memory_order[d] = d;
        parts[d] = 1;
    }
    for (int a = 0; a < mesh->ndim; a++) {
        axis_order[a] = a;
        placements[a] = random_placement(state, shape->ndim, ops);
        if (placements[a].kind == STN_PLACE_SHARD)
            parts[placements[a].dim] *= mesh->sizes[a];
    }
    shuffle(state, axis_order, mesh->ndim);
    if (world_random(state, 3) == 0)
        shuffle(state, memory_order, shape->ndim);
    for (int d = 0; d < shape->ndim; d++)
        if (world_random(state, 2) == 0)
            sizes[d] = random_sizes(state, parts[d], shape->shape[d]);
    stn_spec_options options = {.size = sizeof options, .axis_order = axis_order, .memory_order = memory_order,
                                .sizes = (const int64_t *const *)sizes};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, mesh, placements, dtype, shape->ndim, shape->shape, &options, &spec), STN_OK);
    for (int d = 0; d < shape->ndim; d++)
        free(sizes[d]);
    return spec;
}
