/* A device of host memory at hidden addresses, with queues that are threads. Memory is filled with a pattern when it
 * is handed out and when it comes back; copies check on which side each address lies. */
#include "probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES = 2, HEAD = 64, PATTERN = 0xdb };
static const uint64_t MAGIC = 0x70726f6265000001u;

/* Before each piece of memory. */
struct head {
    uint64_t magic;
    size_t bytes;
};

struct device {
    atomic_long live; /* pieces of memory */
    int index;
};

/* What test_module asks for. */
STN_API extern atomic_long probe_leaks;
atomic_long probe_leaks; /* pieces that were alive when their device went */

struct event {
    pthread_mutex_t mutex;
    pthread_cond_t passed;
    int64_t recorded, done;
    int refs;
};

enum task_kind { TASK_KERNEL, TASK_COPY, TASK_RECORD, TASK_WAIT, TASK_CALL };

struct task {
    struct task *next;
    enum task_kind kind;
    stn_queue *queue;
    stn_kernel_fn kernel;
    const char *name; /* the kernel's, for traces */
    void *dst;
    const void *src;
    size_t bytes;
    struct event *event;
    int64_t count;
    void (*call)(void *arg);
    _Alignas(16) unsigned char args[];
};

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t work, idle;
    pthread_t thread;
    struct task *first, *last;
    int64_t launched, done;
    int stop, owners; /* owners: queues of the library that work here */
    uint64_t delay_state;
    struct graph *capture; /* where tasks are kept instead of run */
};

/* Recorded tasks. */
struct graph {
    struct task *first, **end;
};

static stn_status device_allocate(void *impl, size_t bytes, void **out)
{
    struct device *device = impl;
    if (bytes > SIZE_MAX / 2)
        return STN_ERR_MEMORY;
    char *memory = aligned_alloc(HEAD, (HEAD + bytes + HEAD - 1) / HEAD * HEAD);
    if (!memory)
        return STN_ERR_MEMORY;
    *(struct head *)(void *)memory = (struct head){MAGIC, bytes};
    memset(memory + HEAD, PATTERN, bytes);
    atomic_fetch_add(&device->live, 1);
    *out = probe_hide(memory + HEAD);
    return STN_OK;
}

static void device_deallocate(void *impl, void *pointer, size_t bytes)
{
    struct device *device = impl;
    char *memory = (char *)probe_true(pointer) - HEAD;
    const struct head *head = (const void *)memory;
    if (!probe_is_hidden(pointer) || head->magic != MAGIC || head->bytes != bytes)
        return; /* counted as a leak */
    memset(memory, PATTERN, HEAD + bytes);
    atomic_fetch_sub(&device->live, 1);
    free(memory);
}

static void event_release(struct event *event)
{
    pthread_mutex_lock(&event->mutex);
    int refs = --event->refs;
    pthread_mutex_unlock(&event->mutex);
    if (refs > 0)
        return;
    pthread_mutex_destroy(&event->mutex);
    pthread_cond_destroy(&event->passed);
    free(event);
}

static void event_await(struct event *event, int64_t count)
{
    pthread_mutex_lock(&event->mutex);
    while (event->done < count)
        pthread_cond_wait(&event->passed, &event->mutex);
    pthread_mutex_unlock(&event->mutex);
}

static void event_pass(struct event *event, int64_t count)
{
    pthread_mutex_lock(&event->mutex);
    if (event->done < count)
        event->done = count;
    pthread_cond_broadcast(&event->passed);
    pthread_mutex_unlock(&event->mutex);
}

static void delay(struct queue *queue)
{
    if (queue->delay_state == 0)
        return;
    queue->delay_state = queue->delay_state * 6364136223846793005u + 1442695040888963407u;
    struct timespec pause = {.tv_nsec = (long)(queue->delay_state >> 33) % 60000};
    if (pause.tv_nsec % 3 == 0)
        nanosleep(&pause, NULL);
}

static void run(struct task *task)
{
    switch (task->kind) {
    case TASK_KERNEL: probe_host->queue_run_named(task->queue, task->kernel, task->args, task->name); break;
    case TASK_COPY: memcpy(task->dst, task->src, task->bytes); break;
    case TASK_CALL: task->call(task->dst); break;
    case TASK_RECORD:
        event_pass(task->event, task->count);
        event_release(task->event);
        break;
    case TASK_WAIT:
        event_await(task->event, task->count);
        event_release(task->event);
        break;
    }
}

