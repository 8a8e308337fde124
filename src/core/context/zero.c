/* The element that zeros are copied from. */
#include "core/context/context.h"

#include <shardtensor/module.h>

static const double on_host[STNI_ZERO_BYTES / sizeof(double)] = {0};

stn_status stni_zero_take(stn_context *context, void **out)
{
    stn_device *device = context->device;
    stn_fill_args fill = {.count = STNI_ZERO_BYTES, .element_size = 1};
    *out = device->is_cpu ? (void *)(uintptr_t)on_host : context->zero;
    if (*out != NULL)
        return STN_OK;
    if (stni_device_allocate(device, STNI_ZERO_BYTES, &fill.data) != STN_OK)
        return stni_fail_memory(context, "zero", STNI_ZERO_BYTES);
    const stn_status status = stn_queue_launch(context->queue, device->fill, &fill, sizeof fill);
    if (status != STN_OK) {
        stni_device_deallocate(device, fill.data, STNI_ZERO_BYTES);
        return status;
    }
    *out = context->zero = fill.data;
    return STN_OK;
}

void stni_zero_destroy(stn_context *context)
{
    if (context->zero != NULL)
        stni_device_deallocate(context->device, context->zero, STNI_ZERO_BYTES);
    context->zero = NULL;
}
