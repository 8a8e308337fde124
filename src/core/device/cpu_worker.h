/* The CPU's worker queue: a thread that runs kernels in order. */
#ifndef STNI_CORE_DEVICE_CPU_WORKER_H
#define STNI_CORE_DEVICE_CPU_WORKER_H

#include "core/device/device.h"

struct stni_worker;
struct stni_timeline;

/* `delay_seed` 0: no delays. */
stn_status stni_worker_create(uint64_t delay_seed, struct stni_worker **out);
void stni_worker_destroy(struct stni_worker *worker); /* runs what is queued first */

/* Copies `args`; waits while the ring is full. */
void stni_worker_launch(struct stni_worker *worker, stn_queue *queue, stn_kernel_fn kernel, const void *args,
                        size_t args_size);
void stni_worker_sync(struct stni_worker *worker);

/* A point of a worker: its timeline, and how many tasks of it came before. `timeline` NULL: a point that has passed. */
struct stni_point {
    struct stni_timeline *timeline;
    int64_t count;
};

struct stni_point stni_worker_point(struct stni_worker *worker); /* holds a reference; stni_point_drop ends it */
void stni_point_sync(const struct stni_point *point);            /* the host waits */
void stni_point_drop(struct stni_point *point);

/* Later tasks of `worker` wait for `point`. */
void stni_worker_wait(struct stni_worker *worker, const struct stni_point *point);

#endif
