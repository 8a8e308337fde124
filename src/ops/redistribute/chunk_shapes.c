#include "ops/redistribute/chunk_shapes.h"

#include "core/base/host_alloc.h"
#include "core/shard/spec.h"
#include "core/tensor/storage.h"

#include <string.h>

enum { TOLD_WORDS = sizeof(struct stni_chunk_told) / sizeof(int64_t) };

/* What all told, by rank of the communicator. */
static stn_status gather(const struct stni_chunk_question *q, const struct stni_chunk_told *own,
                         struct stni_chunk_told *all, int64_t *counts)
{
    stn_context *context = q->mesh->context;
    struct stni_storage *buffer = NULL;
    const int n = stn_comm_size(q->comm);
    size_t bytes = (size_t)n * sizeof *all;
    STNI_TRY(stni_storage_create(context, bytes + sizeof *own, &buffer));
    char *sent = (char *)buffer->data + bytes;
    stn_queue *queue = context->queue;
    for (int r = 0; r < n; r++)
        counts[r] = TOLD_WORDS;
    stn_status status = stni_queue_copy(queue, sent, own, sizeof *own, STNI_COPY_TO_DEVICE);
    if (status == STN_OK)
        status = stni_comm_all_gather(q->comm, queue, sent, buffer->data, counts, STN_DTYPE_I64);
    if (status == STN_OK)
        status = stni_queue_copy(queue, all, buffer->data, bytes, STNI_COPY_TO_HOST);
    /* Also after a failure: copies read and write the host's arrays. */
    stn_status waited = stni_queue_sync_for(queue, STN_SYNC_COUNTS);
    stni_storage_release(buffer);
    return status != STN_OK ? status : waited;
}

/* The dims as the mesh cuts them. */
struct cuts {
    uint32_t axes[STN_MAX_NDIM];  /* that shard each dim */
    int64_t shape[STN_MAX_NDIM];  /* of the whole; -1: not known yet */
    int64_t *sizes[STN_MAX_NDIM]; /* of the pieces of a dim that is sharded, -1: not known yet; else NULL */
    int64_t pieces[STN_MAX_NDIM];
};

static stn_status find_axes(const struct stni_chunk_question *q, struct cuts *cuts)
{
    for (int d = 0; d < STN_MAX_NDIM; d++)
        cuts->shape[d] = -1;
    for (int a = 0; a < q->mesh->ndim; a++) {
        const int d = q->placements[a].dim;
        if (q->placements[a].kind != STN_PLACE_SHARD || q->mesh->sizes[a] == 1)
            continue;
        if (d < 0 || d >= STN_MAX_NDIM)
            return stni_fail(q->mesh->context, STN_ERR_ARGUMENT, "%s: placements[%d] shards dim %d, wanted 0 to %d",
                             q->function, a, d, STN_MAX_NDIM - 1);
        cuts->axes[d] |= 1u << a;
    }
    return STN_OK;
}

/* Pieces of all sharded dims together. */
static size_t count_pieces(const stn_mesh *mesh, struct cuts *cuts)
{
    size_t all = 0;
    for (int d = 0; d < STN_MAX_NDIM; d++) {
        cuts->pieces[d] = cuts->axes[d] ? 1 : 0;
        for (int a = 0; a < mesh->ndim; a++)
            if (cuts->axes[d] >> a & 1)
                cuts->pieces[d] *= mesh->sizes[a];
        all += (size_t)cuts->pieces[d];
    }
    return all;
}

static void take_memory(struct cuts *cuts, int64_t *memory)
{
    for (int d = 0; d < STN_MAX_NDIM; d++) {
        cuts->sizes[d] = cuts->axes[d] ? memory : NULL;
        for (int64_t i = 0; i < cuts->pieces[d]; i++)
            *memory++ = -1;
    }
}

/* Where the size along d of the chunk at these coordinates stands. The major axis comes first. */
static int64_t *size_of(const struct stni_chunk_question *q, struct cuts *cuts, int d, const int *coordinate)
{
    int64_t piece = 0;
    for (int a = 0; a < q->mesh->ndim; a++)
        if (cuts->axes[d] >> a & 1)
            piece = piece * q->mesh->sizes[a] + coordinate[a];
    return cuts->axes[d] ? &cuts->sizes[d][piece] : &cuts->shape[d];
}

