/* Tensors to and from DLPack, without a copy in either direction. */
#include "core/tensor/dlpack.h"

#include "core/base/host_alloc.h"
#include "core/tensor/copy_on_write.h"

#include <string.h>

static const struct stni_dl_data_type types[STN_DTYPE_COUNT] = {
    [STN_DTYPE_F32] = {STNI_DL_FLOAT, 32, 1},   [STN_DTYPE_F64] = {STNI_DL_FLOAT, 64, 1},
    [STN_DTYPE_BF16] = {STNI_DL_BFLOAT, 16, 1}, [STN_DTYPE_F16] = {STNI_DL_FLOAT, 16, 1},
    [STN_DTYPE_I64] = {STNI_DL_INT, 64, 1},     [STN_DTYPE_I32] = {STNI_DL_INT, 32, 1},
    [STN_DTYPE_U8] = {STNI_DL_UINT, 8, 1},      [STN_DTYPE_BOOL] = {STNI_DL_BOOL, 8, 1},
    [STN_DTYPE_C64] = {STNI_DL_COMPLEX, 64, 1}, [STN_DTYPE_C128] = {STNI_DL_COMPLEX, 128, 1},
    [STN_DTYPE_I8] = {STNI_DL_INT, 8, 1},       [STN_DTYPE_I16] = {STNI_DL_INT, 16, 1},
};

static const struct {
    const char *name;
    int32_t type;
} devices[] = {{"cpu", STNI_DL_CPU}, {"cuda", STNI_DL_CUDA}, {"rocm", STNI_DL_ROCM}};

/* 0 where DLPack has no word for the device. */
static int32_t device_type(const stn_device *device)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (strcmp(devices[i].name, device->name) == 0)
            return devices[i].type;
    return 0;
}

/* Where a tensor's elements lie: what is in memory of the host any library reads. */
static struct stni_dl_device place_of(const stn_tensor *tensor)
{
    const stn_device *device = tensor->context->device;
    return stn_tensor_is_in_host_memory(tensor) ? (struct stni_dl_device){STNI_DL_CPU, 0}
                                                : (struct stni_dl_device){device_type(device), device->index};
}

/* What is handed out: the struct, its arrays, and the reference that the consumer's deleter gives back. */
struct handed_out {
    struct DLManagedTensorVersioned managed;
    stn_tensor *tensor;
    int64_t shape[STN_MAX_NDIM], strides[STN_MAX_NDIM];
};

static void give_back(struct DLManagedTensorVersioned *self)
{
    struct handed_out *out = self->manager_ctx;
    stn_tensor_release(&out->tensor);
    stni_free(out);
}

static stn_status check_to(stn_tensor *tensor, struct DLManagedTensorVersioned **out)
{
    STNI_TRY(stni_tensor_require(tensor, "to_dlpack: tensor"));
    stn_context *context = tensor->context;
    if (!out)
        return stni_fail(context, STN_ERR_ARGUMENT, "to_dlpack: out got NULL");
    if (tensor->flags & STNI_TENSOR_REQUIRES_GRAD)
        return stni_fail(context, STN_ERR_STATE, "to_dlpack: tensor got one that requires grad; detach it first");
    if (device_type(context->device) == 0)
        return stni_fail(context, STN_ERR_DEVICE, "to_dlpack: DLPack has no name for device '%s'",
                         context->device->name);
    return stni_tensor_own_memory(tensor);
}

static stn_status check_stream(stn_context *context, const char *what, int64_t stream)
{
    const stn_device *device = context->device;
    if (stream == 0)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "%s: stream got 0, wanted -1, 1 (the legacy default stream), 2 (the thread's) or an address",
                         what);
    if (stream != STN_DLPACK_NO_STREAM && !(device->ops->stream_wait && device->ops->stream_record))
        return stni_fail(context, STN_ERR_UNSUPPORTED, "%s: stream got %lld, wanted -1: device %s has no streams", what,
                         (long long)stream, device->name);
    return STN_OK;
}

static void *address_of(int64_t stream)
{
    return (void *)(intptr_t)stream;
}

