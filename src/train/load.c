/* Loading: each rank reads the bytes of its own chunks, all of them before anything is changed. */
#include "core/context/context.h"
#include "core/base/fnv.h"
#include "core/base/host_alloc.h"
#include "ops/redistribute/action.h"
#include "ops/common/dims.h"
#include "train/file.h"
#include "train/file_layout.h"
#include "train/load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A path that leads to another file at each attempt is given up after so many attempts. */
enum { MAX_LOOKS = 100 };

/* The tensor of that name, if it has the dtype and shape of the spec's. */
static stn_status find(struct stni_load *l, const char *name, const struct stni_layout *layout,
                       const stn_file_tensor **out)
{
    const stn_file_tensor *t = stn_file_find(l->file, name);
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (!t)
        return stni_error_set(&l->error, STN_ERR_NOT_FOUND, "load: %s: no tensor '%s'", l->path, name);
    if (t->dtype != layout->dtype)
        return stni_error_set(&l->error, STN_ERR_DTYPE, "load: %s: '%s' is %s, wanted %s", l->path, name, t->dtype_name,
                              stni_file_dtype(layout->dtype));
    if (t->ndim != layout->ndim || memcmp(t->shape, layout->shape, sizeof *t->shape * (size_t)t->ndim) != 0)
        return stni_error_set(&l->error, STN_ERR_SHAPE, "load: %s: '%s' has another shape: got %s, wanted %s", l->path,
                              name, stni_shape_text(t->ndim, t->shape, got),
                              stni_shape_text(layout->ndim, layout->shape, wanted));
    *out = t;
    return STN_OK;
}

static stn_status read_chunk(struct stni_load *l, int i)
{
    const stn_spec *spec = l->tensors[i].tensor->spec;
    const stn_file_tensor *t = NULL;
    STNI_TRY(find(l, l->tensors[i].name, &spec->layout, &t));
    if (spec->local_numel == 0)
        return STN_OK;
    l->data[i] = stni_malloc(spec->local_bytes);
    if (!l->data[i])
        return stni_error_set(&l->error, STN_ERR_MEMORY, "load: no memory for %zu bytes", spec->local_bytes);
    struct stni_file_runs runs = stni_file_runs(spec);
    for (int64_t r = 0; r < runs.count; r++)
        if (stn_file_read(l->file, t, stni_file_run_at(&runs, r), runs.length, l->data[i] + r * runs.length) != STN_OK)
            return stni_error_set(&l->error, STN_ERR_IO, "load: %s: '%s' cannot be read: %s", l->path, t->name,
                                  errno ? strerror(errno) : "it ends too soon");
    return STN_OK;
}

/* A number that ranks with the same list have alike, from 0 on. */
static int64_t number_of_list(const struct stni_load *l)
{
    uint64_t hash = stni_fnv(STNI_FNV_EMPTY, &l->n, sizeof l->n);
    for (int i = 0; i < l->n; i++) {
        const struct stni_layout *layout = &l->tensors[i].tensor->spec->layout;
        hash = stni_fnv(hash, l->tensors[i].name, strlen(l->tensors[i].name) + 1);
        hash = stni_fnv(hash, layout->shape, (size_t)layout->ndim * sizeof *layout->shape);
        hash = stni_fnv(hash, &layout->dtype, sizeof layout->dtype);
    }
    return (int64_t)(hash >> 1);
}

static int64_t open_once(struct stni_load *l)
{
    char why[STNI_ERROR_TEXT];
    stn_file_close(&l->file);
    l->error.status = STN_OK;
    const stn_status status = stn_file_open(l->path, &l->file, why, sizeof why);
    if (status != STN_OK)
        stni_error_set(&l->error, status, "load: %s: %s", l->path, why);
    return status == STN_OK ? stni_file_identity(l->file) : 0;
}

/* A saver may replace the file at the path between one rank's open and another's: then all ranks open it again.
 * Ranks that see different files, each the same one at the second attempt, have copies of the file. */
