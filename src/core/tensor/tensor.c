/* Tensor handles: making, counting, freeing. */
#include "core/tensor/tensor.h"

#include "core/base/slab.h"
#include "core/tensor/copy_on_write.h"
#include "core/tensor/kept.h"
#include "core/tensor/scope.h"

#include <string.h>

/* Fields are set one by one, which costs less than clearing the whole. */
static inline void init_tensor(stn_tensor *tensor, const stn_spec *spec, struct stni_storage *storage, void *data,
                               const int64_t *strides, uint32_t flags)
{
    stn_context *context = storage->context;
    atomic_init(&tensor->refs, 1);
    tensor->flags = flags;
    tensor->context = context;
    tensor->spec = stni_spec_retain(spec);
    tensor->storage = storage;
    tensor->data = data;
    memcpy(tensor->strides, strides, sizeof tensor->strides);
    tensor->node = NULL;
    tensor->leaf = NULL;
    tensor->output = 0;
    tensor->scoped = 0;
    context->stats.live_tensors++;
}

/* On memory that exists; takes over the caller's reference to `storage` on success. */
static stn_status new_tensor(stn_context *context, const stn_spec *spec, struct stni_storage *storage, void *data,
                             const int64_t *strides, uint32_t flags, stn_tensor **out)
{
    stn_tensor *tensor = stni_slab_take(context->tensor_slab);
    if (tensor == NULL)
        return stni_fail_memory(context, "a tensor's handle", sizeof *tensor);
    init_tensor(tensor, spec, storage, data, strides, flags);
    *out = tensor;
    return STN_OK;
}

/* Where handles or memory have to be made first. */
STNI_COLD static stn_status create_anew(stn_context *context, const stn_spec *spec, stn_tensor **out)
{
    struct stni_storage *storage = NULL;
    STNI_TRY(stni_storage_create(context, spec->local_bytes, &storage));
    stn_status status = new_tensor(context, spec, storage, storage->data, spec->strides, STNI_TENSOR_DENSE, out);
    if (status != STN_OK)
        stni_storage_release(storage);
    return status;
}

/* Every op makes its outputs here: what was used before is taken from free lists, without a call. */
stn_status stni_tensor_create(stn_context *context, const stn_spec *spec, stn_tensor **out)
{
    size_t bytes = spec->local_bytes;
    struct stni_mempool_class *class = stni_mempool_ready(context->tensor_pool, bytes);
    if (class == NULL || context->storage_slab->free == NULL || context->tensor_slab->free == NULL)
        return create_anew(context, spec, out);
    struct stni_storage *storage = (struct stni_storage *)stni_slab_pop(context->storage_slab);
    stn_tensor *tensor = (stn_tensor *)stni_slab_pop(context->tensor_slab);
    storage->data = stni_mempool_pop(context->tensor_pool, class, bytes);
    storage->capacity = bytes;
    stni_storage_init(storage, context, bytes);
    init_tensor(tensor, spec, storage, storage->data, spec->strides, STNI_TENSOR_DENSE);
    *out = tensor;
    return STN_OK;
}

stn_status stni_tensor_on(stn_context *context, const stn_spec *spec, struct stni_storage *storage, void *data,
                          const int64_t *given, uint32_t flags, stn_tensor **out)
{
    int64_t strides[STN_MAX_NDIM] = {0};
    size_t bytes = (size_t)spec->layout.ndim * sizeof *strides;
    if (given == NULL || memcmp(given, spec->strides, bytes) == 0)
        flags |= STNI_TENSOR_DENSE;
    else
        memcpy(strides, given, bytes);
    STNI_TRY(new_tensor(context, spec, storage, data, flags & STNI_TENSOR_DENSE ? spec->strides : strides, flags, out));
    stni_storage_retain(storage);
    return STN_OK;
}

void stni_tensor_show_elements(stn_tensor *tensor, const stn_tensor *base)
{
    struct stni_storage *root = stni_tensor_root(base);
    stni_storage_add_view(root);
    stni_tensor_show_nothing(tensor);
    atomic_fetch_add_explicit(&root->apart, 1, memory_order_relaxed);
    tensor->shown = root;
    tensor->flags |= STNI_TENSOR_VIEW;
}

void stni_tensor_show(stn_tensor *tensor, const stn_tensor *base)
{
    stni_tensor_show_elements(tensor, base);
    if (base->flags & STNI_TENSOR_REQUIRES_GRAD)
        stni_storage_note_grad(tensor->shown);
}

