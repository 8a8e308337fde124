/* Random streams: which numbers the next draw takes. They belong to meshes, so that ranks outside of a mesh need not
 * draw along, and groups that draw more often than others stay in step with everybody. */
#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/shard/mesh.h"

#include <shardtensor/ops_random.h>

#include <string.h>

void stn_context_random_state(const stn_context *context, uint64_t *seed, uint64_t *stream)
{
    if (seed != NULL)
        *seed = context == NULL ? 0 : context->seed;
    if (stream != NULL)
        *stream = context == NULL ? 0 : context->random_stream;
}

uint64_t stni_random_first(const stn_context *context, const stn_mesh *mesh)
{
    char text[STNI_MESH_TEXT];
    if (context->n_random_told == 0)
        return context->random_start;
    stni_mesh_text(mesh, text);
    for (int i = 0; i < context->n_random_told; i++)
        if (strcmp(context->random_told[i].mesh, text) == 0)
            return context->random_told[i].stream;
    return context->random_start;
}

void stni_random_go_on(stn_context *context, uint64_t seed, uint64_t stream, uint64_t start, struct stni_stream *told,
                       int n)
{
    stni_free(context->random_told);
    context->random_told = told;
    context->n_random_told = n;
    context->seed = seed;
    context->random_stream = stream;
    context->random_start = start;
    for (int m = 0; m < context->shard.n_meshes; m++)
        context->shard.meshes[m]->random_stream = stni_random_first(context, context->shard.meshes[m]);
}

void stn_context_set_random_state(stn_context *context, uint64_t seed, uint64_t stream)
{
    if (context != NULL)
        stni_random_go_on(context, seed, stream, stream, NULL, 0);
}

/* Meshes of all ranks are one program, whatever grid they lie on. */
static uint64_t *counter_of(stn_context *context, const stn_mesh *mesh)
{
    const int some = mesh != NULL && mesh->size < context->size;
    return some ? &context->shard.meshes[mesh->id]->random_stream : &context->random_stream;
}

uint64_t stn_mesh_random_stream(const stn_mesh *mesh)
{
    return mesh == NULL ? 0 : *counter_of(mesh->context, mesh);
}

void stn_mesh_set_random_stream(const stn_mesh *mesh, uint64_t stream)
{
    if (mesh != NULL)
        *counter_of(mesh->context, mesh) = stream;
}

stn_status stni_random_keep(stn_context *context, struct stni_random_place *place)
{
    const int n = context->shard.n_meshes;
    uint64_t *of_mesh = stni_malloc((size_t)(n + 1) * sizeof *of_mesh);
    if (of_mesh == NULL)
        return stni_fail_memory(context, "streams of random numbers", (size_t)(n + 1) * sizeof *of_mesh);
    for (int m = 0; m < n; m++)
        of_mesh[m] = context->shard.meshes[m]->random_stream;
    *place = (struct stni_random_place){context->seed, context->random_stream, context->random_start, n, of_mesh};
    return STN_OK;
}

/* A mesh that was made since was at its start. */
void stni_random_return(stn_context *context, const struct stni_random_place *place)
{
    context->seed = place->seed;
    context->random_stream = place->stream;
    context->random_start = place->start;
    for (int m = 0; m < context->shard.n_meshes; m++)
        context->shard.meshes[m]->random_stream =
            m < place->n_meshes ? place->of_mesh[m] : stni_random_first(context, context->shard.meshes[m]);
}

void stni_random_place_fini(struct stni_random_place *place)
{
    stni_free(place->of_mesh);
    place->of_mesh = NULL;
}

/* The world rank whose number is `extreme`, the lowest of them. */
static stn_status find(const stn_mesh *mesh, stn_comm *comm, int is_extreme, int *rank)
{
    int64_t word = is_extreme ? -(int64_t)stn_comm_rank(comm) : INT64_MIN;
    STNI_TRY(stni_comm_agree(comm, mesh->context->queue, &word, 1, STN_MAX));
    *rank = stni_mesh_rank(mesh, (int)-word);
    return STN_OK;
}

static stn_status compare(const stn_mesh *mesh, int64_t stream)
{
    stn_context *context = mesh->context;
    stn_comm *comm;
    int ahead, behind;
    int64_t most[2] = {stream, -stream};
    STNI_TRY(stni_mesh_comm(mesh, (1u << mesh->ndim) - 1, &comm));
    STNI_TRY(stni_comm_agree_first(comm, context->queue, STNI_AGREE_RANDOM, most, 2, STN_MAX));
    if (most[0] == -most[1])
        return STN_OK;
    STNI_TRY(find(mesh, comm, stream == most[0], &ahead));
    STNI_TRY(find(mesh, comm, stream == -most[1], &behind));
    stni_fail(context, STN_ERR_MISMATCH,
              "random numbers: rank %d draws from stream %lld of a mesh, rank %d from stream %lld: they have not drawn "
              "equally often", ahead, (long long)most[0], behind, (long long)-most[1]);
    context->error_agreed = 1;
    return STN_ERR_MISMATCH;
}

stn_status stni_random_draw(stn_context *context, const stn_mesh *mesh, uint64_t *stream)
{
    uint64_t *counter = counter_of(context, mesh);
    if (context->comm->checks && mesh != NULL && mesh->member && mesh->size > 1)
        STNI_TRY(compare(mesh, (int64_t)*counter));
    *stream = (*counter)++;
    return STN_OK;
}
