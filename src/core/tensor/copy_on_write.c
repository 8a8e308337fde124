#include "core/tensor/copy_on_write.h"

#include "core/base/dtype.h"

#include <string.h>

void stni_tensor_show_as_value(stn_tensor *tensor, const stn_tensor *base)
{
    if (stni_tensor_is_apart(base) || (tensor->flags & STNI_TENSOR_MOVED)) {
        stni_tensor_show(tensor, base);
        return;
    }
    stni_tensor_show_elements(tensor, base);
    atomic_fetch_sub_explicit(&tensor->shown->apart, 1, memory_order_relaxed);
    tensor->next_copy = tensor->context->copies;
    tensor->context->copies = tensor;
    tensor->flags |= STNI_TENSOR_COPY_ON_WRITE;
}

void stni_tensor_leave_copies(stn_tensor *tensor)
{
    stn_tensor **at = &tensor->context->copies;
    while (*at != tensor)
        at = &(*at)->next_copy;
    *at = tensor->next_copy;
    tensor->flags &= ~(uint32_t)STNI_TENSOR_COPY_ON_WRITE;
}

/* What was saved of it before is still what it is: the version stays. */
static void take_memory(stn_tensor *tensor, stn_tensor *own)
{
    struct stni_storage *before = tensor->storage;
    own->storage->version = tensor->shown->version;
    stni_tensor_show_nothing(tensor);
    tensor->storage = own->storage;
    tensor->data = own->data;
    memcpy(tensor->strides, own->strides, sizeof tensor->strides);
    tensor->flags |= STNI_TENSOR_DENSE;
    own->storage = before;
}

static stn_status copy_now(stn_tensor *tensor)
{
    stn_tensor *own;
    const int is_alone = atomic_load_explicit(&tensor->storage->refs, memory_order_acquire) == 1;
    if (is_alone && !tensor->storage->frozen) { /* nobody else has it any more, and it was promised to nobody */
        tensor->storage->version = tensor->shown->version;
        stni_tensor_show_nothing(tensor);
        return STN_OK;
    }
    STNI_TRY(stni_tensor_create(tensor->context, tensor->spec, &own));
    const stn_status status = stni_tensor_copy_elements(own, tensor);
    if (status == STN_OK)
        take_memory(tensor, own);
    stni_tensor_drop(&own);
    return status;
}

stn_status stni_tensor_before_write(stn_tensor *tensor)
{
    struct stni_storage *root = stni_tensor_root(tensor);
    const int has_views = atomic_load_explicit(&root->views, memory_order_relaxed) > 0;
    if (!has_views || stni_tensor_has_views_apart(tensor))
        return STN_OK;
    if (tensor->flags & STNI_TENSOR_COPY_ON_WRITE)
        return copy_now(tensor);
    for (stn_tensor *copy = tensor->context->copies, *next; copy; copy = next) {
        next = copy->next_copy;
        if (copy->shown == root)
            STNI_TRY(copy_now(copy));
    }
    return STN_OK;
}

stn_status stni_tensor_own_memory(stn_tensor *tensor)
{
    return tensor->flags & STNI_TENSOR_COPY_ON_WRITE ? stni_tensor_before_write(tensor) : STN_OK;
}

stn_status stni_copies_own_memory(stn_context *context)
{
    for (stn_tensor *copy = context->copies, *next; copy; copy = next) {
        next = copy->next_copy;
        STNI_TRY(stni_tensor_own_memory(copy));
    }
    return STN_OK;
}
