/* Loading: each rank finds all of the tensors in the file before anything is changed, then reads the bytes of its own
 * chunks to where they belong, or, where these are many short pieces, some long piece of the tensor for all ranks. */
#include "core/context/context.h"
#include "core/base/fnv.h"
#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"
#include "core/tensor/copy_on_write.h"
#include "ops/redistribute/action.h"
#include "ops/common/dims.h"
#include "train/file.h"
#include "train/file_layout.h"
#include "train/load.h"
#include "train/long_runs.h"

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

/* This rank's chunk of tensor `t` in the layout `spec`, to a row-major array. */
static stn_status read_runs(const struct stni_load *l, const stn_file_tensor *t, const stn_spec *spec, char *to)
{
    const struct stni_file_runs runs = stni_file_runs(spec);
    for (int64_t i = 0; i < runs.count; i++)
        STNI_TRY(stn_file_read(l->file, t, stni_file_run_at(&runs, i), runs.length, to + i * runs.length));
    return STN_OK;
}

/* This rank's chunk of `tensor`, as number `i` of the file. */
static stn_status read_chunk(struct stni_load *l, int i, stn_tensor *tensor)
{
    const int is_direct = stni_tensor_is_host_array(tensor);
    if (read_runs(l, l->items[i].found, tensor->spec, is_direct ? tensor->data : l->staging) != STN_OK)
        return stni_error_set(&l->error, STN_ERR_IO, "load: %s: '%s' cannot be read: %s", l->path, l->tensors[i].name,
                              errno ? strerror(errno) : "it ends too soon");
    return is_direct ? STN_OK : stni_tensor_fill(tensor, l->staging);
}

/* What this rank reads of number `i` for all. A rank that cannot read, as `read` says, goes on: exchanges are
 * collective. */
static stn_status read_and_exchange(struct stni_load *l, int i, stn_status *read)
{
    stn_tensor *piece;
    STNI_TRY(stni_tensor_create(l->context, l->items[i].read_as, &piece));
    if (*read == STN_OK)
        *read = read_chunk(l, i, piece);
    stn_status status = stni_redistribute_into(piece, l->tensors[i].tensor);
    /* The next piece may lie where this one does. */
    if (status == STN_OK)
        status = stni_fail_queue(l->context, stni_queue_sync_for(l->context->queue, STN_SYNC_VALUES));
    stni_tensor_drop(&piece);
    return status;
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

/* The layout in which number `i` is read. */
static stn_status lay_out(struct stni_load *l, int i)
{
    const stn_spec *spec = l->tensors[i].tensor->spec;
    struct stni_layout layout = spec->layout;
    STNI_TRY(stni_long_runs(l->context, &layout));
    STNI_TRY(stni_spec_intern(l->context, &layout, &l->items[i].read_as));
    if (stni_spec_same_chunks(spec, l->items[i].read_as))
        l->items[i].read_as = spec;
    return STN_OK;
}

/* The memory that reading takes. */
static stn_status reserve(struct stni_load *l)
{
    size_t staged = 0;
    for (int i = 0; i < l->n; i++) {
        const stn_tensor *tensor = l->tensors[i].tensor;
        const stn_spec *spec = l->items[i].read_as;
        const int is_direct = spec == tensor->spec ? stni_tensor_is_host_array(tensor) : l->context->device->is_cpu;
        if (!is_direct && spec->local_bytes > staged)
            staged = spec->local_bytes;
    }
    l->staging = staged ? stni_malloc(staged) : NULL;
    if (staged && !l->staging)
        return stni_error_set(&l->error, STN_ERR_MEMORY, "load: no memory for %zu bytes", staged);
    return STN_OK;
}

stn_status stni_load_find(struct stni_load *l)
{
    l->items = stni_calloc((size_t)l->n + 1, sizeof *l->items);
    if (!l->items)
        return stni_error_set(&l->error, STN_ERR_MEMORY, "load: no memory for a list of %d tensors", l->n);
    for (int i = 0; i < l->n; i++) {
        STNI_TRY(find(l, l->tensors[i].name, &l->tensors[i].tensor->spec->layout, &l->items[i].found));
        if (stni_tensor_repeats_elements(l->tensors[i].tensor))
            return stni_error_set(
                &l->error, STN_ERR_STATE,
                "load: '%s' has elements that stand in several places, and cannot be changed in place",
                l->tensors[i].name);
        if (lay_out(l, i) != STN_OK)
            return stni_error_set(&l->error, STN_ERR_MEMORY, "load: no memory for a layout of '%s'",
                                  l->tensors[i].name);
    }
    return reserve(l);
}

stn_status stni_load_check(stn_context *context, const char *path, int n, const stn_named_tensor *tensors)
{
    STNI_TRY(stni_context_not_captured(context, "load", "whose repetitions would read no file: load before it begins"));
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
        STNI_TRY(stni_tensor_before_write(tensors[i].tensor));
        if (tensors[i].tensor->flags & STNI_TENSOR_VIEW)
            return stni_fail(context, STN_ERR_STATE, "load: '%s' is a view, which cannot be changed in place", name);
        if (atomic_load(&tensors[i].tensor->storage->apart) > 0)
            return stni_fail(context, STN_ERR_STATE,
                             "load: '%s' has views that need not share its memory, and cannot be changed in place",
                             name);
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
    stn_status read = STN_OK;
    for (int i = 0; i < l->n; i++) {
        stn_tensor *tensor = l->tensors[i].tensor;
        if (l->items[i].read_as != tensor->spec)
            STNI_TRY(read_and_exchange(l, i, &read));
        else if (read == STN_OK)
            read = read_chunk(l, i, tensor);
    }
    return read;
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
    stni_free(l->items);
    stni_free(l->staging);
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
