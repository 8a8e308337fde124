/* Meshes: making and interning them. Nothing here communicates. */
#include "core/shard/mesh.h"

#include "core/context/context.h"
#include "core/base/host_alloc.h"
#include "core/shard/tables.h"

#include <string.h>

static stn_status check_sizes(stn_context *context, int ndim, const int *sizes)
{
    if (ndim < 1 || ndim > STN_MAX_MESH_NDIM)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_mesh_create: ndim is %d, wanted 1 to %d", ndim,
                         STN_MAX_MESH_NDIM);
    if (sizes == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_mesh_create: sizes is NULL, wanted %d sizes", ndim);
    int64_t size = 1;
    for (int a = 0; a < ndim; a++) {
        if (sizes[a] < 1)
            return stni_fail(context, STN_ERR_ARGUMENT, "stn_mesh_create: sizes[%d] is %d, wanted at least 1", a,
                             sizes[a]);
        if (size <= context->size)
            size *= sizes[a];
    }
    if (size > context->size)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "stn_mesh_create: sizes ask for %lld ranks or more, wanted at most %d in all", (long long)size,
                         context->size);
    return STN_OK;
}

static stn_status check_names(stn_context *context, int ndim, const char *const *names)
{
    for (int a = 0; a < ndim; a++) {
        size_t length = names[a] == NULL ? 0 : strlen(names[a]);
        if (length < 1 || length >= STN_MAX_AXIS_NAME)
            return stni_fail(context, STN_ERR_ARGUMENT, "stn_mesh_create: names[%d] has %zu bytes, wanted 1 to %d", a,
                             length, STN_MAX_AXIS_NAME - 1);
        for (int b = 0; b < a; b++)
            if (strcmp(names[a], names[b]) == 0)
                return stni_fail(context, STN_ERR_ARGUMENT,
                                 "stn_mesh_create: names[%d] is \"%s\" as is names[%d], wanted "
                                 "distinct names",
                                 a, names[a], b);
    }
    return STN_OK;
}

static stn_status check_ranks(stn_context *context, int size, const int *ranks)
{
    unsigned char *seen = stni_calloc((size_t)context->size, 1);
    if (seen == NULL)
        return stni_fail_memory(context, "ranks of a mesh", (size_t)context->size);
    stn_status status = STN_OK;
    for (int i = 0; i < size && status == STN_OK; i++) {
        if (ranks[i] < 0 || ranks[i] >= context->size)
            status = stni_fail(context, STN_ERR_ARGUMENT, "stn_mesh_create: ranks[%d] is %d, wanted 0 to %d", i,
                               ranks[i], context->size - 1);
        else if (seen[ranks[i]]++)
            status = stni_fail(context, STN_ERR_ARGUMENT,
                               "stn_mesh_create: ranks[%d] is %d a second time, wanted each rank at "
                               "most once",
                               i, ranks[i]);
    }
    stni_free(seen);
    return status;
}

static int same_mesh(const stn_mesh *a, const stn_mesh *b)
{
    if (a->ndim != b->ndim || memcmp(a->sizes, b->sizes, sizeof a->sizes) != 0 ||
        memcmp(a->names, b->names, sizeof a->names) != 0)
        return 0;
    if ((a->ranks == NULL) != (b->ranks == NULL))
        return 0;
    if (a->ranks != NULL)
        return memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks) == 0;
    return a->start == b->start && memcmp(a->step, b->step, sizeof a->step) == 0;
}

/* Copies the draft's list, and sorts its positions by rank: the place of rank r among n distinct ranks is found by
 * counting. */
static stn_status own_ranks(stn_context *context, stn_mesh *mesh)
{
    size_t bytes = 2 * (size_t)mesh->size * sizeof(int);
    int *own = stni_malloc(bytes), *at = stni_calloc((size_t)context->size, sizeof *at);
    if (own == NULL || at == NULL) {
        stni_free(own);
        stni_free(at);
        return stni_fail_memory(context, "ranks of a mesh", bytes);
    }
    memcpy(own, mesh->ranks, (size_t)mesh->size * sizeof *own);
    for (int i = 0; i < mesh->size; i++)
        at[own[i]] = i + 1;
    mesh->ranks = own;
    mesh->sorted = own + mesh->size;
    for (int r = 0, n = 0; r < context->size; r++)
        if (at[r] > 0)
            mesh->sorted[n++] = at[r] - 1;
    stni_free(at);
    return STN_OK;
}