static void *queue_main(void *arg)
{
    struct queue *queue = arg;
    pthread_mutex_lock(&queue->mutex);
    for (;;) {
        while (!queue->first && !queue->stop)
            pthread_cond_wait(&queue->work, &queue->mutex);
        struct task *task = queue->first;
        if (!task)
            break;
        queue->first = task->next;
        pthread_mutex_unlock(&queue->mutex);
        delay(queue);
        run(task);
        memset(task->args, PATTERN, task->kind == TASK_KERNEL ? task->bytes : 0);
        free(task);
        pthread_mutex_lock(&queue->mutex);
        queue->done++;
        pthread_cond_broadcast(&queue->idle);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

static stn_status queue_create(void *impl, const stn_queue_options *options, void **out)
{
    (void)impl;
    if (options->stream) { /* the caller's: the native queue of another one */
        ((struct queue *)options->stream)->owners++;
        *out = options->stream;
        return STN_OK;
    }
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return STN_ERR_MEMORY;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->idle, NULL);
    queue->delay_state = options->delay_seed;
    queue->owners = 1;
    if (pthread_create(&queue->thread, NULL, queue_main, queue) != 0) {
        free(queue);
        return STN_ERR_DEVICE;
    }
    *out = queue;
    return STN_OK;
}

static void queue_destroy(void *impl, void *handle)
{
    (void)impl;
    struct queue *queue = handle;
    if (--queue->owners > 0)
        return;
    pthread_mutex_lock(&queue->mutex);
    queue->stop = 1;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
    pthread_join(queue->thread, NULL);
    pthread_mutex_destroy(&queue->mutex);
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->idle);
    free(queue);
}

static stn_status queue_sync(void *impl, void *handle)
{
    (void)impl;
    struct queue *queue = handle;
    pthread_mutex_lock(&queue->mutex);
    int64_t want = queue->launched;
    while (queue->done < want)
        pthread_cond_wait(&queue->idle, &queue->mutex);
    pthread_mutex_unlock(&queue->mutex);
    return STN_OK;
}

void probe_settle(stn_queue *queue, const void *data)
{
    if (probe_is_hidden(data))
        queue_sync(NULL, probe_host->queue_native(queue));
}

static stn_status enqueue(struct queue *queue, struct task head, const void *args, size_t args_size)
{
    struct task *task = malloc(sizeof *task + args_size);
    if (!task)
        return STN_ERR_MEMORY;
    memcpy(task, &head, sizeof head);
    if (args_size > 0)
        memcpy(task->args, args, args_size);
    task->next = NULL;
    if (queue->capture) {
        *queue->capture->end = task;
        queue->capture->end = &task->next;
        return STN_OK;
    }
    pthread_mutex_lock(&queue->mutex);
    *(queue->first ? &queue->last->next : &queue->first) = task;
    queue->last = task;
    queue->launched++;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
    return STN_OK;
}

static stn_status launch(void *impl, void *queue, stn_queue *handle, stn_kernel_fn kernel, const void *args,
                         size_t args_size)
{
    (void)impl;
    struct task task = {.kind = TASK_KERNEL,
                        .queue = handle,
                        .kernel = kernel,
                        .name = probe_host->queue_launch_name(handle),
                        .bytes = args_size};
    return enqueue(queue, task, args, args_size);
}

static stn_status event_create(void *impl, void **out)
{
    (void)impl;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return STN_ERR_MEMORY;
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->passed, NULL);
    event->refs = 1;
    *out = event;
    return STN_OK;
}

static void event_destroy(void *impl, void *event)
{
    (void)impl;
    event_release(event);
}

/* A task that holds a reference to the event, at the count that `up` leaves. */
static stn_status enqueue_event(struct queue *queue, enum task_kind kind, struct event *event, int up)
{
    pthread_mutex_lock(&event->mutex);
    event->refs++;
    event->recorded += up;
    struct task task = {.kind = kind, .event = event, .count = event->recorded};
    pthread_mutex_unlock(&event->mutex);
    return enqueue(queue, task, NULL, 0);
}

static stn_status event_record(void *impl, void *event, void *queue)
{
    (void)impl;
    return enqueue_event(queue, TASK_RECORD, event, 1);
}