stn_status stni_load_open(struct stni_load *l)
{
    const int64_t list = number_of_list(l);
    for (int look = 0; look < MAX_LOOKS; look++) {
        const int64_t before = l->file ? stni_file_identity(l->file) : 0, own = open_once(l);
        int64_t least[] = {own, -own, look > 0 && own == before, list, -list};
        STNI_TRY(stni_agree_least(l->context, least, 5));
        if (least[3] != -least[4])
            return stni_error_set(&l->error, STN_ERR_MISMATCH, "load: %s: ranks pass different names, shapes or dtypes",
                                  l->path);
        if (least[0] == -least[1] || least[2])
            return l->error.status;
    }
    return stni_error_set(&l->error, STN_ERR_IO, "load: %s: is replaced all the time", l->path);
}

stn_status stni_load_read(struct stni_load *l)
{
    l->data = stni_calloc((size_t)l->n + 1, sizeof *l->data);
    if (!l->data)
        return stni_error_set(&l->error, STN_ERR_MEMORY, "load: no memory for a list of %d tensors", l->n);
    for (int i = 0; i < l->n; i++)
        STNI_TRY(read_chunk(l, i));
    return STN_OK;
}

stn_status stni_load_check(stn_context *context, const char *path, int n, const stn_named_tensor *tensors)
{
    if (!path || n < 0 || (n > 0 && !tensors))
        return stni_fail(context, STN_ERR_ARGUMENT, "load: got path '%s' and %d tensors, wanted a file and a list",
                         path ? path : "NULL", n);
    for (int i = 0; i < n; i++) {
        const char *name = tensors[i].name;
        if (!name || !tensors[i].tensor)
            return stni_fail(context, STN_ERR_ARGUMENT, "load: tensors[%d] got NULL, wanted a name and a tensor", i);
        STNI_TRY(stni_tensor_require(tensors[i].tensor, name));
        if (tensors[i].tensor->spec->partial_axes)
            return stni_fail(context, STN_ERR_PARTIAL, "load: '%s' is Partial, wanted Shard or Replicate", name);
        if (tensors[i].tensor->flags & STNI_TENSOR_VIEW)
            return stni_fail(context, STN_ERR_STATE, "load: '%s' is a view, which cannot be changed in place", name);
        if (tensors[i].tensor->storage->frozen)
            return stni_fail(context, STN_ERR_STATE, "load: '%s' is immutable, which nothing changes in place", name);
    }
    return STN_OK;
}

stn_status stni_load_agree(struct stni_load *l)
{
    return stn_agree(l->context, l->error.status, l->error.status != STN_OK ? l->error.text : NULL);
}

stn_status stni_load_fill(const struct stni_load *l)
{
    for (int i = 0; i < l->n; i++) {
        STNI_TRY(stni_tensor_fill(l->tensors[i].tensor, l->data[i]));
        l->tensors[i].tensor->storage->version++;
    }
    return STN_OK;
}

void stni_load_fini(struct stni_load *l)
{
    for (int i = 0; l->data && i < l->n; i++)
        stni_free(l->data[i]);
    stni_free(l->data);
    stn_file_close(&l->file);
}

static stn_status load(struct stni_load *l)
{
    if (stni_load_open(l) == STN_OK)
        stni_load_read(l);
    STNI_TRY(stni_load_agree(l));
    return stni_load_fill(l);
}

stn_status stn_load(stn_context *context, const char *path, int n, const stn_named_tensor *tensors)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(context));
    stn_status status = stni_load_check(context, path, n, tensors);
    if (status == STN_OK) {
        struct stni_load l = {.context = context, .path = path, .n = n, .tensors = tensors};
        status = load(&l);
        stni_load_fini(&l);
    }
    return stni_action_end(context, status);
}

stn_status stn_load_metadata(const char *path, const char *key, char *value, size_t size)
{
    stn_file *file;
    if (!path || !key)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stn_file_open(path, &file, NULL, 0));
    const char *text = stn_file_metadata(file, key);
    if (text && value && size > 0)
        snprintf(value, size, "%s", text);
    stn_file_close(&file);
    return text ? STN_OK : STN_ERR_NOT_FOUND;
}