static stn_status add_mesh(stn_context *context, stn_mesh *mesh)
{
    struct stni_shard_tables *tables = &context->shard;
    if (tables->n_meshes == tables->cap_meshes) {
        int cap = tables->cap_meshes == 0 ? 8 : 2 * tables->cap_meshes;
        stn_mesh **meshes = stni_realloc(tables->meshes, (size_t)cap * sizeof(*meshes));
        if (meshes == NULL)
            return stni_fail_memory(context, "table of meshes", (size_t)cap * sizeof(*meshes));
        tables->meshes = meshes;
        tables->cap_meshes = cap;
    }
    mesh->id = (uint32_t)tables->n_meshes;
    tables->meshes[tables->n_meshes++] = mesh;
    return STN_OK;
}

/* Of the ranks in their grid and of the axes' names. */
static uint64_t identity_of(const stn_mesh *mesh)
{
    uint64_t hash = stni_hash_step(0, (uint64_t)mesh->ndim);
    for (int a = 0; a < mesh->ndim; a++) {
        hash = stni_hash_step(hash, (uint64_t)mesh->sizes[a] << 32 ^ (uint64_t)mesh->step[a]);
        for (const char *c = mesh->names[a]; *c != '\0'; c++)
            hash = stni_hash_step(hash, (unsigned char)*c);
    }
    for (int i = 0; mesh->ranks != NULL && i < mesh->size; i++)
        hash = stni_hash_step(hash, (uint64_t)mesh->ranks[i]);
    return stni_hash_step(hash, (uint64_t)mesh->start);
}

/* The interned mesh that equals `draft`, whose list of ranks is borrowed. */
static stn_status intern(stn_context *context, const stn_mesh *draft, const stn_mesh **out)
{
    for (int i = 0; i < context->shard.n_meshes; i++)
        if (same_mesh(context->shard.meshes[i], draft)) {
            *out = context->shard.meshes[i];
            return STN_OK;
        }
    stn_mesh *mesh = stni_malloc(sizeof *mesh);
    if (mesh == NULL)
        return stni_fail_memory(context, "mesh", sizeof *mesh);
    *mesh = *draft;
    stn_status status = mesh->ranks == NULL ? STN_OK : own_ranks(context, mesh);
    if (status == STN_OK) {
        mesh->identity = identity_of(mesh);
        mesh->random_stream = stni_random_first(context, mesh);
        mesh->member = stni_mesh_find(mesh, context->rank, mesh->coordinate);
        status = add_mesh(context, mesh);
        if (status == STN_OK) {
            *out = mesh;
            return STN_OK;
        }
        stni_free(mesh->ranks);
    }
    stni_free(mesh);
    return status;
}

stn_status stn_mesh_create(stn_context *context, int ndim, const int *sizes, const char *const *names, const int *ranks,
                           const stn_mesh **out)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    STNI_TRY(check_sizes(context, ndim, sizes));
    if (names != NULL)
        STNI_TRY(check_names(context, ndim, names));
    if (out == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_mesh_create: out is NULL, wanted where to put the mesh");

    stn_mesh draft = {.context = context, .ndim = ndim, .size = 1};
    for (int a = 0; a < ndim; a++) {
        draft.sizes[a] = sizes[a];
        draft.size *= sizes[a];
        if (names != NULL)
            memcpy(draft.names[a], names[a], strlen(names[a]));
        else
            draft.names[a][0] = (char)('0' + a);
    }
    if (ranks == NULL) {
        stni_mesh_number(&draft);
        return intern(context, &draft, out);
    }
    STNI_TRY(check_ranks(context, draft.size, ranks));
    /* The draft only reads the list; what is interned has its own. */
    stni_mesh_describe(&draft, (int *)ranks);
    return intern(context, &draft, out);
}

static stn_status check_axes(const stn_mesh *mesh, int n_axes, const int *axes)
{
    if (n_axes < 1 || n_axes > mesh->ndim || axes == NULL)
        return stni_fail(mesh->context, STN_ERR_ARGUMENT, "stn_mesh_slice: n_axes is %d, wanted 1 to %d axes", n_axes,
                         mesh->ndim);
    uint32_t seen = 0;
    for (int k = 0; k < n_axes; k++) {
        if (axes[k] < 0 || axes[k] >= mesh->ndim || (seen >> axes[k] & 1) != 0)
            return stni_fail(mesh->context, STN_ERR_ARGUMENT,
                             "stn_mesh_slice: axes[%d] is %d, wanted distinct axes from 0 to %d", k, axes[k],
                             mesh->ndim - 1);
        seen |= 1u << axes[k];
    }
    return STN_OK;
}

