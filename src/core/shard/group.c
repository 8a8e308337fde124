/* Communicators of the meshes: one per distinct list of ranks, made when first used.
 *
 * That a list is already known is the same finding on each of its ranks: the first use was collective over exactly
 * them. */
#include "core/shard/group.h"

#include "core/context/context.h"
#include "core/shard/tables.h"

#include <stdlib.h>
#include <string.h>

/* Bit 0x100 and above of a cached mask: the union with the mesh of that id. */
enum { UNION_BASE = 1 << STN_MAX_MESH_NDIM };

/* The world as a group: no list is made, so that the first use costs the same in a world of any size. */
static stn_status find_world(stn_context *context, const struct stni_group_comm **out)
{
    if (context->shard.world == NULL) {
        struct stni_group_comm *group = stni_calloc(1, sizeof *group);
        if (group == NULL)
            return stni_fail_memory(context, "group of ranks", sizeof *group);
        group->comm = context->comm;
        group->n = context->size;
        context->shard.world = group;
    }
    *out = context->shard.world;
    return STN_OK;
}

static unsigned hash_ranks(const int *ranks, int n)
{
    uint64_t hash = 0;
    for (int i = 0; i < n; i++)
        hash = stni_hash_step(hash, (uint64_t)ranks[i]);
    return stni_hash_end(hash);
}

static stn_status make(stn_context *context, const int *ranks, int n, unsigned hash, const struct stni_group_comm **out)
{
    size_t bytes = (size_t)n * sizeof *ranks;
    struct stni_group_comm *group = stni_calloc(1, sizeof *group + bytes);
    if (group == NULL)
        return stni_fail_memory(context, "group of ranks", sizeof *group + bytes);
    group->n = n;
    memcpy(group->ranks, ranks, bytes);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, context->shard.groups, group->ranks, bytes, hash, group);
    if (group->hh.tbl == NULL) {
        stni_free(group);
        return stni_fail_memory(context, "table of groups", sizeof *group);
    }
    stn_status status = stni_comm_subset(context->comm, context->queue, group->ranks, n, &group->comm);
    if (status != STN_OK) {
        HASH_DEL(context->shard.groups, group);
        stni_free(group);
        return stni_fail_queue(context, status);
    }
    *out = group;
    return STN_OK;
}

/* The group of the given world ranks, in that order. Collective over them at its first use. */
static stn_status find_or_make(stn_context *context, const int *ranks, int n, const struct stni_group_comm **out)
{
    unsigned hash = hash_ranks(ranks, n);
    struct stni_group_comm *found;
    HASH_FIND_BYHASHVALUE(hh, context->shard.groups, ranks, (size_t)n * sizeof *ranks, hash, found);
    if (found == NULL)
        return make(context, ranks, n, hash, out);
    *out = found;
    return STN_OK;
}

void stni_groups_destroy(stn_context *context)
{
    struct stni_group_comm *group, *next;
    HASH_ITER(hh, context->shard.groups, group, next) {
        HASH_DEL(context->shard.groups, group);
        stn_comm_destroy(&group->comm);
        stni_free(group);
    }
    stni_free(context->shard.world);
    context->shard.world = NULL;
}

static const struct stni_group_comm *cached(const stn_mesh *mesh, uint32_t axes)
{
    for (int i = 0; i < mesh->n_comms; i++)
        if (mesh->comms[i].axes == axes)
            return mesh->comms[i].group;
    return NULL;
}

/* Finds the group of `ranks`, which are taken over, and remembers it in the mesh. A mesh is constant but for this
 * cache. */
static stn_status find_cached(const stn_mesh *mesh, uint32_t axes, int *ranks, int n,
                              const struct stni_group_comm **out)
{
    stn_mesh *own = (stn_mesh *)mesh;
    size_t bytes = ((size_t)mesh->n_comms + 1) * sizeof *mesh->comms;
    struct stni_mesh_comm *comms = stni_realloc(own->comms, bytes);
    const struct stni_group_comm *group = NULL;
    stn_status status = STN_OK;
    if (comms == NULL)
        status = stni_fail_memory(mesh->context, "communicators of a mesh", bytes);
    else {
        own->comms = comms;
        status = find_or_make(mesh->context, ranks, n, &group);
    }
    stni_free(ranks);
    if (status != STN_OK)
        return status;
    comms[own->n_comms++] = (struct stni_mesh_comm){axes, group};
    *out = group;
    return STN_OK;
}

