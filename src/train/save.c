/* Saving: rank 0 makes a file of the right size with its header, each rank writes its own bytes, rank 0 gives the
 * file its name. */
#include "core/base/fnv.h"
#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"
#include "ops/redistribute/action.h"
#include "train/file_bytes.h"
#include "train/file_header.h"
#include "train/file_layout.h"
#include "train/keys.h"
#include "train/long_runs.h"
#include "train/part.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Bytes. The disk is asked to take BATCH at once, of what lies LAG before the bytes that this rank writes: what other
 * ranks write there has probably been written. */
enum { BATCH = 1 << 23, LAG = 1 << 24 };

struct saving {
    stn_context *context;
    const char *path;
    struct stni_part part; /* what the file is until it is complete */
    int n;
    const stn_named_tensor *tensors;
    struct stni_file_entry *entries;
    char *header;
    size_t header_size;
    int64_t begun;           /* bytes that the disk has been asked to take */
    struct stni_error error; /* of this rank alone */
};

static stn_status fail(struct saving *s, const char *what)
{
    return stni_error_set(&s->error, STN_ERR_IO, "save: %s: %s: %s", s->path, what, strerror(errno));
}

/* Rank 0's part of the beginning. */
static stn_status make_file(struct saving *s, int64_t *token)
{
    STNI_TRY(stni_part_create(&s->part, token, &s->error));
    const int64_t size = (int64_t)s->header_size + (s->n > 0 ? s->entries[s->n - 1].end : 0);
    if (ftruncate(s->part.file, size) != 0 || !stni_file_write_at(s->part.file, s->header, s->header_size, 0))
        return fail(s, "cannot be written");
    return STN_OK;
}

/* Of ranks that hold the same elements, one writes them. */
static int writes_here(const stn_spec *spec, int rank)
{
    const stn_mesh *mesh = spec->layout.mesh;
    if (!mesh)
        return rank == 0;
    for (int a = 0; a < mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_REPLICATE && mesh->coordinate[a] != 0)
            return 0;
    return mesh->member;
}

static stn_status write_runs(struct saving *s, int file, const stn_spec *spec, const char *data, int64_t begin)
{
    const struct stni_file_runs runs = stni_file_runs(spec);
    for (int64_t i = 0; i < runs.count; i++)
        if (!stni_file_write_at(file, data + i * runs.length, (size_t)runs.length, begin + stni_file_run_at(&runs, i)))
            return fail(s, "cannot be written");
    return STN_OK;
}

static stn_status write_chunk(struct saving *s, int file, stn_tensor *tensor, int64_t begin)
{
    const stn_spec *spec = tensor->spec;
    if (spec->local_numel == 0 || !writes_here(spec, s->context->rank))
        return STN_OK;
    if (stni_tensor_is_host_array(tensor)) {
        STNI_TRY(stni_fail_queue(s->context, stni_queue_sync_for(s->context->queue, STN_SYNC_VALUES)));
        return write_runs(s, file, spec, tensor->data, begin);
    }
    char *data = stni_malloc(spec->local_bytes);
    if (!data)
        return stni_error_set(&s->error, STN_ERR_MEMORY, "save: no memory for %zu bytes", spec->local_bytes);
    stn_status status = stn_to_host(tensor, data, spec->local_bytes);
    if (status == STN_OK)
        status = write_runs(s, file, spec, data, begin);
    stni_free(data);
    return status;
}

/* The tensor as it is written: nothing pending, and in long pieces. */
static stn_status lay_out(stn_tensor *tensor, stn_tensor **out)
{
    struct stni_layout layout = tensor->spec->layout;
    const stn_spec *spec;
    for (int a = 0; layout.mesh && a < layout.mesh->ndim; a++)
        if (layout.placement[a].kind == STN_PLACE_PARTIAL)
            layout.placement[a] = stn_replicate();
    STNI_TRY(stni_long_runs(tensor->context, &layout));
    STNI_TRY(stni_spec_intern(tensor->context, &layout, &spec));
    return stni_redistribute(tensor, spec, out);
}