static void fill_out(struct handed_out *out, stn_tensor *tensor)
{
    const stn_spec *spec = tensor->spec;
    int ndim = spec->layout.ndim;
    out->tensor = stn_tensor_retain(tensor);
    memcpy(out->shape, spec->local_shape, sizeof out->shape);
    memcpy(out->strides, tensor->strides, sizeof out->strides);
    out->managed = (struct DLManagedTensorVersioned){
        .version = {STNI_DLPACK_MAJOR, STNI_DLPACK_MINOR},
        .manager_ctx = out,
        .deleter = give_back,
        .flags = stn_tensor_is_frozen(tensor) ? STNI_DL_READ_ONLY : 0,
        .dl_tensor = {.data = tensor->data, .device = place_of(tensor), .ndim = ndim,
                      .dtype = types[spec->layout.dtype], .shape = out->shape, .strides = out->strides},
    };
}

static stn_status hand_out(stn_tensor *tensor, struct DLManagedTensorVersioned **out)
{
    struct handed_out *made = stni_calloc(1, sizeof *made);
    if (!made)
        return stni_fail_memory(tensor->context, "to_dlpack", sizeof *made);
    fill_out(made, tensor);
    *out = &made->managed;
    return STN_OK;
}

stn_status stn_tensor_to_dlpack(stn_tensor *tensor, struct DLManagedTensorVersioned **out)
{
    STNI_TRY(check_to(tensor, out));
    STNI_TRY(stni_context_not_captured(tensor->context, "to_dlpack", "which gives nothing out: do it before or after"));
    if (!tensor->context->queue->immediate)
        STNI_TRY(stni_context_sync(tensor->context, STN_SYNC_EXPORT));
    return hand_out(tensor, out);
}

stn_status stn_tensor_to_dlpack_on(stn_tensor *tensor, int64_t stream, struct DLManagedTensorVersioned **out)
{
    STNI_TRY(check_to(tensor, out));
    STNI_TRY(check_stream(tensor->context, "to_dlpack", stream));
    if (stream != STN_DLPACK_NO_STREAM && stn_tensor_is_in_host_memory(tensor))
        return stn_tensor_to_dlpack(tensor, out);
    struct DLManagedTensorVersioned *made = NULL;
    STNI_TRY(hand_out(tensor, &made));
    stn_status status =
        stream == STN_DLPACK_NO_STREAM ? STN_OK : stni_stream_follow(tensor->context->queue, address_of(stream));
    if (status != STN_OK) {
        made->deleter(made);
        return stni_fail_queue(tensor->context, status);
    }
    *out = made;
    return STN_OK;
}

stn_status stn_context_dlpack_device(stn_context *context, int32_t *type, int32_t *index)
{
    if (!context || !type || !index)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_failed(context));
    if (device_type(context->device) == 0)
        return stni_fail(context, STN_ERR_DEVICE, "dlpack_device: DLPack has no name for device '%s'",
                         context->device->name);
    *type = device_type(context->device);
    *index = context->device->index;
    return STN_OK;
}

stn_status stn_tensor_dlpack_device(const stn_tensor *tensor, int32_t *type, int32_t *index)
{
    STNI_TRY(stni_tensor_require(tensor, "dlpack_device: tensor"));
    STNI_TRY(stn_context_dlpack_device(tensor->context, type, index));
    const struct stni_dl_device place = place_of(tensor);
    *type = place.device_type;
    *index = place.device_id;
    return STN_OK;
}

/* STN_DTYPE_COUNT where we have no such type. */
static stn_dtype dtype_of(struct stni_dl_data_type type)
{
    int d = 0;
    while (d < STN_DTYPE_COUNT &&
           (types[d].code != type.code || types[d].bits != type.bits || types[d].lanes != type.lanes))
        d++;
    return (stn_dtype)d;
}

