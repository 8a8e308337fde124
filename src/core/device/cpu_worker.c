/* A thread that runs kernels in the order of their launch, out of a ring of bytes.
 *
 * A task is a header and its arguments, both in units of 64 bytes, so that a header always fits where the ring
 * wraps. The caller puts tasks at `tail`, the thread takes them at `head`; both only grow. What has ended is counted
 * by a timeline of its own, which events share: they may outlive the queue. */
#include "core/device/cpu_worker.h"

#include "core/base/host_alloc.h"

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <time.h>

enum { UNIT = 64, RING_BYTES = 1 << 18 };

struct stni_timeline {
    atomic_int refs;
    pthread_mutex_t mutex; /* of the ring too */
    pthread_cond_t moved;  /* `done` has come to `wanted` */
    int64_t done;
    int64_t wanted; /* the least count that somebody waits for; INT64_MAX: nobody does */
};

struct task {
    alignas(UNIT) stn_kernel_fn kernel; /* NULL: go on at the ring's beginning */
    stn_queue *queue;                   /* NULL: runs even where the queue has failed */
    const char *name;                   /* for a trace; NULL: not told */
    uint32_t bytes;                     /* this header included */
};

struct stni_worker {
    struct stni_timeline *timeline;
    pthread_cond_t work; /* tail has grown, or stop */
    pthread_t thread;
    uint64_t head, tail; /* bytes */
    int64_t launched;    /* the launching thread's */
    int stop;
    uint64_t delay_state;
    char *ring;
    void *memory; /* that the ring lies in */
};

static struct stni_timeline *timeline_create(void)
{
    struct stni_timeline *timeline = stni_calloc(1, sizeof *timeline);
    if (!timeline)
        return NULL;
    atomic_init(&timeline->refs, 1);
    pthread_mutex_init(&timeline->mutex, NULL);
    pthread_cond_init(&timeline->moved, NULL);
    timeline->wanted = INT64_MAX;
    return timeline;
}

static void timeline_release(struct stni_timeline *timeline)
{
    if (atomic_fetch_sub(&timeline->refs, 1) != 1)
        return;
    pthread_cond_destroy(&timeline->moved);
    pthread_mutex_destroy(&timeline->mutex);
    stni_free(timeline);
}

/* With the mutex held: until `count` tasks have ended. */
static void timeline_await(struct stni_timeline *timeline, int64_t count)
{
    while (timeline->done < count) {
        if (count < timeline->wanted)
            timeline->wanted = count;
        pthread_cond_wait(&timeline->moved, &timeline->mutex);
    }
}

/* With the mutex held, but where others are told: they would wake to wait for it. Each of them says anew
 * what it waits for. */
static void timeline_advance(struct stni_timeline *timeline)
{
    timeline->done++;
    if (timeline->done < timeline->wanted)
        return;
    timeline->wanted = INT64_MAX;
    pthread_mutex_unlock(&timeline->mutex);
    pthread_cond_broadcast(&timeline->moved);
    pthread_mutex_lock(&timeline->mutex);
}

/* splitmix64, Steele, Lea and Flood 2014: delays differ from task to task and repeat from run to run. */
static uint64_t delay_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A third of the tasks begins up to 100 microseconds late. */
static void delay(struct stni_worker *worker)
{
    if (worker->delay_state == 0)
        return;
    uint64_t draw = delay_next(&worker->delay_state);
    if (draw % 3 != 0)
        return;
    struct timespec pause = {.tv_nsec = (long)(draw >> 32) % 100000};
    nanosleep(&pause, NULL);
}

static void task_run(struct stni_worker *worker, const struct task *task)
{
    delay(worker);
    if (task->queue)
        stni_queue_run_named(task->queue, task->kernel, task + 1, task->name);
    else
        task->kernel(NULL, task + 1);
}

/* With the mutex held: the task at `head`, or NULL when there is nothing left and the thread shall end. */
static const struct task *task_next(struct stni_worker *worker)
{
    for (;;) {
        while (worker->head == worker->tail && !worker->stop)
            pthread_cond_wait(&worker->work, &worker->timeline->mutex);
        if (worker->head == worker->tail)
            return NULL;
        const struct task *task = (const void *)(worker->ring + worker->head % RING_BYTES);
        if (task->kernel)
            return task;
        worker->head += task->bytes;
    }
}

static void *worker_main(void *arg)
{
    struct stni_worker *worker = arg;
    struct stni_timeline *timeline = worker->timeline;
    const struct task *task;
    pthread_mutex_lock(&timeline->mutex);
    while ((task = task_next(worker)) != NULL) {
        pthread_mutex_unlock(&timeline->mutex);
        task_run(worker, task);
        pthread_mutex_lock(&timeline->mutex);
        worker->head += task->bytes;
        timeline_advance(timeline);
    }
    pthread_mutex_unlock(&timeline->mutex);
    return NULL;
}

