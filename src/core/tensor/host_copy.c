/* Tensors from and to the host's memory: stn_empty, stn_from_host, stn_to_host, stn_wrap.
 *
 * Host arrays are row-major. The CPU copies between them and its chunks in whatever order those have; for another
 * device the host rearranges, and only dense bytes cross. */
#include "core/base/host_alloc.h"
#include "core/redistribute/redistribute.h"
#include "core/tensor/tensor.h"

/* A chunk's elements in row-major order at `data`. */
static stn_box row_major_box(const stn_spec *spec, const void *data)
{
    stn_box box = {.data = (void *)(uintptr_t)data, .ndim = spec->layout.ndim};
    int64_t stride = 1;
    for (int dim = spec->layout.ndim; dim-- > 0;) {
        box.shape[dim] = spec->local_shape[dim];
        box.strides[dim] = stride;
        stride *= spec->local_shape[dim];
    }
    return box;
}

/* A dense chunk of a spec, at `data`. */
static stn_box dense_box(const stn_spec *spec, const void *data)
{
    stn_box box = row_major_box(spec, data);
    for (int dim = 0; dim < spec->layout.ndim; dim++)
        box.strides[dim] = spec->strides[dim];
    return box;
}

int stni_tensor_is_host_array(const stn_tensor *tensor)
{
    const stn_box box = row_major_box(tensor->spec, NULL);
    for (int dim = 0; dim < box.ndim; dim++)
        if (box.shape[dim] > 1 && tensor->strides[dim] != box.strides[dim])
            return 0;
    return tensor->context->device->is_cpu;
}

static stn_status wait(stn_context *context, stn_status launched)
{
    STNI_TRY(stni_fail_queue(context, launched));
    return context->queue->immediate ? STN_OK
                                     : stni_fail_queue(context, stni_queue_sync_for(context->queue, STN_SYNC_VALUES));
}

/* Between dense device memory in the spec's order and the host, through host memory in the same order. */
static stn_status copy_through_host(stn_context *context, const stn_spec *spec, void *device_data, const stn_box *host,
                                    int to_host)
{
    size_t bytes = spec->local_bytes, element = stn_dtype_size(spec->layout.dtype);
    void *staging = stni_malloc(bytes);
    if (staging == NULL)
        return stni_fail_memory(context, "a copy between host and device", bytes);
    stn_box dense = dense_box(spec, staging);
    stn_status status;
    if (to_host) {
        status = wait(context, stni_queue_copy(context->queue, staging, device_data, bytes, STNI_COPY_TO_HOST));
        if (status == STN_OK)
            stni_box_copy_now(context->isa, host, &dense, element);
    } else {
        stni_box_copy_now(context->isa, &dense, host, element);
        status = wait(context, stni_queue_copy(context->queue, device_data, staging, bytes, STNI_COPY_TO_DEVICE));
    }
    stni_free(staging);
    return status;
}

/* From a box of host memory with the chunk's shape. */
static stn_status fill_from(stn_tensor *tensor, const stn_box *host)
{
    stn_context *context = tensor->context;
    stn_box chunk;
    if (!context->device->is_cpu)
        return copy_through_host(context, tensor->spec, tensor->data, host, 0);
    stni_tensor_box(tensor, &chunk);
    return wait(context, stni_box_copy(context->queue, &chunk, host, stn_dtype_size(tensor->spec->layout.dtype)));
}

stn_status stni_tensor_fill(stn_tensor *tensor, const void *data)
{
    if (tensor->spec->local_numel == 0)
        return STN_OK;
    const stn_box host = row_major_box(tensor->spec, data);
    return fill_from(tensor, &host);
}

/* This rank's chunk within the whole tensor at `data`. */
static stn_box chunk_of_whole(const stn_spec *spec, const void *data)
{
    stn_box box = row_major_box(spec, data);
    int64_t stride = 1, at = 0;
    for (int dim = spec->layout.ndim; dim-- > 0;) {
        box.strides[dim] = stride;
        at += spec->local_offset[dim] * stride;
        stride *= spec->layout.shape[dim];
    }
    box.data = (char *)box.data + at * (int64_t)stn_dtype_size(spec->layout.dtype);
    return box;
}

