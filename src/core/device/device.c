/* The layer above every device: queues with their kept failure, events, copies.
 *
 * A failed queue runs nothing more: launches, copies and waits return the first failure. `failed` is set after the
 * text is complete, so that whoever sees it (acquire) may read the text without the lock. */
#include "core/base/cold.h"
#include "core/device/capture.h"
#include "core/device/device.h"
#include "core/device/recording.h"
#include "core/base/host_alloc.h"
#include "core/base/processor.h"
#include "core/device/trace.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    ALLOCATOR_ALIGNMENT = 256, /* bytes; what cudaMalloc keeps, and libraries of the device are promised */
    CPU_ALIGNMENT = 64         /* what the CPU's memory asks its allocator for */
};

static inline stn_status queue_status(const stn_queue *queue)
{
    return (stn_status)atomic_load_explicit(&queue->failed, memory_order_acquire);
}

const char *stni_device_ops_missing(const stn_device_ops *ops)
{
    return !ops || ops->size < STNI_DEVICE_OPS_LEAST ? "size"
           : !ops->name                              ? "name"
           : !ops->allocate                          ? "allocate"
           : !ops->deallocate                        ? "deallocate"
           : !ops->queue_create                      ? "queue_create"
           : !ops->queue_destroy                     ? "queue_destroy"
           : !ops->queue_sync                        ? "queue_sync"
           : !ops->launch                            ? "launch"
           : !ops->event_create                      ? "event_create"
           : !ops->event_destroy                     ? "event_destroy"
           : !ops->event_record                      ? "event_record"
           : !ops->queue_wait                        ? "queue_wait"
           : !ops->event_sync                        ? "event_sync"
           : !ops->copy                              ? "copy"
                                                     : NULL;
}

stn_status stni_device_create(const stn_device_ops *ops, void *impl, const char *name, stn_device **out)
{
    if (!ops || ops->size < STNI_DEVICE_OPS_LEAST)
        return STN_ERR_VERSION;
    if (stni_device_ops_missing(ops))
        return STN_ERR_ARGUMENT;
    stn_device *device = stni_calloc(1, sizeof *device);
    if (!device)
        return STN_ERR_MEMORY;
    memcpy(&device->table, ops, ops->size < sizeof device->table ? ops->size : sizeof device->table);
    device->ops = &device->table;
    device->impl = impl;
    device->isa = stni_isa_best();
    device->follows_runs = stni_processor_follows_runs();
    snprintf(device->name, sizeof device->name, "%s", name);
    *out = device;
    return STN_OK;
}

void stni_device_destroy(stn_device **device)
{
    if (!device || !*device)
        return;
    if ((*device)->ops->destroy)
        (*device)->ops->destroy((*device)->impl);
    stni_free(*device);
    *device = NULL;
}

stn_status stni_device_adopt_allocator(stn_device *device, const stn_device_allocator *allocator)
{
    if (!device->ops->allocate_from || !device->ops->deallocate_to)
        return STN_ERR_UNSUPPORTED;
    device->allocator = *allocator;
    return STN_OK;
}

/* What cannot be used goes back at once, and is told as what it is: memory that is asked for anew would not be
 * better. */
STNI_COLD static stn_status refuse_misaligned(stn_device *device, void *queue, size_t bytes, void **out)
{
    const uintptr_t address = (uintptr_t)*out;
    if (device->is_cpu)
        device->ops->deallocate(device->impl, *out, bytes);
    else
        device->ops->deallocate_to(device->impl, &device->allocator, queue, *out, bytes);
    *out = NULL;
    if (device->context)
        stni_fail_rank(device->context, STN_ERR_CALLBACK,
                       "%s: the address of %zu bytes got %#llx, wanted a multiple of %d",
                       device->is_cpu ? "allocator" : "device_allocator", bytes, (unsigned long long)address,
                       device->is_cpu ? CPU_ALIGNMENT : ALLOCATOR_ALIGNMENT);
    return STN_ERR_CALLBACK;
}

/* `queue`: the device's; NULL: none that may be used. */
static stn_status allocate_from(stn_device *device, void *queue, size_t bytes, void **out)
{
    STNI_TRY(device->ops->allocate_from(device->impl, &device->allocator, queue, bytes, out));
    return (uintptr_t)*out % ALLOCATOR_ALIGNMENT == 0 ? STN_OK : refuse_misaligned(device, queue, bytes, out);
}

stn_status stni_device_allocate(stn_device *device, size_t bytes, void **out)
{
    assert(bytes > 0);
    if (device->allocator.allocate)
        return allocate_from(device, NULL, bytes, out);
    STNI_TRY(device->ops->allocate(device->impl, bytes, out));
    const int is_good = !device->is_cpu || (uintptr_t)*out % CPU_ALIGNMENT == 0; /* the CPU's may be a caller's */
    return is_good ? STN_OK : refuse_misaligned(device, NULL, bytes, out);
}

