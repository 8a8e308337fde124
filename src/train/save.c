/* Saving: rank 0 makes a file of the right size with its header, each rank writes its own bytes, rank 0 gives the file its name. */
#include "core/host_alloc.h"
#include "core/shard/redistribute.h"
#include "ops/redistribute/action.h"
#include "train/file_bytes.h"
#include "train/file_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct saving {
    stn_context *context;
    char path[PATH_MAX], part[PATH_MAX]; /* the file, and what it is called until it is complete */
    int n;
    const stn_named_tensor *tensors;
    struct stni_file_entry *entries;
    char *header;
    size_t header_size;
    struct stni_error error; /* of this rank alone */
};

static stn_status fail(struct saving *s, const char *what)
{
    return stni_error_set(&s->error, STN_ERR_IO, "save: %s: %s: %s", s->part, what, strerror(errno));
}

static stn_status make_file(struct saving *s)
{
    int file = open(s->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return fail(s, "cannot be made");
    int64_t size = (int64_t)s->header_size + (s->n > 0 ? s->entries[s->n - 1].end : 0);
    stn_status status = STN_OK;
    if (ftruncate(file, size) != 0 || !stni_file_write_at(file, s->header, s->header_size, 0))
        status = fail(s, "cannot be written");
    if (close(file) != 0 && status == STN_OK)
        status = fail(s, "cannot be written");
    return status;
}

/* Of those that hold the same elements, one writes them. */
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

static stn_status write_chunk(struct saving *s, int file, stn_tensor *tensor, int64_t begin)
{
    const stn_spec *spec = tensor->spec;
    if (spec->local_numel == 0 || !writes_here(spec, s->context->rank))
        return STN_OK;
    char *data = stni_malloc(spec->local_bytes);
    if (!data)
        return stni_error_set(&s->error, STN_ERR_MEMORY, "save: no memory for %zu bytes", spec->local_bytes);
    stn_status status = stn_to_host(tensor, data, spec->local_bytes);
    struct stni_file_runs runs = stni_file_runs(spec);
    for (int64_t i = 0; i < runs.count && status == STN_OK; i++)
        if (!stni_file_write_at(file, data + i * runs.length, (size_t)runs.length, begin + stni_file_run_at(&runs, i)))
            status = fail(s, "cannot be written");
    stni_free(data);
    return status;
}

static stn_status reduced(stn_tensor *tensor, stn_tensor **out)
{
    struct stni_layout layout = tensor->spec->layout;
    const stn_spec *spec;
    for (int a = 0; layout.mesh && a < layout.mesh->ndim; a++)
        if (layout.placement[a].kind == STN_PLACE_PARTIAL)
            layout.placement[a] = stn_replicate();
    STNI_TRY(stni_spec_intern(tensor->context, &layout, &spec));
    return stni_redistribute(tensor, spec, out);
}

/* A rank that cannot write goes on: reductions are collective. */
static stn_status write_all(struct saving *s)
{
    int file = open(s->part, O_WRONLY | O_CLOEXEC);
    stn_status status = file < 0 ? fail(s, "cannot be opened") : STN_OK;
    for (int i = 0; i < s->n; i++) {
        stn_tensor *tensor;
        STNI_TRY_GOTO(reduced(s->tensors[i].tensor, &tensor), out);
        if (s->error.status == STN_OK)
            write_chunk(s, file, tensor, (int64_t)s->header_size + s->entries[i].begin);
        stni_tensor_drop(&tensor);
    }
out:
    if (file >= 0 && close(file) != 0 && s->error.status == STN_OK)
        status = fail(s, "cannot be written");
    return s->error.status != STN_OK ? s->error.status : status;
}

static stn_status name_file(struct saving *s)
{
    return rename(s->part, s->path) == 0 ? STN_OK : fail(s, "cannot be renamed");
}

static stn_status agree(struct saving *s, stn_status status)
{
    return stn_agree(s->context, status, s->error.status != STN_OK ? s->error.text : NULL);
}

static stn_status check(stn_context *context, const char *path, int n, const stn_named_tensor *tensors, int n_metadata,
                        const stn_metadata *metadata)
{
    if (!path || !path[0] || strlen(path) >= PATH_MAX - 8)
        return stni_fail(context, STN_ERR_ARGUMENT, "save: path got '%s', wanted a file's name", path ? path : "NULL");
    if (n < 0 || (n > 0 && !tensors) || n_metadata < 0 || (n_metadata > 0 && !metadata))
        return stni_fail(context, STN_ERR_ARGUMENT, "save: got %d tensors and %d strings, wanted lists", n, n_metadata);
    for (int i = 0; i < n_metadata; i++)
        if (!metadata[i].key || !metadata[i].value)
            return stni_fail(context, STN_ERR_ARGUMENT, "save: metadata[%d] got NULL, wanted a key and a value", i);
    for (int i = 0; i < n; i++) {
        const char *name = tensors[i].name;
        if (!name || !name[0] || strcmp(name, "__metadata__") == 0)
            return stni_fail(context, STN_ERR_ARGUMENT, "save: tensors[%d] is called '%s', wanted a name", i, name ? name : "NULL");
        for (int j = 0; j < i; j++)
            if (strcmp(name, tensors[j].name) == 0)
                return stni_fail(context, STN_ERR_ARGUMENT, "save: '%s' stands twice", name);
        if (!tensors[i].tensor)
            return stni_fail(context, STN_ERR_ARGUMENT, "save: '%s' got NULL, wanted a tensor", name);
        STNI_TRY(stni_tensor_require(tensors[i].tensor, name));
    }
    return STN_OK;
}

static stn_status save(struct saving *s, int n_metadata, const stn_metadata *metadata)
{
    stn_context *context = s->context;
    s->entries = stni_calloc((size_t)s->n + 1, sizeof *s->entries);
    if (!s->entries)
        return stni_fail_memory(context, "a file's header", (size_t)s->n * sizeof *s->entries);
    for (int i = 0; i < s->n; i++) {
        const struct stni_layout *layout = &s->tensors[i].tensor->spec->layout;
        s->entries[i] = (struct stni_file_entry){.name = s->tensors[i].name, .dtype = layout->dtype, .ndim = layout->ndim, .shape = layout->shape};
    }
    stni_file_place(s->entries, s->n);
    s->header = stni_file_header(s->entries, s->n, metadata, n_metadata, &s->header_size);
    if (!s->header)
        return stni_fail_memory(context, "a file's header", 0);
    STNI_TRY(agree(s, context->rank == 0 ? make_file(s) : STN_OK));
    stn_status status = agree(s, write_all(s));
    if (status == STN_OK)
        return agree(s, context->rank == 0 ? name_file(s) : STN_OK);
    if (context->rank == 0)
        unlink(s->part);
    return status;
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
    if (status == STN_OK) {
        s->context = context, s->n = n, s->tensors = tensors;
        snprintf(s->path, sizeof s->path, "%s", path);
        snprintf(s->part, sizeof s->part, "%.*s.part", PATH_MAX - 8, path);
        status = save(s, n_metadata, metadata);
        stni_free(s->entries);
        stni_free(s->header);
    }
    stni_free(s);
    return stni_action_end(context, status);
}
