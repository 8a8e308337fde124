/* The CPU as a device. A queue without an object of its own is immediate: the layer above calls its kernels
 * directly, so that only the worker queue's work comes here. An event is a point of a worker; on an immediate queue
 * it has passed when it is recorded. */
#include "core/device/cpu_memory.h"
#include "core/device/cpu_worker.h"
#include "core/device/device.h"
#include "core/base/host_alloc.h"

#include <stdlib.h>
#include <string.h>

static stn_status cpu_queue_create(void *impl, const stn_queue_options *options, void **out)
{
    (void)impl;
    if (options->kind != STN_QUEUE_WORKER) {
        *out = NULL;
        return STN_OK;
    }
    struct stni_worker *worker;
    STNI_TRY(stni_worker_create(options->delay_seed, &worker));
    *out = worker;
    return STN_OK;
}

static void cpu_queue_destroy(void *impl, void *queue)
{
    (void)impl;
    if (queue)
        stni_worker_destroy(queue);
}

static stn_status cpu_queue_sync(void *impl, void *queue)
{
    (void)impl;
    if (queue)
        stni_worker_sync(queue);
    return STN_OK;
}

static stn_status cpu_launch(void *impl, void *queue, stn_queue *queue_handle, stn_kernel_fn kernel, const void *args,
                             size_t args_size)
{
    (void)impl;
    if (!queue)
        return stni_queue_run_named(queue_handle, kernel, args, queue_handle->launching);
    stni_worker_launch(queue, queue_handle, kernel, args, args_size);
    return STN_OK;
}

static stn_status cpu_event_create(void *impl, void **out)
{
    (void)impl;
    *out = stni_calloc(1, sizeof(struct stni_point));
    return *out ? STN_OK : STN_ERR_MEMORY;
}

static void cpu_event_destroy(void *impl, void *event)
{
    (void)impl;
    stni_point_drop(event);
    stni_free(event);
}

static stn_status cpu_event_record(void *impl, void *event, void *queue)
{
    (void)impl;
    struct stni_point *point = event;
    stni_point_drop(point);
    if (queue)
        *point = stni_worker_point(queue);
    return STN_OK;
}

static stn_status cpu_event_sync(void *impl, void *event)
{
    (void)impl;
    stni_point_sync(event);
    return STN_OK;
}

static stn_status cpu_queue_wait(void *impl, void *queue, void *event)
{
    if (!queue)
        return cpu_event_sync(impl, event); /* the caller's thread is the queue */
    stni_worker_wait(queue, event);
    return STN_OK;
}

struct copy_args {
    void *dst;
    const void *src;
    size_t bytes;
};

static stn_status copy_task(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct copy_args *a = args;
    memcpy(a->dst, a->src, a->bytes);
    return STN_OK;
}

static stn_status cpu_copy(void *impl, void *queue, void *dst, const void *src, size_t bytes, int kind)
{
    (void)impl;
    (void)kind;
    struct copy_args args = {dst, src, bytes};
    if (!queue)
        return copy_task(NULL, &args);
    stni_worker_launch(queue, NULL, copy_task, &args, sizeof args);
    return STN_OK;
}

static stn_status cpu_host_allocate(void *impl, size_t bytes, void **out)
{
    (void)impl;
    *out = stni_cpu_memory(bytes);
    return *out ? STN_OK : STN_ERR_MEMORY;
}

static void cpu_host_deallocate(void *impl, void *pointer, size_t bytes)
{
    (void)impl, (void)bytes;
    free(pointer);
}

struct call_args {
    void (*function)(void *arg);
    void *arg;
};

static stn_status call_task(stn_queue *queue, const void *args)
{
    (void)queue;
    const struct call_args *a = args;
    a->function(a->arg);
    return STN_OK;
}

/* Without the handle of the queue, so that it is called even where the queue has failed. */
static stn_status cpu_call(void *impl, void *queue, void (*function)(void *arg), void *arg)
{
    (void)impl;
    const struct call_args args = {function, arg};
    stni_worker_launch(queue, NULL, call_task, &args, sizeof args);
    return STN_OK;
}

static void cpu_destroy(void *impl)
{
    stni_free(impl);
}

static const stn_device_ops cpu_ops = {
    .size = sizeof(stn_device_ops),
    .name = "cpu",
    .allocate = stni_cpu_allocate,
    .deallocate = stni_cpu_deallocate,
    .queue_create = cpu_queue_create,
    .queue_destroy = cpu_queue_destroy,
    .queue_sync = cpu_queue_sync,
    .launch = cpu_launch,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .queue_wait = cpu_queue_wait,
    .event_sync = cpu_event_sync,
    .copy = cpu_copy,
    .destroy = cpu_destroy,
    .host_allocate = cpu_host_allocate,
    .host_deallocate = cpu_host_deallocate,
    .call = cpu_call,
    .reserve = stni_cpu_reserve,
    .unreserve = stni_cpu_unreserve,
    .commit = stni_cpu_commit,
    .decommit = stni_cpu_decommit,
};

stn_status stni_device_create_cpu(const stn_allocator *allocator, stn_device **out)
{
    if (allocator && (allocator->size < sizeof *allocator || !allocator->allocate || !allocator->deallocate))
        return STN_ERR_ARGUMENT;
    struct stni_cpu *cpu = stni_calloc(1, sizeof *cpu);
    if (!cpu)
        return STN_ERR_MEMORY;
    if (allocator)
        cpu->allocator = *allocator;
    stn_status status = stni_device_create(&cpu_ops, cpu, "cpu", out);
    if (status != STN_OK) {
        stni_free(cpu);
        return status;
    }
    (*out)->is_cpu = 1;
    return STN_OK;
}