void stni_device_deallocate(stn_device *device, void *pointer, size_t bytes)
{
    if (!pointer)
        return;
    if (device->allocator.allocate)
        device->ops->deallocate_to(device->impl, &device->allocator, NULL, pointer, bytes);
    else
        device->ops->deallocate(device->impl, pointer, bytes);
}

/* An allocator that orders by streams would put its own work on one that records. */
static int is_in_order(const stn_queue *queue)
{
    return queue->device->allocator.allocate && !queue->capture;
}

stn_status stni_queue_allocate(stn_queue *queue, size_t bytes, void **out)
{
    return is_in_order(queue) ? allocate_from(queue->device, queue->impl, bytes, out)
                              : stni_device_allocate(queue->device, bytes, out);
}

void stni_queue_deallocate(stn_queue *queue, void *pointer, size_t bytes)
{
    stn_device *device = queue->device;
    if (is_in_order(queue))
        device->ops->deallocate_to(device->impl, &device->allocator, queue->impl, pointer, bytes);
    else
        stni_device_deallocate(device, pointer, bytes);
}

stn_status stni_device_reserve(stn_device *device, size_t *bytes, void **out)
{
    const stn_device_ops *ops = device->ops;
    if (device->allocator.allocate || !ops->reserve || !ops->unreserve || !ops->commit || !ops->decommit)
        return STN_ERR_UNSUPPORTED;
    return ops->reserve(device->impl, bytes, out);
}

void stni_device_unreserve(stn_device *device, void *pointer, size_t bytes)
{
    device->ops->unreserve(device->impl, pointer, bytes);
}

stn_status stni_device_commit(stn_device *device, void *pointer, size_t bytes)
{
    return device->ops->commit(device->impl, pointer, bytes);
}

void stni_device_decommit(stn_device *device, void *pointer, size_t bytes)
{
    device->ops->decommit(device->impl, pointer, bytes);
}

/* The caller's options in a struct of this library's size: fields that the caller's version lacks are zero. */
static stn_status read_options(const stn_device *device, const stn_queue_options *given, stn_queue_options *out)
{
    *out = (stn_queue_options){.size = sizeof *out};
    if (!given || given->size == 0)
        return STN_OK;
    if (given->size < offsetof(stn_queue_options, stream) || given->size > sizeof *out ||
        (unsigned)given->kind > STN_QUEUE_WORKER)
        return STN_ERR_ARGUMENT;
    memcpy(out, given, given->size);
    out->size = sizeof *out;
    return out->stream && device->is_cpu ? STN_ERR_UNSUPPORTED : STN_OK;
}

stn_status stni_queue_create(stn_device *device, const stn_queue_options *given, stn_queue **out)
{
    stn_queue_options options;
    STNI_TRY(read_options(device, given, &options));
    stn_queue *queue = stni_calloc(1, sizeof *queue);
    if (!queue)
        return STN_ERR_MEMORY;
    queue->device = device;
    queue->isa = device->isa;
    queue->follows_runs = device->follows_runs;
    atomic_init(&queue->failed, STN_OK);
    atomic_init(&queue->kernels, 0);
    atomic_init(&queue->waited, 0);
    atomic_init(&queue->trace, NULL);
    atomic_init(&queue->follower, NULL);
    atomic_flag_clear(&queue->error_lock);
    stn_status status = device->ops->queue_create(device->impl, &options, &queue->impl);
    if (status != STN_OK) {
        stni_free(queue);
        return status;
    }
    queue->immediate = device->is_cpu && !queue->impl;
    *out = queue;
    return STN_OK;
}

void stni_queue_destroy(stn_queue **queue)
{
    if (!queue || !*queue)
        return;
    (*queue)->device->ops->queue_destroy((*queue)->device->impl, (*queue)->impl);
    stni_free(*queue);
    *queue = NULL;
}

STNI_COLD static stn_status kernel_failed(stn_queue *queue, stn_status status)
{
    return stn_queue_fail(queue, status, "a kernel failed: %s", stn_status_text(status));
}

static inline stn_status run(stn_queue *queue, stn_kernel_fn kernel, const void *args)
{
    stn_status status = kernel(queue, args);
    return status == STN_OK ? STN_OK : kernel_failed(queue, status);
}

STNI_COLD static stn_status run_traced(struct stni_trace *trace, stn_queue *queue, stn_kernel_fn kernel,
                                       const void *args, const char *name)
{
    int64_t start = stni_trace_now();
    stn_status status = run(queue, kernel, args);
    stni_trace_add_kernel(trace, name, start);
    return status;
}