/* Each rank sees to it that its own bytes are on the disk. EINVAL: this file system knows no such thing. */
static stn_status finish(struct saving *s, int file)
{
    int reason = fsync(file) == 0 || errno == EINVAL ? 0 : errno;
    if (close(file) != 0 && reason == 0)
        reason = errno;
    errno = reason;
    return reason != 0 ? fail(s, "cannot be written") : STN_OK;
}

/* The disk works while ranks write, instead of all of it while they wait at the end. One rank asks for all, as pages
 * have bytes of several. What fails there is told by fsync. */
static void begin_disk(struct saving *s, int file, int64_t written)
{
    const int64_t to = written - LAG;
    if (s->context->rank != 0 || to - s->begun < BATCH)
        return;
    sync_file_range(file, s->begun, to - s->begun, SYNC_FILE_RANGE_WRITE);
    s->begun = to;
}

/* A rank that cannot write goes on: reductions and exchanges are collective. */
static stn_status write_all(struct saving *s)
{
    int file = open(s->part.path, O_WRONLY | O_CLOEXEC);
    stn_status status = file < 0 ? fail(s, "cannot be opened") : STN_OK;
    for (int i = 0; i < s->n; i++) {
        stn_tensor *tensor;
        STNI_TRY_GOTO(lay_out(s->tensors[i].tensor, &tensor), out);
        if (s->error.status == STN_OK)
            write_chunk(s, file, tensor, (int64_t)s->header_size + s->entries[i].begin);
        stni_tensor_drop(&tensor);
        begin_disk(s, file, (int64_t)s->header_size + s->entries[i].end);
    }
out:
    if (file >= 0)
        finish(s, file);
    return s->error.status != STN_OK ? s->error.status : status;
}

static stn_status agree(struct saving *s, stn_status status)
{
    return stn_agree(s->context, status, s->error.status != STN_OK ? s->error.text : NULL);
}

static stn_status check_tensors(stn_context *context, struct stni_keys *names, int n, const stn_named_tensor *tensors)
{
    for (int i = 0; i < n; i++) {
        const char *name = tensors[i].name;
        if (!name || !name[0] || strcmp(name, "__metadata__") == 0)
            return stni_fail(context, STN_ERR_ARGUMENT, "save: tensors[%d] is called '%s', wanted a name", i,
                             name ? name : "NULL");
        if (stni_keys_find_name(names, name) >= 0)
            return stni_fail(context, STN_ERR_ARGUMENT, "save: '%s' stands twice", name);
        STNI_TRY(stni_keys_add_name(names, context, name, i));
        if (!tensors[i].tensor)
            return stni_fail(context, STN_ERR_ARGUMENT, "save: '%s' got NULL, wanted a tensor", name);
        if (tensors[i].tensor->context != context)
            return stni_fail(context, STN_ERR_ARGUMENT, "save: '%s' belongs to another context", name);
        STNI_TRY(stni_tensor_require(tensors[i].tensor, name));
    }
    return STN_OK;
}

static stn_status check(stn_context *context, const char *path, int n, const stn_named_tensor *tensors, int n_metadata,
                        const stn_metadata *metadata)
{
    STNI_TRY(stni_context_not_captured(context, "save", "whose repetitions would write no file: save once it has run"));
    if (!path || !path[0] || strlen(path) >= PATH_MAX)
        return stni_fail(context, STN_ERR_ARGUMENT, "save: path got '%s', wanted a file's name", path ? path : "NULL");
    if (n < 0 || (n > 0 && !tensors) || n_metadata < 0 || (n_metadata > 0 && !metadata))
        return stni_fail(context, STN_ERR_ARGUMENT, "save: got %d tensors and %d strings, wanted lists", n, n_metadata);
    for (int i = 0; i < n_metadata; i++)
        if (!metadata[i].key || !metadata[i].value)
            return stni_fail(context, STN_ERR_ARGUMENT, "save: metadata[%d] got NULL, wanted a key and a value", i);
    struct stni_keys names = {NULL};
    const stn_status status = check_tensors(context, &names, n, tensors);
    stni_keys_cut(&names, 0);
    return status;
}

