/* Loading: each rank reads the bytes of its own chunks, all of them before anything is changed. */
#include "core/host_alloc.h"
#include "ops/redistribute/action.h"
#include "train/file_bytes.h"
#include "train/file_header.h"
#include "train/file_layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct loading {
    stn_context *context;
    const char *path;
    int n;
    const stn_named_tensor *tensors;
    char **data; /* this rank's chunks, row-major */
    int file;
    struct stni_file_header_read *header;
    int64_t begin, size; /* of the tensors' bytes in the file */
    struct stni_error error;
};

static stn_status read_chunk(struct loading *l, int i)
{
    const stn_spec *spec = l->tensors[i].tensor->spec;
    int64_t begin;
    STNI_TRY(stni_file_find(l->header, l->path, l->tensors[i].name, spec, l->size, &begin, &l->error));
    if (spec->local_numel == 0)
        return STN_OK;
    l->data[i] = stni_malloc(spec->local_bytes);
    if (!l->data[i])
        return stni_error_set(&l->error, STN_ERR_MEMORY, "load: no memory for %zu bytes", spec->local_bytes);
    struct stni_file_runs runs = stni_file_runs(spec);
    for (int64_t r = 0; r < runs.count; r++)
        if (!stni_file_read_at(l->file, l->data[i] + r * runs.length, (size_t)runs.length, l->begin + begin + stni_file_run_at(&runs, r)))
            return stni_error_set(&l->error, STN_ERR_IO, "load: %s: '%s' cannot be read: %s", l->path, l->tensors[i].name, errno ? strerror(errno) : "it ends too soon");
    return STN_OK;
}

static stn_status read_all(struct loading *l)
{
    STNI_TRY(stni_file_open(l->path, &l->file, &l->header, &l->begin, &l->size, &l->error));
    for (int i = 0; i < l->n; i++)
        STNI_TRY(read_chunk(l, i));
    return STN_OK;
}

static stn_status check(stn_context *context, const char *path, int n, const stn_named_tensor *tensors)
{
    if (!path || n < 0 || (n > 0 && !tensors))
        return stni_fail(context, STN_ERR_ARGUMENT, "load: got path '%s' and %d tensors, wanted a file and a list", path ? path : "NULL", n);
    for (int i = 0; i < n; i++) {
        const char *name = tensors[i].name;
        if (!name || !tensors[i].tensor)
            return stni_fail(context, STN_ERR_ARGUMENT, "load: tensors[%d] got NULL, wanted a name and a tensor", i);
        STNI_TRY(stni_tensor_require(tensors[i].tensor, name));
        if (tensors[i].tensor->spec->partial_axes)
            return stni_fail(context, STN_ERR_PARTIAL, "load: '%s' is Partial, wanted Shard or Replicate", name);
        if (tensors[i].tensor->flags & STNI_TENSOR_VIEW)
            return stni_fail(context, STN_ERR_STATE, "load: '%s' is a view, which cannot be changed in place", name);
    }
    return STN_OK;
}

static stn_status fill(const struct loading *l)
{
    for (int i = 0; i < l->n; i++) {
        STNI_TRY(stni_tensor_fill(l->tensors[i].tensor, l->data[i]));
        l->tensors[i].tensor->storage->version++;
    }
    return STN_OK;
}

static stn_status load(struct loading *l)
{
    l->data = stni_calloc((size_t)l->n + 1, sizeof *l->data);
    if (!l->data)
        return stni_fail_memory(l->context, "loading", (size_t)l->n * sizeof *l->data);
    stn_status status = read_all(l);
    status = stn_agree(l->context, status, status != STN_OK ? l->error.text : NULL);
    if (status == STN_OK)
        status = fill(l);
    for (int i = 0; i < l->n; i++)
        stni_free(l->data[i]);
    stni_free(l->data);
    stni_file_close(l->file, l->header);
    return status;
}

stn_status stn_load(stn_context *context, const char *path, int n, const stn_named_tensor *tensors)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(context));
    struct loading l = {.context = context, .path = path, .n = n, .tensors = tensors, .file = -1};
    stn_status status = check(context, path, n, tensors);
    return stni_action_end(context, status == STN_OK ? load(&l) : status);
}

stn_status stn_load_metadata(const char *path, const char *key, char *value, size_t size)
{
    struct stni_error error = {.status = STN_OK};
    struct stni_file_header_read *header;
    int file;
    int64_t begin, bytes;
    if (!path || !key)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_file_open(path, &file, &header, &begin, &bytes, &error));
    const char *text = stni_file_metadata(header, key);
    if (text && value && size > 0)
        snprintf(value, size, "%s", text);
    stni_file_close(file, header);
    return text ? STN_OK : STN_ERR_NOT_FOUND;
}
