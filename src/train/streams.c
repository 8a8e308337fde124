#include "train/streams.h"

#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "train/file.h"

#include <string.h>

static const char start_key[] = "stn.stream_start", prefix[] = "stn.stream.";

enum { COUNTS = STN_MAX_AGREE / sizeof(int64_t), PIECE = STN_MAX_AGREE / sizeof(struct stni_stream) };

/* Of the ranks of a mesh the first tells of it. One that has not drawn is where it would be anyway, but for what a file
 * has told of it. */
static int tells_of(const stn_context *context, const stn_mesh *mesh)
{
    const uint64_t start = context->random_start;
    return mesh->size < context->size && mesh->member && stni_mesh_rank(mesh, 0) == context->rank &&
           (mesh->random_stream != start || stni_random_first(context, mesh) != start);
}

static int64_t count_own(const stn_context *context)
{
    int64_t n = 0;
    for (int m = 0; m < context->shard.n_meshes; m++)
        n += tells_of(context, context->shard.meshes[m]);
    return n;
}

static void list_own(const stn_context *context, struct stni_stream *out)
{
    for (int m = 0; m < context->shard.n_meshes; m++) {
        const stn_mesh *mesh = context->shard.meshes[m];
        if (!tells_of(context, mesh))
            continue;
        memset(out, 0, sizeof *out);
        out->stream = mesh->random_stream;
        stni_mesh_text(mesh, (out++)->mesh);
    }
}

/* counts[r]: how many rank r tells of. */
static stn_status count_all(stn_context *context, int64_t *counts)
{
    counts[context->rank] = count_own(context);
    for (int at = 0; at < context->size; at += COUNTS) {
        const int left = context->size - at, n = left < COUNTS ? left : COUNTS;
        STNI_TRY(stni_fail_queue(context, stni_comm_agree_first(context->comm, context->queue, STNI_AGREE_STREAMS,
                                                                counts + at, n, STN_SUM)));
    }
    return STN_OK;
}

/* `list` has those of all ranks, one rank's behind another's. */
static stn_status tell(stn_context *context, const int64_t *counts, struct stni_stream *list)
{
    for (int r = 0; r < context->size; r++) {
        if (r == context->rank)
            list_own(context, list);
        for (int64_t at = 0; at < counts[r]; at += PIECE) {
            const int64_t left = counts[r] - at, n = left < PIECE ? left : PIECE;
            STNI_TRY(stni_fail_queue(context, stni_comm_agree_broadcast(context->comm, context->queue, list + at,
                                                                        (size_t)n * sizeof *list, r)));
        }
        list += counts[r];
    }
    return STN_OK;
}

static stn_status add_all(struct stni_contents *contents, int64_t n, const struct stni_stream *list)
{
    for (int64_t i = 0; i < n; i++)
        STNI_TRY(stni_contents_add_number(contents, "stn.stream", list[i].mesh, list[i].stream));
    return STN_OK;
}

static int is_among(const char *mesh, int64_t n, const struct stni_stream *list)
{
    int64_t i = 0;
    while (i < n && strcmp(list[i].mesh, mesh) != 0)
        i++;
    return i < n;
}

/* What a file told of meshes that no rank has made since is told on: the run may yet make them. */
static stn_status add_told(const stn_context *context, struct stni_contents *contents, int64_t n,
                           const struct stni_stream *list)
{
    for (int i = 0; i < context->n_random_told; i++)
        if (!is_among(context->random_told[i].mesh, n, list))
            STNI_TRY(add_all(contents, 1, &context->random_told[i]));
    return STN_OK;
}

static stn_status gather(stn_context *context, struct stni_contents *contents, int64_t *counts)
{
    int64_t n = 0;
    STNI_TRY(count_all(context, counts));
    for (int r = 0; r < context->size; r++)
        n += counts[r];
    struct stni_stream *list = stni_malloc((size_t)(n + 1) * sizeof *list);
    if (!list)
        return stni_fail_memory(context, "streams of random numbers", (size_t)(n + 1) * sizeof *list);
    stn_status status = tell(context, counts, list);
    if (status == STN_OK)
        status = add_all(contents, n, list);
    if (status == STN_OK)
        status = add_told(context, contents, n, list);
    stni_free(list);
    return status;
}

stn_status stni_streams_add(stn_context *context, struct stni_contents *contents)
{
    STNI_TRY(stni_contents_add_number(contents, start_key, NULL, context->random_start));
    if (context->size == 1)
        return add_told(context, contents, 0, NULL);
    int64_t *counts = stni_calloc((size_t)context->size, sizeof *counts);
    if (!counts)
        return stni_fail_memory(context, "counts of streams", (size_t)context->size * sizeof *counts);
    const stn_status status = gather(context, contents, counts);
    stni_free(counts);
    return status;
}

static stn_status read_number(struct stni_load *load, const stn_metadata *text, uint64_t *out)
{
    if (stni_parse_number(text->value, out))
        return STN_OK;
    return stni_error_set(&load->error, STN_ERR_IO, "checkpoint: %s: metadata '%s' is '%.24s', wanted a number",
                          load->path, text->key, text->value);
}

/* The text of a mesh that a key is about; NULL: about something else. */
static const char *mesh_of(const stn_metadata *text)
{
    return strncmp(text->key, prefix, sizeof prefix - 1) == 0 ? text->key + sizeof prefix - 1 : NULL;
}

static stn_status read_one(struct stni_load *load, const stn_metadata *text, struct stni_streams *out)
{
    const char *mesh = mesh_of(text);
    if (strcmp(text->key, start_key) == 0)
        return read_number(load, text, &out->start);
    if (!mesh || strlen(mesh) >= STNI_MESH_TEXT) /* what this library has not written is of no mesh */
        return STN_OK;
    struct stni_stream *stream = &out->told[out->n];
    STNI_TRY(read_number(load, text, &stream->stream));
    memcpy(stream->mesh, mesh, strlen(mesh) + 1);
    out->n++;
    return STN_OK;
}

stn_status stni_streams_read(struct stni_load *load, uint64_t world, struct stni_streams *out)
{
    const stn_metadata *texts;
    const int n_texts = stni_file_texts(load->file, &texts);
    size_t n = 0;
    for (int i = 0; i < n_texts; i++)
        n += mesh_of(&texts[i]) != NULL;
    *out = (struct stni_streams){.start = world, .told = n > 0 ? stni_malloc(n * sizeof *out->told) : NULL};
    if (n > 0 && !out->told)
        return stni_error_set(&load->error, STN_ERR_MEMORY, "checkpoint: no memory for the streams of %zu meshes", n);
    for (int i = 0; i < n_texts; i++)
        STNI_TRY(read_one(load, &texts[i], out));
    return STN_OK;
}