static stn_status check_layout(stn_context *context, const struct stni_dl_tensor *t)
{
    if (t->ndim < 0 || t->ndim > STN_MAX_NDIM)
        return stni_fail(context, STN_ERR_ARGUMENT, "from_dlpack: ndim got %d, wanted 0 to %d", t->ndim, STN_MAX_NDIM);
    if (t->ndim > 0 && t->shape == NULL)
        return stni_fail(context, STN_ERR_ARGUMENT, "from_dlpack: shape got NULL, wanted %d sizes", t->ndim);
    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] < 0)
            return stni_fail(context, STN_ERR_ARGUMENT, "from_dlpack: shape[%d] got %lld", d, (long long)t->shape[d]);
        if (t->strides && t->strides[d] < 0 && t->shape[d] > 1)
            return stni_fail(context, STN_ERR_ARGUMENT, "from_dlpack: strides[%d] got %lld, wanted at least 0", d,
                             (long long)t->strides[d]);
    }
    return STN_OK;
}

static stn_status check_from(stn_context *context, const struct DLManagedTensorVersioned *managed)
{
    const struct stni_dl_tensor *t = &managed->dl_tensor;
    const stn_device *device = context->device;
    if (managed->version.major != STNI_DLPACK_MAJOR)
        return stni_fail(context, STN_ERR_VERSION, "from_dlpack: managed got DLPack %u.%u, wanted %d",
                         managed->version.major, managed->version.minor, STNI_DLPACK_MAJOR);
    if (managed->flags & STNI_DL_READ_ONLY)
        return stni_fail(context, STN_ERR_UNSUPPORTED,
                         "from_dlpack: managed got a read-only tensor, wanted one that may be written to");
    if (t->device.device_type != device_type(device) || t->device.device_id != device->index)
        return stni_fail(context, STN_ERR_DEVICE, "from_dlpack: device got type %d, id %d, wanted type %d, id %d (%s)",
                         t->device.device_type, t->device.device_id, device_type(device), device->index, device->name);
    if (dtype_of(t->dtype) == STN_DTYPE_COUNT)
        return stni_fail(context, STN_ERR_DTYPE, "from_dlpack: dtype got code %d with %d bits and %d lanes",
                         t->dtype.code, t->dtype.bits, t->dtype.lanes);
    return check_layout(context, t);
}

static void delete_managed(void *arg)
{
    struct DLManagedTensorVersioned *managed = arg;
    if (managed->deleter)
        managed->deleter(managed);
}

static stn_tensor *take_over(stn_context *context, struct DLManagedTensorVersioned *managed)
{
    const struct stni_dl_tensor *t = &managed->dl_tensor;
    char *data = t->data;
    int64_t strides[STN_MAX_NDIM] = {0};
    for (int d = 0; t->strides && d < t->ndim; d++)
        strides[d] = t->shape[d] > 1 ? t->strides[d] : 0; /* of one element a stride says nothing */
    return stn_wrap(context, dtype_of(t->dtype), t->ndim, t->shape, t->strides ? strides : NULL,
                    data ? data + t->byte_offset : NULL, delete_managed, managed);
}

static stn_status check_in(stn_context *context, const struct DLManagedTensorVersioned *managed)
{
    STNI_TRY(stni_context_failed(context));
    return managed ? check_from(context, managed)
                   : stni_fail(context, STN_ERR_ARGUMENT, "from_dlpack: managed got NULL");
}

stn_tensor *stn_tensor_from_dlpack(stn_context *context, struct DLManagedTensorVersioned *managed)
{
    if (!context)
        return NULL;
    return check_in(context, managed) == STN_OK ? take_over(context, managed) : context->error_tensor;
}

stn_tensor *stn_tensor_from_dlpack_on(stn_context *context, struct DLManagedTensorVersioned *managed, int64_t stream)
{
    if (!context)
        return NULL;
    if (check_in(context, managed) != STN_OK || check_stream(context, "from_dlpack", stream) != STN_OK)
        return context->error_tensor;
    if (stream != STN_DLPACK_NO_STREAM &&
        stni_fail_queue(context, stni_queue_follow(context->queue, address_of(stream))) != STN_OK)
        return context->error_tensor;
    return take_over(context, managed);
}