/* Whether the axes are the whole world, in its order. */
static int is_world(const stn_mesh *mesh, uint32_t axes)
{
    int step = 1;
    if (mesh->size != mesh->context->size || mesh->ranks != NULL)
        return 0;
    for (int a = mesh->ndim - 1; a >= 0; a--) {
        if (mesh->sizes[a] > 1 && ((axes >> a & 1) == 0 || mesh->step[a] != step))
            return 0;
        step *= mesh->sizes[a];
    }
    return 1;
}

static stn_status list_axes(const stn_mesh *mesh, uint32_t axes, int **out, int *n_out)
{
    int n = 1;
    for (int a = 0; a < mesh->ndim; a++)
        n *= (axes >> a & 1) != 0 ? mesh->sizes[a] : 1;
    int *ranks = stni_malloc((size_t)n * sizeof *ranks);
    if (ranks == NULL)
        return stni_fail_memory(mesh->context, "group of ranks", (size_t)n * sizeof *ranks);
    int coordinate[STN_MAX_MESH_NDIM];
    memcpy(coordinate, mesh->coordinate, sizeof coordinate);
    for (int i = 0; i < n; i++) {
        for (int a = mesh->ndim - 1, left = i; a >= 0; a--) {
            if ((axes >> a & 1) == 0)
                continue;
            coordinate[a] = left % mesh->sizes[a];
            left /= mesh->sizes[a];
        }
        ranks[i] = stn_mesh_rank_at(mesh, coordinate);
    }
    *out = ranks;
    *n_out = n;
    return STN_OK;
}

stn_status stni_mesh_comm(const stn_mesh *mesh, uint32_t axes, stn_comm **out)
{
    for (int a = 0; a < mesh->ndim; a++)
        if (mesh->sizes[a] == 1)
            axes &= ~(1u << a);
    const struct stni_group_comm *group = cached(mesh, axes);
    if (group == NULL && is_world(mesh, axes)) {
        STNI_TRY(find_world(mesh->context, &group));
    } else if (group == NULL) {
        int *ranks = NULL, n = 0;
        STNI_TRY(list_axes(mesh, axes, &ranks, &n));
        STNI_TRY(find_cached(mesh, axes, ranks, n, &group));
    }
    *out = group->comm;
    return STN_OK;
}

static int compare_ranks(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static stn_status list_union(const stn_mesh *a, const stn_mesh *b, int **out, int *n_out)
{
    size_t bytes = ((size_t)a->size + (size_t)b->size) * sizeof(int);
    int *ranks = stni_malloc(bytes), n = 0;
    if (ranks == NULL)
        return stni_fail_memory(a->context, "group of ranks", bytes);
    for (int i = 0; i < a->size; i++)
        ranks[n++] = stni_mesh_rank(a, i);
    for (int i = 0; i < b->size; i++) {
        int rank = stni_mesh_rank(b, i);
        if (stni_mesh_position(a, rank) < 0)
            ranks[n++] = rank;
    }
    qsort(ranks, (size_t)n, sizeof *ranks, compare_ranks);
    *out = ranks;
    *n_out = n;
    return STN_OK;
}

stn_status stni_mesh_group_union(const stn_mesh *a, const stn_mesh *b, const struct stni_group_comm **out)
{
    uint32_t key = (uint32_t)UNION_BASE + b->id;
    if (a->size == a->context->size || b->size == b->context->size)
        return find_world(a->context, out);
    *out = cached(a, key);
    if (*out != NULL)
        return STN_OK;
    int *ranks = NULL, n = 0;
    STNI_TRY(list_union(a, b, &ranks, &n));
    return find_cached(a, key, ranks, n, out);
}

static stn_status find_sorted(stn_context *context, const uint8_t *marked, const struct stni_group_comm **out)
{
    int n = 0;
    int *ranks = stni_malloc((size_t)context->size * sizeof *ranks);
    if (ranks == NULL)
        return stni_fail_memory(context, "group of ranks", (size_t)context->size * sizeof *ranks);
    for (int r = 0; r < context->size; r++)
        if (marked[r])
            ranks[n++] = r;
    stn_status status = find_or_make(context, ranks, n, out);
    stni_free(ranks);
    return status;
}

stn_status stni_mesh_group_marked(stn_context *context, const uint8_t *marked, const struct stni_group_comm **out)
{
    return memchr(marked, 0, (size_t)context->size) == NULL ? find_world(context, out)
                                                            : find_sorted(context, marked, out);
}
