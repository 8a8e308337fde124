/* A device of host memory at hidden addresses, with queues that are threads. Memory is filled with a pattern when it is handed out and when
 * it comes back; copies check on which side each address lies. */
#include "probe.h"

#include <pthread.h>
#include <stdatomic.h>
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

enum task_kind { TASK_KERNEL, TASK_COPY, TASK_RECORD, TASK_WAIT };

struct task {
    struct task *next;
    enum task_kind kind;
    stn_queue *queue;
    stn_kernel_fn kernel;
    void *dst;
    const void *src;
    size_t bytes;
    struct event *event;
    int64_t count;
    _Alignas(16) unsigned char args[];
};

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t work, idle;
    pthread_t thread;
    struct task *first, *last;
    int64_t launched, done;
    int stop;
    uint64_t delay_state;
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
    case TASK_KERNEL: probe_host->queue_run(task->queue, task->kernel, task->args); break;
    case TASK_COPY: memcpy(task->dst, task->src, task->bytes); break;
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
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return STN_ERR_MEMORY;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->idle, NULL);
    queue->delay_state = options->delay_seed;
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
    pthread_mutex_lock(&queue->mutex);
    *(queue->first ? &queue->last->next : &queue->first) = task;
    queue->last = task;
    queue->launched++;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
    return STN_OK;
}

static stn_status launch(void *impl, void *queue, stn_queue *handle, stn_kernel_fn kernel, const void *args, size_t args_size)
{
    (void)impl;
    struct task task = {.kind = TASK_KERNEL, .queue = handle, .kernel = kernel, .bytes = args_size};
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

stn_status probe_device_open(int index, const stn_device_ops **ops, void **impl)
{
    static const stn_device_ops table = {
        .size = sizeof table,
        .name = "probe",
        .allocate = device_allocate,
        .deallocate = device_deallocate,
        .queue_create = queue_create,
        .queue_destroy = queue_destroy,
        .queue_sync = queue_sync,
        .launch = launch,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .queue_wait = queue_wait,
        .event_sync = event_sync,
        .copy = copy,
        .destroy = destroy,
    };
    struct device *device = index < DEVICES ? calloc(1, sizeof *device) : NULL;
    if (!device)
        return index < DEVICES ? STN_ERR_MEMORY : STN_ERR_DEVICE;
    device->index = index;
    *ops = &table;
    *impl = device;
    return STN_OK;
}
