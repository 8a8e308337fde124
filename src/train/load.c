/* Loading: each rank finds all of the tensors in the file before anything is changed, then reads the bytes of its own
 * chunks to where they belong. */
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

/* Bytes. Short runs that lie no further apart than GAP are read together with what is between them, up to WINDOW at
 * once: the system reads whole pages anyway. */
enum { GAP = 1 << 14, WINDOW = 1 << 20 };

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

/* How many runs, from the i-th on, are read at once, and the bytes from its beginning to the last one's end. */
static int64_t runs_at_once(const struct stni_file_runs *runs, int64_t i, int64_t *bytes)
{
    const int64_t from = stni_file_run_at(runs, i);
    int64_t n = 1;
    *bytes = runs->length;
    for (; i + n < runs->count && runs->length <= GAP; n++) {
        const int64_t next = stni_file_run_at(runs, i + n) - from;
        if (next - *bytes > GAP || next + runs->length > WINDOW)
            break;
        *bytes = next + runs->length;
    }
    return n;
}

/* This rank's chunk of tensor `t`, to a row-major array. */
static stn_status read_runs(const struct stni_load *l, const stn_file_tensor *t, const stn_spec *spec, char *to)
{
    const struct stni_file_runs runs = stni_file_runs(spec);
    int64_t bytes, n;
    for (int64_t i = 0; i < runs.count; i += n, to += n * runs.length) {
        const int64_t from = stni_file_run_at(&runs, i);
        n = runs_at_once(&runs, i, &bytes);
        STNI_TRY(stn_file_read(l->file, t, from, bytes, n == 1 ? to : l->window));
        for (int64_t k = 0; k < n && n > 1; k++)
            memcpy(to + k * runs.length, l->window + stni_file_run_at(&runs, i + k) - from, (size_t)runs.length);
    }
    return STN_OK;
}

static stn_status read_chunk(struct stni_load *l, int i)
{
    stn_tensor *tensor = l->tensors[i].tensor;
    const int is_direct = stni_tensor_is_host_array(tensor);
    if (read_runs(l, l->found[i], tensor->spec, is_direct ? tensor->data : l->staging) != STN_OK)
        return stni_error_set(&l->error, STN_ERR_IO, "load: %s: '%s' cannot be read: %s", l->path, l->found[i]->name,
                              errno ? strerror(errno) : "it ends too soon");
    return is_direct ? STN_OK : stni_tensor_fill(tensor, l->staging);
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

/* The memory that reading takes. */
static stn_status reserve(struct stni_load *l)
{
    size_t staged = 0, windowed = 0;
    for (int i = 0; i < l->n; i++) {
        const stn_tensor *tensor = l->tensors[i].tensor;
        if (!stni_tensor_is_host_array(tensor) && tensor->spec->local_bytes > staged)
            staged = tensor->spec->local_bytes;
        if (stni_file_runs(tensor->spec).count > 1)
            windowed = WINDOW;
    }
    l->staging = staged ? stni_malloc(staged) : NULL;
    l->window = windowed ? stni_malloc(windowed) : NULL;
    if ((staged && !l->staging) || (windowed && !l->window))
        return stni_error_set(&l->error, STN_ERR_MEMORY, "load: no memory for %zu bytes", staged + windowed);
    return STN_OK;
}

stn_status stni_load_find(struct stni_load *l)
{
    l->found = stni_calloc((size_t)l->n + 1, sizeof *l->found);
    if (!l->found)
        return stni_error_set(&l->error, STN_ERR_MEMORY, "load: no memory for a list of %d tensors", l->n);
    for (int i = 0; i < l->n; i++)
        STNI_TRY(find(l, l->tensors[i].name, &l->tensors[i].tensor->spec->layout, &l->found[i]));
    return reserve(l);
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
        if (tensors[i].tensor->context != context)
            return stni_fail(context, STN_ERR_ARGUMENT, "load: '%s' belongs to another context", name);
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

static stn_status fill(struct stni_load *l)
{
    stn_context *context = l->context;
    /* Nobody looks any more at what the tensors held. */
    STNI_TRY(stni_fail_queue(context, stni_queue_sync_for(context->queue, STN_SYNC_VALUES)));
    for (int i = 0; i < l->n; i++)
        STNI_TRY(read_chunk(l, i));
    return STN_OK;
}

stn_status stni_load_fill(struct stni_load *l)
{
    for (int i = 0; i < l->n; i++)
        l->tensors[i].tensor->storage->version++;
    const stn_status status = fill(l);
    return stn_agree(l->context, status, l->error.status != STN_OK ? l->error.text : NULL);
}

void stni_load_fini(struct stni_load *l)
{
    stni_free(l->found);
    stni_free(l->staging);
    stni_free(l->window);
    stn_file_close(&l->file);
}

static stn_status load(struct stni_load *l)
{
    if (stni_load_open(l) == STN_OK)
        stni_load_find(l);
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