/* World rank at draft's linear position i: `mesh` with the draft's axes moved and the others where `at` stands. */
static int sliced_rank(const stn_mesh *mesh, const stn_mesh *draft, const int *axes, const int *at, int i)
{
    int coordinate[STN_MAX_MESH_NDIM];
    memcpy(coordinate, at, sizeof coordinate);
    for (int k = draft->ndim - 1; k >= 0; k--) {
        coordinate[axes[k]] = i % draft->sizes[k];
        i /= draft->sizes[k];
    }
    return stn_mesh_rank_at(mesh, coordinate);
}

/* A mesh is constant but for this: it may have been made by its ranks before it was sliced. */
static void remember_slice(const stn_mesh *mesh, int n_axes, const int *axes, const stn_mesh *slice)
{
    stn_mesh *own = (stn_mesh *)slice;
    if (!slice->member || slice->sliced != NULL || slice->ndim == mesh->ndim)
        return;
    own->sliced = mesh;
    for (int k = 0; k < n_axes && k < STN_MAX_MESH_NDIM; k++)
        own->sliced_axis[k] = (uint8_t)axes[k];
}

const stn_mesh *stni_mesh_grid(const stn_mesh *mesh, uint32_t *axes)
{
    uint32_t mask = (1u << mesh->ndim) - 1;
    for (; mesh->sliced != NULL; mesh = mesh->sliced) {
        uint32_t outer = 0;
        for (int a = 0; a < mesh->ndim; a++)
            outer |= (mask >> a & 1) << mesh->sliced_axis[a];
        mask = outer;
    }
    *axes = mask;
    return mesh;
}

stn_status stn_mesh_slice(const stn_mesh *mesh, int n_axes, const int *axes, const stn_mesh **out)
{
    if (mesh == NULL)
        return STN_ERR_ARGUMENT;
    stn_context *context = mesh->context;
    STNI_TRY(stni_context_check_out(context, "mesh_slice", out));
    STNI_TRY(check_axes(mesh, n_axes, axes));

    stn_mesh draft = {.context = context, .ndim = n_axes, .size = 1};
    int at[STN_MAX_MESH_NDIM] = {0};
    if (mesh->member)
        memcpy(at, mesh->coordinate, sizeof at);
    for (int k = 0; k < n_axes; k++) {
        draft.sizes[k] = mesh->sizes[axes[k]];
        draft.size *= draft.sizes[k];
        memcpy(draft.names[k], mesh->names[axes[k]], STN_MAX_AXIS_NAME);
    }
    int *ranks = stni_malloc((size_t)draft.size * sizeof *ranks);
    if (ranks == NULL)
        return stni_fail_memory(context, "ranks of a mesh", (size_t)draft.size * sizeof *ranks);
    for (int i = 0; i < draft.size; i++)
        ranks[i] = sliced_rank(mesh, &draft, axes, at, i);
    stni_mesh_describe(&draft, ranks);
    stn_status status = intern(context, &draft, out);
    stni_free(ranks);
    if (status == STN_OK)
        remember_slice(mesh, n_axes, axes, *out);
    return status;
}

void stni_mesh_destroy(stn_mesh *mesh)
{
    stni_free(mesh->comms);
    stni_free(mesh->ranks);
    stni_free(mesh);
}

stn_status stn_mesh_axes_comm(const stn_mesh *mesh, int n_axes, const int *axes, stn_comm **out)
{
    uint32_t mask = 0;
    if (mesh == NULL)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_check_out(mesh->context, "mesh_axes_comm", out));
    STNI_TRY(mesh->context->error.status);
    if (n_axes < 0 || n_axes > mesh->ndim || (n_axes > 0 && axes == NULL))
        return stni_fail(mesh->context, STN_ERR_ARGUMENT, "stn_mesh_axes_comm: n_axes got %d, wanted 0 to %d axes",
                         n_axes, mesh->ndim);
    for (int k = 0; k < n_axes; k++) {
        if (axes[k] < 0 || axes[k] >= mesh->ndim || (mask >> axes[k] & 1) != 0)
            return stni_fail(mesh->context, STN_ERR_ARGUMENT,
                             "stn_mesh_axes_comm: axes[%d] got %d, wanted distinct axes from 0 to %d", k, axes[k],
                             mesh->ndim - 1);
        mask |= 1u << axes[k];
    }
    if (!mesh->member)
        return stni_fail(mesh->context, STN_ERR_STATE, "stn_mesh_axes_comm: this rank is outside of the mesh");
    return stni_mesh_comm(mesh, n_axes > 0 ? mask : (1u << mesh->ndim) - 1, out);
}