void stni_tensor_share(stn_tensor *tensor, const stn_tensor *base)
{
    stni_tensor_show(tensor, base);
    if ((base->flags & STNI_TENSOR_VIEW) && !(base->flags & STNI_TENSOR_SHARES))
        return;
    atomic_fetch_sub_explicit(&tensor->shown->apart, 1, memory_order_relaxed);
    tensor->flags |= STNI_TENSOR_SHARES;
}

void stni_tensor_show_as(stn_tensor *handle, const stn_tensor *tensor)
{
    if (tensor->flags & STNI_TENSOR_SHARES)
        stni_tensor_share(handle, tensor);
    else if (tensor->flags & STNI_TENSOR_VIEW)
        stni_tensor_show(handle, tensor);
    stni_tensor_keep_as(handle, tensor);
}

void stni_tensor_show_nothing(stn_tensor *tensor)
{
    if (!(tensor->flags & STNI_TENSOR_VIEW))
        return;
    if (tensor->flags & STNI_TENSOR_COPY_ON_WRITE)
        stni_tensor_leave_copies(tensor);
    else if (!(tensor->flags & STNI_TENSOR_SHARES))
        atomic_fetch_sub_explicit(&tensor->shown->apart, 1, memory_order_relaxed);
    stni_storage_drop_view(tensor->context, tensor->shown);
    tensor->flags &= ~(uint32_t)(STNI_TENSOR_VIEW | STNI_TENSOR_SHARES);
}

/* What few handles have besides their memory. 0: a scope keeps the tensor, which is not to be freed. */
STNI_COLD static int drop_extras(stn_tensor *tensor)
{
    stn_context *context = tensor->context;
    if (stni_scope_keeps(tensor))
        return 0;
    if ((tensor->node != NULL || tensor->leaf != NULL) && context->drop_autograd != NULL)
        context->drop_autograd(tensor);
    if (tensor->flags & STNI_TENSOR_VIEW)
        stni_tensor_show_nothing(tensor);
    if (tensor->flags & STNI_TENSOR_MOVED)
        stni_tensor_drop_under_way(tensor);
    if (tensor->flags & STNI_TENSOR_KEEPS)
        stni_tensor_drop_kept(tensor);
    return 1;
}

void stni_tensor_free(stn_tensor *tensor)
{
    stn_context *context = tensor->context;
    const uint32_t extras = STNI_TENSOR_VIEW | STNI_TENSOR_MOVED | STNI_TENSOR_KEEPS;
    const uint32_t more = (tensor->flags & extras) | (uint32_t)tensor->scoped;
    if (((uintptr_t)tensor->node | (uintptr_t)tensor->leaf | more) != 0 && !drop_extras(tensor))
        return;
    if (tensor->storage != NULL && stni_ref_drop(&tensor->storage->refs))
        stni_storage_free(tensor->storage);
    stni_spec_release(tensor->spec);
    context->stats.live_tensors--;
    tensor->context = NULL;
    stni_slab_put(context->tensor_slab, tensor);
}

stn_tensor *stn_tensor_retain(stn_tensor *tensor)
{
    if (tensor != NULL && stni_is_counted(tensor))
        atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
    return tensor;
}

void stni_tensor_release_here(stn_tensor *tensor)
{
    if (tensor != NULL && stni_is_counted(tensor) && stni_ref_drop(&tensor->refs))
        stni_tensor_free(tensor);
}

void stn_tensor_release(stn_tensor **handle)
{
    if (handle == NULL || *handle == NULL)
        return;
    stn_tensor *tensor = *handle;
    *handle = NULL;
    if (!stni_is_counted(tensor) || atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) > 1)
        return;
    stn_context *context = tensor->context;
    stn_tensor *first = atomic_load_explicit(&context->dead, memory_order_relaxed);
    do
        tensor->next_dead = first == STNI_NOBODY ? NULL : first;
    while (!atomic_compare_exchange_weak_explicit(&context->dead, &first, tensor, memory_order_acq_rel,
                                                  memory_order_relaxed));
    if (first == STNI_NOBODY)
        stni_context_let_go(context);
}

stn_status stni_tensor_require(const stn_tensor *tensor, const char *what)
{
    if (tensor == NULL)
        return STN_ERR_ARGUMENT;
    stn_context *context = tensor->context;
    if (stni_is_error(tensor) && context->error.status == STN_OK)
        return stni_fail(context, STN_ERR_STATE, "%s got an error tensor whose failure was taken already", what);
    if (context->error.status == STN_OK && (tensor->flags & STNI_TENSOR_UNDER_WAY))
        stni_tensor_arrive((stn_tensor *)(uintptr_t)tensor); /* what it holds is as it would have been */
    return context->error.status;
}