/* A copy of the chunk's order and strides happens on the device; what crosses is dense. */
static stn_status fetch_from_device(stn_tensor *tensor, const stn_box *host)
{
    stn_tensor *dense;
    STNI_TRY(stni_tensor_dense(tensor, &dense));
    stn_status status = copy_through_host(tensor->context, tensor->spec, dense->data, host, 1);
    stni_tensor_release_here(dense);
    return status;
}

static stn_status check_spec_alone(stn_context *context, const char *name, const stn_spec *spec)
{
    if (spec == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: spec got NULL", name);
    if (spec->context != context)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: spec got one of another context", name);
    return STN_OK;
}

/* Of what copies from the host's memory. */
static stn_status check_spec(stn_context *context, const char *name, const stn_spec *spec)
{
    STNI_TRY(check_spec_alone(context, name, spec));
    return stni_context_not_captured(
        context, name, "whose repetitions would copy the same memory: fill a tensor of before by stn_copy_");
}

stn_tensor *stn_empty(stn_context *context, const stn_spec *spec)
{
    if (context == NULL)
        return NULL;
    stni_context_reap(context);
    stn_tensor *tensor;
    if (context->error.status != STN_OK || check_spec_alone(context, "empty", spec) != STN_OK ||
        stni_tensor_create(context, spec, &tensor) != STN_OK)
        return context->error_tensor;
    return stni_tensor_publish(tensor);
}

stn_tensor *stn_from_host(stn_context *context, const stn_spec *spec, const void *data)
{
    if (context == NULL)
        return NULL;
    stni_context_reap(context);
    if (context->error.status != STN_OK || check_spec(context, "from_host", spec) != STN_OK)
        return context->error_tensor;
    stn_tensor *tensor;
    if (data == NULL && spec->local_numel > 0)
        stni_fail(context, STN_ERR_ARGUMENT, "from_host: data got NULL, wanted %lld elements",
                  (long long)spec->local_numel);
    if (context->error.status != STN_OK || stni_tensor_create(context, spec, &tensor) != STN_OK)
        return context->error_tensor;
    if (stni_tensor_fill(tensor, data) != STN_OK) {
        stni_tensor_release_here(tensor);
        return context->error_tensor;
    }
    return stni_tensor_publish(tensor);
}

/* The complete tensor first: a replica becomes a pending reduction by itself, without communication. */
static stn_status from_whole(stn_context *context, const stn_spec *spec, const void *data, stn_tensor **out)
{
    struct stni_layout layout = spec->layout;
    const stn_spec *complete = spec;
    stn_tensor *made;
    if (stni_layout_reduce(&layout, 0))
        STNI_TRY(stni_spec_intern(context, &layout, &complete));
    if (data == NULL && complete->local_numel > 0)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "from_host_global: data got NULL, wanted the whole tensor of %lld elements",
                         (long long)spec->numel);
    STNI_TRY(stni_tensor_create(context, complete, &made));
    const stn_box host = chunk_of_whole(complete, data);
    stn_status status = complete->local_numel > 0 ? fill_from(made, &host) : STN_OK;
    if (status == STN_OK)
        status = stni_redistribute(made, spec, out);
    stni_tensor_release_here(made);
    return status;
}

stn_tensor *stn_from_host_global(stn_context *context, const stn_spec *spec, const void *data)
{
    stn_tensor *tensor = NULL;
    if (context == NULL)
        return NULL;
    stni_context_reap(context);
    if (context->error.status != STN_OK || check_spec(context, "from_host_global", spec) != STN_OK)
        return context->error_tensor;
    context->busy++; /* what is interned on the way is kept */
    const stn_status status = from_whole(context, spec, data, &tensor);
    context->busy--;
    return status == STN_OK ? stni_tensor_publish(tensor) : context->error_tensor;
}

