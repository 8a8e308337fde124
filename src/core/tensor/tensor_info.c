/* What a tensor says about itself: the public accessors, density, its chunk as a box. All accept NULL and error
 * tensors. */
#include "core/tensor/copy_on_write.h"

#include <stdio.h>
#include <string.h>

static const int64_t zeros[STN_MAX_NDIM] = {0};

static const stn_spec *spec_of(const stn_tensor *tensor)
{
    return tensor == NULL ? NULL : tensor->spec;
}

int stn_tensor_is_error(const stn_tensor *tensor)
{
    return tensor == NULL || stni_is_error(tensor);
}

stn_context *stn_tensor_context(const stn_tensor *tensor)
{
    return tensor == NULL ? NULL : tensor->context;
}

const stn_spec *stn_tensor_spec(const stn_tensor *tensor)
{
    return spec_of(tensor);
}

stn_dtype stn_tensor_dtype(const stn_tensor *tensor)
{
    const stn_spec *spec = spec_of(tensor);
    return spec == NULL ? STN_DTYPE_F32 : spec->layout.dtype;
}

int stn_tensor_ndim(const stn_tensor *tensor)
{
    const stn_spec *spec = spec_of(tensor);
    return spec == NULL ? 0 : spec->layout.ndim;
}

const int64_t *stn_tensor_shape(const stn_tensor *tensor)
{
    const stn_spec *spec = spec_of(tensor);
    return spec == NULL ? zeros : spec->layout.shape;
}

const int64_t *stn_tensor_local_shape(const stn_tensor *tensor)
{
    const stn_spec *spec = spec_of(tensor);
    return spec == NULL ? zeros : spec->local_shape;
}

const int64_t *stn_tensor_strides(const stn_tensor *tensor)
{
    return tensor == NULL ? zeros : tensor->strides;
}

void *stn_tensor_data(const stn_tensor *tensor)
{
    if (tensor != NULL && (tensor->flags & STNI_TENSOR_UNDER_WAY))
        stni_tensor_arrive((stn_tensor *)(uintptr_t)tensor);
    return spec_of(tensor) == NULL || tensor->spec->local_numel == 0 ? NULL : tensor->data;
}

int stni_tensor_is_dense(const stn_tensor *tensor)
{
    const stn_spec *spec = tensor->spec;
    if ((tensor->flags & STNI_TENSOR_DENSE) || spec->local_numel <= 1)
        return 1;
    for (int dim = 0; dim < spec->layout.ndim; dim++)
        if (spec->local_shape[dim] > 1 && tensor->strides[dim] != spec->strides[dim])
            return 0;
    return 1;
}

int stni_tensor_repeats_elements(const stn_tensor *tensor)
{
    const stn_spec *spec = tensor->spec;
    if ((tensor->flags & STNI_TENSOR_DENSE) || spec->layout.mesh || spec->local_numel == 0)
        return 0;
    for (int dim = 0; dim < spec->layout.ndim; dim++)
        if (tensor->strides[dim] == 0 && spec->local_shape[dim] > 1)
            return 1;
    return 0;
}

void stni_tensor_box(const stn_tensor *tensor, stn_box *box)
{
    int ndim = tensor->spec->layout.ndim;
    memset(box, 0, sizeof *box);
    box->data = tensor->data;
    box->ndim = ndim;
    memcpy(box->shape, tensor->spec->local_shape, (size_t)ndim * sizeof *box->shape);
    memcpy(box->strides, tensor->strides, (size_t)ndim * sizeof *box->strides);
    if (ndim == 0 && tensor->spec->local_numel == 0)
        box->ndim = 1; /* of length 0: without dims it would be a box of one element, which a rank outside the mesh does not have */
}

stn_status stni_tensor_copy_elements(const stn_tensor *to, const stn_tensor *from)
{
    stn_box to_box, from_box;
    stni_tensor_box(to, &to_box);
    stni_tensor_box(from, &from_box);
    return stni_box_copy(to->context->queue, &to_box, &from_box, stn_dtype_size(to->spec->layout.dtype));
}

