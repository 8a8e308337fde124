/* Tensors in memory of the host: where the elements of those that are made now lie. Work space stays the device's. */
#include "core/tensor/host_memory.h"

static void choose(stn_context *context)
{
    stni_context_use_pools(context, context->pool, context->host_pool);
}

stn_status stni_tensor_create_beside(const stn_tensor *tensor, const stn_spec *spec, stn_tensor **out)
{
    stn_context *context = tensor->context;
    context->tensor_pool = stni_storage_is_in_host_memory(tensor->storage) ? context->host_pool : context->pool;
    const stn_status status = stni_tensor_create(context, spec, out);
    choose(context);
    return status;
}

stn_status stni_tensor_create_for(const stn_tensor *parameter, const stn_spec *spec, stn_tensor **out)
{
    return stni_storage_is_in_host_memory(parameter->storage) ? stni_tensor_create_beside(parameter, spec, out)
                                                              : stni_tensor_create(parameter->context, spec, out);
}

int stn_tensor_is_in_host_memory(const stn_tensor *tensor)
{
    if (tensor == NULL || stni_is_error(tensor))
        return 0;
    return tensor->context->device->is_cpu || stni_storage_is_in_host_memory(tensor->storage);
}

stn_status stn_host_memory_begin(stn_context *context)
{
    if (context == NULL)
        return STN_ERR_ARGUMENT;
    context->host_memory++;
    choose(context);
    STNI_TRY(stni_context_failed(context));
    if (context->host_pool == NULL && !context->device->is_cpu)
        return stni_fail(context, STN_ERR_UNSUPPORTED,
                         "host_memory_begin: device %s gives no memory of the host that its kernels reach",
                         context->device->name);
    return STN_OK;
}

void stn_host_memory_end(stn_context *context)
{
    if (context == NULL || context->host_memory == 0)
        return;
    context->host_memory--;
    choose(context);
}