stn_status stni_queue_run_named(stn_queue *queue, stn_kernel_fn kernel, const void *args, const char *name)
{
    STNI_TRY(queue_status(queue));
    struct stni_trace *trace = atomic_load_explicit(&queue->trace, memory_order_acquire);
    return trace ? run_traced(trace, queue, kernel, args, name) : run(queue, kernel, args);
}

stn_status stni_queue_run(stn_queue *queue, stn_kernel_fn kernel, const void *args)
{
    return stni_queue_run_named(queue, kernel, args, NULL);
}

const char *stni_queue_launch_name(stn_queue *queue)
{
    return queue->launching;
}

stn_status stni_queue_launch(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size)
{
    /* One thread launches at a time: no atomic addition is needed. */
    atomic_store_explicit(&queue->kernels, atomic_load_explicit(&queue->kernels, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (queue->immediate)
        return stni_queue_run_named(queue, kernel, args, queue->launching);
    STNI_TRY(queue_status(queue));
    if (queue->capture && queue->device->is_cpu)
        return stni_capture_launch(queue, kernel, args, args_size);
    return queue->device->ops->launch(queue->device->impl, queue->impl, queue, kernel, args, args_size);
}

stn_status stni_queue_launch_named(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size,
                                   const char *name)
{
    queue->launching = name;
    stn_status status = stn_queue_launch(queue, kernel, args, args_size);
    queue->launching = NULL;
    return status;
}

stn_status stn_queue_launch(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size)
{
    if (!queue)
        return STN_ERR_ARGUMENT;
    if (!kernel || (args_size > 0 && !args))
        return stn_queue_fail(queue, STN_ERR_ARGUMENT, "launch: %s got NULL, wanted %s", kernel ? "args" : "kernel",
                              kernel ? "args_size bytes" : "a function");
    if (args_size > STN_MAX_KERNEL_ARGS)
        return stn_queue_fail(queue, STN_ERR_ARGUMENT, "launch: args_size got %zu bytes, wanted at most %d", args_size,
                              STN_MAX_KERNEL_ARGS);
    return stni_queue_launch(queue, kernel, args, args_size);
}

stn_status stn_queue_sync(stn_queue *queue)
{
    return queue ? stni_queue_sync_for(queue, STN_SYNC_CALLER) : STN_ERR_ARGUMENT;
}

/* To give memory back the host may wait in a step that is being recorded: what was recorded so far runs before. */
STNI_COLD static stn_status sync_recording(stn_queue *queue, stn_sync_reason reason)
{
    if (!queue->recording || reason != STN_SYNC_MEMORY)
        return stni_capture_refuses(queue, "the host waited");
    stni_recording_pause(queue);
    stn_status status = stni_queue_sync_for(queue, reason);
    stni_recording_resume(queue);
    return status == STN_OK ? queue_status(queue) : status;
}

stn_status stni_queue_refused(stn_queue *queue, stn_status status, const char *what)
{
    const stn_device *device = queue->device;
    if (status == STN_OK)
        return STN_OK;
    const char *why = device->ops->failure ? device->ops->failure(device->impl) : NULL;
    return stn_queue_fail(queue, status, "%s device %s failed%s%s", what, device->name, why ? ": " : "",
                          why ? why : "");
}

stn_status stni_queue_sync_for(stn_queue *queue, stn_sync_reason reason)
{
    if (queue->capture)
        return sync_recording(queue, reason);
    queue->syncs[reason]++;
    if (!queue->immediate)
        stni_queue_refused(queue, queue->device->ops->queue_sync(queue->device->impl, queue->impl),
                           "waiting for a queue of");
    return queue_status(queue);
}

stn_status stn_queue_fail(stn_queue *queue, stn_status status, const char *format, ...)
{
    int is_first = 0;
    if (!queue)
        return status;
    while (atomic_flag_test_and_set_explicit(&queue->error_lock, memory_order_acquire)) {
    }
    if (queue_status(queue) == STN_OK) {
        is_first = 1;
        va_list args;
        va_start(args, format);
        vsnprintf(queue->error.text, sizeof queue->error.text, format, args);
        va_end(args);
        queue->error.status = status;
        atomic_store(&queue->failed, (int)status); /* who becomes the follower now sees it, or is seen below */
    }
    stn_queue *follower = atomic_load(&queue->follower);
    atomic_flag_clear_explicit(&queue->error_lock, memory_order_release);
    if (is_first && follower)
        stn_queue_fail(follower, status, "%s", queue->error.text);
    return status;
}

stn_status stn_queue_call(stn_queue *queue, void (*function)(void *arg), void *arg)
{
    if (!queue || !function)
        return STN_ERR_ARGUMENT;
    if (queue->capture)
        return stni_capture_refuses(queue, "a call of the host was queued");
    if (queue->immediate) {
        function(arg);
        return STN_OK;
    }
    const stn_device_ops *ops = queue->device->ops;
    return ops->call ? ops->call(queue->device->impl, queue->impl, function, arg) : STN_ERR_UNSUPPORTED;
}

const char *stn_queue_error_text(const stn_queue *queue)
{
    return !queue || queue_status(queue) == STN_OK ? "" : queue->error.text;
}

void *stn_queue_native(stn_queue *queue)
{
    return queue ? queue->impl : NULL;
}

void stni_queue_recover(stn_queue *queue)
{
    if (!queue->capture)
        stni_queue_sync_for(queue, STN_SYNC_CALLER);
    atomic_store_explicit(&queue->failed, STN_OK, memory_order_release);
    queue->error.status = STN_OK;
}

stn_status stni_event_create(stn_device *device, stn_event **out)
{
    stn_event *event = stni_calloc(1, sizeof *event);
    if (!event)
        return STN_ERR_MEMORY;
    event->device = device;
    stn_status status = device->ops->event_create(device->impl, &event->impl);
    if (status != STN_OK) {
        stni_free(event);
        return status;
    }
    *out = event;
    return STN_OK;
}

void stni_event_destroy(stn_event **event)
{
    if (!event || !*event)
        return;
    (*event)->device->ops->event_destroy((*event)->device->impl, (*event)->impl);
    stni_free(*event);
    *event = NULL;
}

stn_status stni_event_record(stn_event *event, stn_queue *queue)
{
    assert(event->device == queue->device);
    if (queue->capture && queue->device->is_cpu)
        return stni_capture_refuses(queue, "an event was recorded");
    return event->device->ops->event_record(event->device->impl, event->impl, queue->impl);
}

stn_status stni_queue_wait(stn_queue *queue, stn_event *event)
{
    assert(event->device == queue->device);
    STNI_TRY(queue_status(queue));
    if (queue->capture && queue->device->is_cpu)
        return stni_capture_refuses(queue, "an event was waited for");
    return event->device->ops->queue_wait(event->device->impl, queue->impl, event->impl);
}

stn_status stni_event_sync(stn_event *event)
{
    return event->device->ops->event_sync(event->device->impl, event->impl);
}

int stni_device_tells_passed(const stn_device *device)
{
    return device->ops->event_passed != NULL;
}

int stni_event_passed(const stn_event *event)
{
    const stn_device *device = event->device;
    return stni_device_tells_passed(device) && device->ops->event_passed(device->impl, event->impl);
}

int stni_device_reaches(const stn_device *device, const void *pointer)
{
    return !device->ops->reaches || device->ops->reaches(device->impl, pointer);
}

enum direction { TO_STREAM, FROM_STREAM };

/* An event on one side, a wait on the other; what waits needs the event no more. */
static stn_status join_stream(stn_queue *queue, void *stream, enum direction direction)
{
    const stn_device_ops *ops = queue->device->ops;
    void *impl = queue->device->impl;
    stn_event *event = NULL;
    if (!ops->stream_wait || !ops->stream_record)
        return STN_ERR_UNSUPPORTED;
    STNI_TRY(queue_status(queue));
    if (queue->capture)
        return stni_capture_refuses(queue, "a stream of somebody else's was joined");
    STNI_TRY(stni_event_create(queue->device, &event));
    stn_status status =
        direction == TO_STREAM ? stni_event_record(event, queue) : ops->stream_record(impl, event->impl, stream);
    if (status == STN_OK)
        status = direction == TO_STREAM ? ops->stream_wait(impl, stream, event->impl) : stni_queue_wait(queue, event);
    stni_event_destroy(&event);
    return status;
}

stn_status stni_stream_follow(stn_queue *queue, void *stream)
{
    return join_stream(queue, stream, TO_STREAM);
}

stn_status stni_queue_follow(stn_queue *queue, void *stream)
{
    return join_stream(queue, stream, FROM_STREAM);
}

stn_status stni_queue_copy(stn_queue *queue, void *dst, const void *src, size_t bytes, enum stni_copy_kind kind)
{
    STNI_TRY(queue_status(queue));
    if (bytes == 0)
        return STN_OK;
    if (queue->immediate) {
        memcpy(dst, src, bytes);
        return STN_OK;
    }
    if (queue->capture && (queue->device->is_cpu || kind != STNI_COPY_DEVICE))
        return stni_capture_refuses(queue, "memory of the host was copied");
    return stni_queue_refused(
        queue, queue->device->ops->copy(queue->device->impl, queue->impl, dst, src, bytes, (int)kind), "a copy of");
}
