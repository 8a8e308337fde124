/* Value errors (contract 8): the record that kernels write, and how it becomes a text at the next agreement.
 *
 * Kernels of a device write where their device can: into memory of the host that the device reaches, else into its own,
 * which is then copied. The CPU's write to the context itself. */
#include "core/context/context.h"

#include <stdio.h>
#include <string.h>

static int is_shared(const stn_context *context)
{
    return context->values != context->values_on_device;
}

static stn_status copy(stn_context *context, void *dst, const void *src, size_t bytes, enum stni_copy_kind kind)
{
    stn_status status = stni_queue_copy(context->queue, dst, src, bytes, kind);
    return status == STN_OK ? stni_queue_sync_for(context->queue, STN_SYNC_AGREEMENT) : status;
}

stn_status stni_values_create(stn_context *context)
{
    stn_device *device = context->device;
    void *memory = NULL;
    context->values = &context->values_here;
    if (device->is_cpu)
        return STN_OK;
    if (device->ops->host_allocate) {
        STNI_TRY(device->ops->host_allocate(device->impl, sizeof *context->values, &memory));
        context->values = memset(memory, 0, sizeof *context->values);
        return STN_OK;
    }
    STNI_TRY(stni_device_allocate(device, sizeof *context->values, &memory));
    context->values = context->values_on_device = memory;
    return copy(context, memory, &context->values_here, sizeof context->values_here, STNI_COPY_TO_DEVICE);
}

void stni_values_destroy(stn_context *context)
{
    stn_device *device = context->device;
    if (context->values_on_device)
        stni_device_deallocate(device, context->values_on_device, sizeof *context->values);
    else if (context->values && context->values != &context->values_here)
        device->ops->host_deallocate(device->impl, context->values, sizeof *context->values);
    context->values = context->values_on_device = NULL;
}

stn_value_record *stn_queue_value_record(stn_queue *queue)
{
    return queue && queue->context ? queue->context->values : NULL;
}

void stn_queue_value_error(stn_queue *queue, int op, int what, int n, const int64_t *numbers)
{
    uint32_t none = STN_VALUE_FREE;
    stn_value_record *record = stn_queue_value_record(queue);
    if (!record ||
        !__atomic_compare_exchange_n(&record->state, &none, STN_VALUE_CLAIMED, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    record->op = op;
    record->what = what;
    record->n = !numbers || n < 0 ? 0 : n < STN_VALUE_NUMBERS ? n : STN_VALUE_NUMBERS;
    if (record->n > 0) /* else `numbers` may be NULL */
        memcpy(record->numbers, numbers, (size_t)record->n * sizeof *numbers);
    __atomic_store_n(&record->state, STN_VALUE_WRITTEN, __ATOMIC_RELEASE);
}

static stn_value_record *record_here(stn_context *context)
{
    return is_shared(context) ? context->values : &context->values_here;
}

int stni_value_read(stn_context *context, char *text, size_t size)
{
    stn_value_record *here = record_here(context);
    if (!is_shared(context) && copy(context, here, context->values, sizeof *here, STNI_COPY_TO_HOST) != STN_OK)
        return 0;
    if (__atomic_load_n(&here->state, __ATOMIC_ACQUIRE) != STN_VALUE_WRITTEN)
        return 0;
    if (context->value_text)
        context->value_text(context, here, text, size);
    else
        snprintf(text, size, "kernel of op %d: value error %d", here->op, here->what);
    return 1;
}

void stni_value_forget(stn_context *context)
{
    const uint32_t none = STN_VALUE_FREE;
    __atomic_store_n(&record_here(context)->state, none, __ATOMIC_RELEASE);
    if (!is_shared(context))
        copy(context, &context->values->state, &none, sizeof none, STNI_COPY_TO_DEVICE);
}

int stni_value_take(stn_context *context, char *text, size_t size)
{
    if (!stni_value_read(context, text, size))
        return 0;
    stni_value_forget(context);
    return 1;
}