stn_status stni_tensor_dense(stn_tensor *tensor, stn_tensor **out)
{
    if (stni_tensor_is_dense(tensor)) {
        *out = stn_tensor_retain(tensor);
        return STN_OK;
    }
    stn_tensor *dense;
    STNI_TRY(stni_tensor_create(tensor->context, tensor->spec, &dense));
    stn_status status = stni_tensor_copy_elements(dense, tensor);
    if (status != STN_OK) {
        stni_tensor_release_here(dense);
        return stni_fail_queue(tensor->context, status);
    }
    *out = dense;
    return STN_OK;
}

static const char *const flag_words[] = {[0] = "",
                                         [STNI_TENSOR_VIEW] = ", view",
                                         [STNI_TENSOR_REQUIRES_GRAD] = ", requires grad",
                                         [STNI_TENSOR_VIEW | STNI_TENSOR_REQUIRES_GRAD] = ", view, requires grad"};

int stn_tensor_describe(const stn_tensor *tensor, char *text, size_t size)
{
    if (text == NULL)
        size = 0;
    if (tensor == NULL)
        return snprintf(text, size, "no tensor");
    if (stni_is_error(tensor))
        return snprintf(text, size, "error tensor: %s", tensor->context->error.text);
    int n = stn_spec_describe(tensor->spec, text, size);
    size_t at = n < 0 ? 0 : (size_t)n < size ? (size_t)n : size;
    const uint32_t view = stn_tensor_is_view(tensor) ? STNI_TENSOR_VIEW : 0;
    const char *words = flag_words[view | (tensor->flags & STNI_TENSOR_REQUIRES_GRAD)];
    return n + snprintf(at < size ? text + at : NULL, size - at, "%s", words);
}

uint64_t stn_tensor_version(const stn_tensor *tensor)
{
    return spec_of(tensor) == NULL ? 0 : stni_tensor_root(tensor)->version;
}

int stn_tensor_is_view(const stn_tensor *tensor)
{
    const uint32_t flags = STNI_TENSOR_VIEW | STNI_TENSOR_COPY_ON_WRITE;
    return spec_of(tensor) != NULL && (tensor->flags & flags) == STNI_TENSOR_VIEW;
}

int stn_tensor_owns_memory(stn_tensor *tensor)
{
    const stn_spec *spec = spec_of(tensor);
    if (spec == NULL || spec->local_numel == 0 || stni_storage_is_lent(tensor->storage))
        return 0;
    stni_context_reap(tensor->context); /* handles that were released are gone */
    return atomic_load_explicit(&tensor->refs, memory_order_acquire) == 1 &&
           atomic_load_explicit(&tensor->storage->refs, memory_order_acquire) == 1 &&
           tensor->storage->bytes == (size_t)spec->local_numel * stn_dtype_size(spec->layout.dtype);
}

void stn_allow_stale_views_begin(stn_context *context)
{
    if (context)
        context->stale_views++;
}

void stn_allow_stale_views_end(stn_context *context)
{
    if (context && context->stale_views > 0)
        context->stale_views--;
}

stn_status stn_tensor_freeze(stn_tensor *tensor)
{
    STNI_TRY(stni_tensor_require(tensor, "stn_tensor_freeze: tensor"));
    if (tensor->leaf && (tensor->flags & STNI_TENSOR_REQUIRES_GRAD))
        return stni_fail(tensor->context, STN_ERR_STATE,
                         "stn_tensor_freeze: the tensor is a leaf that requires grad, wanted one that is not trained");
    if (tensor->flags & STNI_TENSOR_COPY_ON_WRITE) /* what it shows goes on to change */
        STNI_TRY(stni_tensor_before_write(tensor));
    tensor->storage->frozen = 1;
    stni_tensor_root(tensor)->frozen = 1;
    return STN_OK;
}

int stn_tensor_is_frozen(const stn_tensor *tensor)
{
    return spec_of(tensor) != NULL && tensor->storage->frozen && !(tensor->flags & STNI_TENSOR_COPY_ON_WRITE);
}

void stn_tensor_changed(stn_tensor *tensor)
{
    if (spec_of(tensor) == NULL)
        return;
    tensor->storage->version++;
    if (stni_tensor_root(tensor) != tensor->storage)
        stni_tensor_root(tensor)->version++;
}