/* Signals of the host stay with the host's threads. */
static int thread_start(struct stni_worker *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&worker->thread, NULL, worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

stn_status stni_worker_create(uint64_t delay_seed, struct stni_worker **out)
{
    stn_status status = STN_ERR_MEMORY;
    struct stni_worker *worker = stni_calloc(1, sizeof *worker);
    if (!worker)
        return STN_ERR_MEMORY;
    worker->delay_state = delay_seed;
    pthread_cond_init(&worker->work, NULL);
    worker->timeline = timeline_create();
    worker->memory = stni_malloc(RING_BYTES + UNIT);
    if (!worker->timeline || !worker->memory)
        goto fail;
    worker->ring = (char *)worker->memory + (UNIT - (uintptr_t)worker->memory % UNIT);
    if (thread_start(worker) != 0) {
        status = STN_ERR_DEVICE;
        goto fail;
    }
    *out = worker;
    return STN_OK;
fail:
    if (worker->timeline)
        timeline_release(worker->timeline);
    stni_free(worker->memory);
    pthread_cond_destroy(&worker->work);
    stni_free(worker);
    return status;
}

void stni_worker_destroy(struct stni_worker *worker)
{
    pthread_mutex_lock(&worker->timeline->mutex);
    worker->stop = 1;
    pthread_cond_signal(&worker->work);
    pthread_mutex_unlock(&worker->timeline->mutex);
    pthread_join(worker->thread, NULL);
    timeline_release(worker->timeline);
    pthread_cond_destroy(&worker->work);
    stni_free(worker->memory);
    stni_free(worker);
}

/* With the mutex held: space for `bytes` in one piece at the tail. */
static struct task *task_reserve(struct stni_worker *worker, uint32_t bytes)
{
    uint32_t to_end = (uint32_t)(RING_BYTES - worker->tail % RING_BYTES);
    uint32_t skip = to_end < bytes ? to_end : 0;
    while (worker->tail + skip + bytes - worker->head > RING_BYTES)
        timeline_await(worker->timeline, worker->timeline->done + 1);
    if (skip > 0) {
        *(struct task *)(void *)(worker->ring + worker->tail % RING_BYTES) = (struct task){.bytes = skip};
        worker->tail += skip;
    }
    return (void *)(worker->ring + worker->tail % RING_BYTES);
}

void stni_worker_launch(struct stni_worker *worker, stn_queue *queue, stn_kernel_fn kernel, const void *args,
                        size_t args_size)
{
    uint32_t bytes = (uint32_t)((sizeof(struct task) + args_size + UNIT - 1) / UNIT * UNIT);
    pthread_mutex_lock(&worker->timeline->mutex);
    struct task *task = task_reserve(worker, bytes);
    *task = (struct task){.kernel = kernel, .queue = queue, .name = queue ? queue->launching : NULL, .bytes = bytes};
    if (args_size > 0)
        memcpy(task + 1, args, args_size);
    worker->tail += bytes;
    worker->launched++;
    pthread_mutex_unlock(&worker->timeline->mutex);
    pthread_cond_signal(&worker->work);
}

void stni_worker_sync(struct stni_worker *worker)
{
    struct stni_point point = {worker->timeline, worker->launched};
    stni_point_sync(&point);
}

struct stni_point stni_worker_point(struct stni_worker *worker)
{
    atomic_fetch_add(&worker->timeline->refs, 1);
    return (struct stni_point){worker->timeline, worker->launched};
}

void stni_point_sync(const struct stni_point *point)
{
    struct stni_timeline *timeline = point->timeline;
    if (!timeline)
        return;
    pthread_mutex_lock(&timeline->mutex);
    timeline_await(timeline, point->count);
    pthread_mutex_unlock(&timeline->mutex);
}

void stni_point_drop(struct stni_point *point)
{
    if (point->timeline)
        timeline_release(point->timeline);
    *point = (struct stni_point){NULL, 0};
}

/* Owns its point's reference, so it runs on a failed queue too. */
static stn_status wait_task(stn_queue *queue, const void *args)
{
    (void)queue;
    struct stni_point point = *(const struct stni_point *)args;
    stni_point_sync(&point);
    stni_point_drop(&point);
    return STN_OK;
}

void stni_worker_wait(struct stni_worker *worker, const struct stni_point *point)
{
    if (!point->timeline || point->timeline == worker->timeline)
        return;
    atomic_fetch_add(&point->timeline->refs, 1);
    stni_worker_launch(worker, NULL, wait_task, point, sizeof *point);
}