/* What is saved can be loaded: names that are no UTF-8 and keys that stand twice are refused as the reader would. */
static stn_status check_header(const struct saving *s)
{
    struct stni_file_header header;
    struct stni_error error = {.status = STN_OK};
    const size_t length = s->header_size - STNI_FILE_LENGTH_BYTES;
    const int64_t data_size = s->n > 0 ? s->entries[s->n - 1].end : 0;
    const stn_status status =
        stni_file_header_parse(s->header + STNI_FILE_LENGTH_BYTES, length, data_size, &header, &error);
    stni_file_header_free(&header);
    if (status == STN_ERR_MEMORY)
        return stni_fail_memory(s->context, "a file's header", length);
    return status == STN_OK ? STN_OK
                            : stni_fail(s->context, STN_ERR_ARGUMENT,
                                        "save: names or metadata could not be loaded again: %s", error.text);
}

static stn_status write_header(struct saving *s, int n_metadata, const stn_metadata *metadata)
{
    s->header_size = stni_file_header_size(s->entries, s->n, metadata, n_metadata);
    const size_t length = s->header_size - STNI_FILE_LENGTH_BYTES;
    if (length > STNI_FILE_MAX_HEADER)
        return stni_fail(s->context, STN_ERR_ARGUMENT,
                         "save: %s: %d tensors and %d strings need a header of %zu bytes, at most %lld, which is what "
                         "readers take",
                         s->path, s->n, n_metadata, length, (long long)STNI_FILE_MAX_HEADER);
    s->header = stni_file_header(s->entries, s->n, metadata, n_metadata, s->header_size);
    return s->header ? check_header(s) : stni_fail_memory(s->context, "a file's header", s->header_size);
}

static stn_status place(struct saving *s, int n_metadata, const stn_metadata *metadata)
{
    stn_context *context = s->context;
    s->entries = stni_calloc((size_t)s->n + 1, sizeof *s->entries);
    if (!s->entries)
        return stni_fail_memory(context, "a file's header", (size_t)s->n * sizeof *s->entries);
    for (int i = 0; i < s->n; i++) {
        const struct stni_layout *layout = &s->tensors[i].tensor->spec->layout;
        s->entries[i] = (struct stni_file_entry){
            .name = s->tensors[i].name, .dtype = layout->dtype, .ndim = layout->ndim, .shape = layout->shape};
    }
    stni_file_place(s->entries, s->n);
    return write_header(s, n_metadata, metadata);
}

/* Rank 0 creates the file and tells the others what it is called. */
static stn_status begin(struct saving *s)
{
    const int first = s->context->rank == 0;
    const int64_t list = (int64_t)(stni_fnv(STNI_FNV_EMPTY, s->header, s->header_size) >> 1);
    int64_t token = INT64_MAX;
    stn_status status = stni_part_find(&s->part, s->path, &s->error);
    if (status == STN_OK && first)
        status = make_file(s, &token);
    STNI_TRY(agree(s, status));
    int64_t least[] = {token, list, -list};
    STNI_TRY(stni_agree_least(s->context, least, 3));
    if (!first)
        stni_part_name(&s->part, least[0]);
    if (least[1] == -least[2])
        return STN_OK;
    stni_error_set(&s->error, STN_ERR_MISMATCH, "save: %s: ranks pass different names, shapes, dtypes or metadata",
                   s->path);
    return agree(s, STN_ERR_MISMATCH);
}

static stn_status save(struct saving *s, int n_metadata, const stn_metadata *metadata)
{
    STNI_TRY(place(s, n_metadata, metadata));
    STNI_TRY(begin(s));
    STNI_TRY(agree(s, write_all(s)));
    return agree(s, s->context->rank == 0 ? stni_part_commit(&s->part, &s->error) : STN_OK);
}

stn_status stn_save(stn_context *context, const char *path, int n, const stn_named_tensor *tensors, int n_metadata,
                    const stn_metadata *metadata)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(context));
    stn_status status = check(context, path, n, tensors, n_metadata, metadata);
    struct saving *s = status == STN_OK ? stni_calloc(1, sizeof *s) : NULL;
    if (status == STN_OK && !s)
        status = stni_fail_memory(context, "saving", sizeof *s);
    if (s) {
        *s = (struct saving){.context = context, .path = path, .n = n, .tensors = tensors, .part.file = -1};
        status = save(s, n_metadata, metadata);
        stni_part_discard(&s->part);
        stni_free(s->entries);
        stni_free(s->header);
    }
    stni_free(s);
    return stni_action_end(context, status);
}