stn_status stn_to_host(stn_tensor *tensor, void *data, size_t size)
{
    STNI_TRY(stni_tensor_require(tensor, "to_host: tensor"));
    stn_context *context = tensor->context;
    STNI_TRY(
        stni_context_not_captured(context, "to_host", "where the host reads no values: read them once it has run"));
    stni_lent_take_ended(context);
    const stn_spec *spec = tensor->spec;
    size_t bytes = spec->local_bytes;
    if (size != bytes)
        return stni_fail(context, STN_ERR_ARGUMENT, "to_host: size got %zu bytes, wanted %zu (%lld elements of %s)",
                         size, bytes, (long long)spec->local_numel, stn_dtype_name(spec->layout.dtype));
    if (bytes == 0)
        return STN_OK;
    if (data == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "to_host: data got NULL, wanted %zu bytes", bytes);
    stn_box host = row_major_box(spec, data), chunk;
    if (!context->device->is_cpu)
        return fetch_from_device(tensor, &host);
    stni_tensor_box(tensor, &chunk);
    return wait(context, stni_box_copy(context->queue, &host, &chunk, stn_dtype_size(spec->layout.dtype)));
}

/* Bytes from the first element to the end of the last one; fails where strides are negative or the sum is no
 * int64_t. */
static stn_status extent_bytes(stn_context *context, const stn_spec *spec, const int64_t *strides, size_t *out)
{
    int64_t last = 0, bytes = 0, element = (int64_t)stn_dtype_size(spec->layout.dtype);
    for (int dim = 0; spec->local_numel > 0 && dim < spec->layout.ndim; dim++) {
        int64_t step;
        if (strides[dim] < 0)
            return stni_fail(context, STN_ERR_ARGUMENT, "wrap: strides[%d] got %lld, wanted at least 0", dim,
                             (long long)strides[dim]);
        if (__builtin_mul_overflow(strides[dim], spec->local_shape[dim] - 1, &step) ||
            __builtin_add_overflow(last, step, &last))
            last = INT64_MAX;
    }
    if (spec->local_numel > 0 &&
        (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, element, &bytes)))
        return stni_fail(context, STN_ERR_ARGUMENT, "wrap: strides reach beyond the address space");
    *out = (size_t)bytes;
    return STN_OK;
}

static stn_status check_data(stn_context *context, const stn_spec *spec, const void *data)
{
    const size_t element = stn_dtype_size(spec->layout.dtype);
    const size_t alignment = element < 8 || !context->device->is_cpu ? element : 8;
    if (data == NULL && spec->local_numel > 0)
        return stni_fail(context, STN_ERR_ARGUMENT, "wrap: data got NULL, wanted %lld elements",
                         (long long)spec->local_numel);
    if ((uintptr_t)data % alignment != 0)
        return stni_fail(context, STN_ERR_ARGUMENT, "wrap: data got an address that is no multiple of %zu", alignment);
    if (spec->local_numel > 0 && !stni_device_reaches(context->device, data))
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "wrap: data got memory that device %s does not reach, wanted the device's own (stn_from_host "
                         "copies the host's)",
                         context->device->name);
    return STN_OK;
}

struct foreign {
    void *data;
    void (*release)(void *arg);
    void *arg;
};

static stn_status wrap(stn_context *context, const stn_spec *spec, const int64_t *strides, struct foreign memory,
                       stn_tensor **out)
{
    struct stni_storage *storage = NULL;
    size_t bytes = 0;
    STNI_TRY(check_data(context, spec, memory.data));
    STNI_TRY(extent_bytes(context, spec, strides != NULL ? strides : spec->strides, &bytes));
    STNI_TRY(stni_storage_wrap(context, memory.data, bytes, memory.release, memory.arg, &storage));
    stn_status status = stni_tensor_on(context, spec, storage, memory.data, strides, 0, out);
    if (status != STN_OK)
        storage->release = NULL; /* still the caller's */
    stni_storage_release(storage);
    return status;
}

stn_tensor *stn_wrap(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides,
                     void *data, void (*release)(void *arg), void *arg)
{
    if (context == NULL)
        return NULL;
    stni_context_reap(context);
    const stn_spec *spec;
    stn_tensor *tensor;
    struct foreign memory = {data, release, arg};
    if (context->error.status != STN_OK ||
        stn_spec_create(context, NULL, NULL, dtype, ndim, shape, NULL, &spec) != STN_OK)
        return context->error_tensor;
    stn_status status = wrap(context, spec, strides, memory, &tensor);
    stn_spec_release(&spec);
    return status == STN_OK ? stni_tensor_publish(tensor) : context->error_tensor;
}