static stn_status queue_wait(void *impl, void *queue, void *event)
{
    (void)impl;
    return enqueue_event(queue, TASK_WAIT, event, 0);
}

static stn_status event_sync(void *impl, void *handle)
{
    (void)impl;
    struct event *event = handle;
    event_await(event, event->recorded);
    return STN_OK;
}

static stn_status copy(void *impl, void *queue, void *dst, const void *src, size_t bytes, int kind)
{
    (void)impl;
    if (probe_is_hidden(dst) != (kind != 2) || probe_is_hidden(src) != (kind != 1))
        return STN_ERR_DEVICE;
    struct task task = {.kind = TASK_COPY, .dst = probe_true(dst), .src = probe_true(src), .bytes = bytes};
    return enqueue(queue, task, NULL, 0);
}

/* Memory of the host that kernels reach: its addresses are not hidden. */
static stn_status host_allocate(void *impl, size_t bytes, void **out)
{
    struct device *device = impl;
    *out = malloc(bytes);
    if (!*out)
        return STN_ERR_MEMORY;
    atomic_fetch_add(&device->live, 1);
    return STN_OK;
}

static void host_deallocate(void *impl, void *pointer, size_t bytes)
{
    struct device *device = impl;
    memset(pointer, PATTERN, bytes);
    free(pointer);
    atomic_fetch_sub(&device->live, 1);
}

static stn_status call(void *impl, void *queue, void (*function)(void *arg), void *arg)
{
    (void)impl;
    return enqueue(queue, (struct task){.kind = TASK_CALL, .call = function, .dst = arg}, NULL, 0);
}

static stn_status capture_begin(void *impl, void *handle)
{
    (void)impl;
    struct queue *queue = handle;
    queue->capture = calloc(1, sizeof *queue->capture);
    if (!queue->capture)
        return STN_ERR_MEMORY;
    queue->capture->end = &queue->capture->first;
    return STN_OK;
}

static stn_status capture_end(void *impl, void *handle, void **graph)
{
    (void)impl;
    struct queue *queue = handle;
    *graph = queue->capture;
    queue->capture = NULL;
    return STN_OK;
}

static stn_status graph_launch(void *impl, void *handle, void *queue)
{
    const struct graph *graph = handle;
    stn_status status = STN_OK;
    (void)impl;
    for (const struct task *task = graph->first; task && status == STN_OK; task = task->next)
        status = enqueue(queue, *task, task->args, task->kind == TASK_KERNEL ? task->bytes : 0);
    return status;
}

static void graph_destroy(void *impl, void *handle)
{
    struct graph *graph = handle;
    (void)impl;
    for (struct task *task = graph->first, *next; task; task = next) {
        next = task->next;
        free(task);
    }
    free(graph);
}

static void destroy(void *impl)
{
    struct device *device = impl;
    atomic_fetch_add(&probe_leaks, atomic_load(&device->live));
    free(device);
}

int probe_device_count(void)
{
    return DEVICES;
}

#define TABLE(bytes) \
    {.size = bytes, .name = "probe", .allocate = device_allocate, .deallocate = device_deallocate, .queue_create = queue_create, \
     .queue_destroy = queue_destroy, .queue_sync = queue_sync, .launch = launch, .event_create = event_create, \
     .event_destroy = event_destroy, .event_record = event_record, .queue_wait = queue_wait, .event_sync = event_sync, .copy = copy, \
     .destroy = destroy, .host_allocate = host_allocate, .host_deallocate = host_deallocate, .call = call, \
     .capture_begin = capture_begin, .capture_end = capture_end, .graph_launch = graph_launch, .graph_destroy = graph_destroy}

/* Device 1 is one of a module that was compiled before the entries from host_allocate on were there. */
stn_status probe_device_join(int index, const stn_device_ops **ops, void **impl, char *text, size_t text_size)
{
    static const stn_device_ops tables[DEVICES] = {TABLE(sizeof(stn_device_ops)),
                                                   TABLE(offsetof(stn_device_ops, host_allocate))};
    if (index >= DEVICES) {
        snprintf(text, text_size, "there are %d devices", DEVICES);
        return STN_ERR_DEVICE;
    }
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return STN_ERR_MEMORY;
    device->index = index;
    *ops = &tables[index];
    *impl = device;
    return STN_OK;
}