static stn_status check_told(const struct stni_chunk_question *q, int rank, const struct stni_chunk_told *told,
                             const struct stni_chunk_told *first)
{
    stn_context *context = q->mesh->context;
    if (told->status != STN_OK)
        return stni_fail(context, (stn_status)told->status, "%s: %s of rank %d %s", q->function, q->chunk, rank,
                         q->wrong);
    if (told->dtype != first->dtype)
        return stni_fail(context, STN_ERR_DTYPE, "%s: %s of rank %d is %s, wanted %s as the others", q->function,
                         q->chunk, rank, stn_dtype_name((stn_dtype)told->dtype),
                         stn_dtype_name((stn_dtype)first->dtype));
    if (told->ndim != first->ndim)
        return stni_fail(context, STN_ERR_SHAPE, "%s: %s of rank %d has %lld dims, wanted %lld as the others",
                         q->function, q->chunk, rank, (long long)told->ndim, (long long)first->ndim);
    return STN_OK;
}

/* All have the same dtype and number of dims, and those that share a piece of a dim the same size of it. */
static stn_status join(const struct stni_chunk_question *q, const struct stni_chunk_told *const *by_position,
                       struct cuts *cuts)
{
    for (int i = 0; i < q->mesh->size; i++) {
        const int rank = stni_mesh_rank(q->mesh, i);
        const struct stni_chunk_told *told = by_position[i];
        int coordinate[STN_MAX_MESH_NDIM];
        stni_mesh_find(q->mesh, rank, coordinate);
        STNI_TRY(check_told(q, rank, told, by_position[0]));
        for (int d = 0; d < (int)told->ndim; d++) {
            int64_t *size = size_of(q, cuts, d, coordinate);
            if (*size >= 0 && *size != told->shape[d])
                return stni_fail(q->mesh->context, STN_ERR_SHAPE,
                                 "%s: %s of rank %d has %lld elements along dim %d, wanted %lld as the others",
                                 q->function, q->chunk, rank, (long long)told->shape[d], d, (long long)*size);
            *size = told->shape[d];
        }
    }
    return STN_OK;
}

static stn_status make_spec(const struct stni_chunk_question *q, const struct stni_chunk_told *first, struct cuts *cuts,
                            const stn_spec **out)
{
    const stn_spec_options options = {.size = sizeof options, .sizes = (const int64_t *const *)cuts->sizes};
    for (int d = 0; d < (int)first->ndim; d++) {
        if (cuts->axes[d])
            cuts->shape[d] = 0;
        for (int64_t i = 0; i < cuts->pieces[d]; i++)
            cuts->shape[d] += cuts->sizes[d][i];
    }
    return stn_spec_create(q->mesh->context, q->mesh, q->placements, (stn_dtype)first->dtype, (int)first->ndim,
                           cuts->shape, &options, out);
}

/* What a question needs while it is answered, in one block: what all told, how much that is, who told it, pieces. */
struct room {
    struct stni_chunk_told *all;
    int64_t *counts, *pieces;
    const struct stni_chunk_told **by_position;
};

static stn_status room_make(const struct stni_chunk_question *q, size_t pieces, struct room *room)
{
    const size_t n = (size_t)stn_comm_size(q->comm), size = (size_t)q->mesh->size,
                 bytes = n * (sizeof *room->all + sizeof *room->counts) + pieces * sizeof *room->pieces +
                         size * sizeof *room->by_position;
    room->all = stni_malloc(bytes);
    if (!room->all)
        return stni_fail_memory(q->mesh->context, "shapes of all ranks", bytes);
    room->counts = (int64_t *)(room->all + n);
    room->pieces = room->counts + n;
    room->by_position = (const struct stni_chunk_told **)(room->pieces + pieces);
    return STN_OK;
}

static stn_status answer(const struct stni_chunk_question *q, const struct stni_chunk_told *own, struct cuts *cuts,
                         const struct room *room, struct stni_chunk_told *first, const stn_spec **out)
{
    const int is_world = q->comm == q->mesh->context->comm;
    STNI_TRY(gather(q, own, room->all, room->counts));
    for (int i = 0; i < q->mesh->size; i++)
        room->by_position[i] = &room->all[is_world ? stni_mesh_rank(q->mesh, i) : i];
    *first = *room->by_position[0];
    take_memory(cuts, room->pieces);
    STNI_TRY(join(q, room->by_position, cuts));
    return make_spec(q, first, cuts, out);
}

stn_status stni_chunk_shapes_join(const struct stni_chunk_question *q, const struct stni_chunk_told *own,
                                  struct stni_chunk_told *first, const stn_spec **out)
{
    struct cuts cuts = {0};
    struct room room = {0};
    STNI_TRY(stni_context_not_captured(q->mesh->context, q->function, "whose sizes have to be known: give them"));
    STNI_TRY(find_axes(q, &cuts));
    STNI_TRY(room_make(q, count_pieces(q->mesh, &cuts), &room));
    stn_status status = answer(q, own, &cuts, &room, first, out);
    stni_free(room.all);
    return status;
}
