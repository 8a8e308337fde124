/* Devices and queues inside the library (device.h of the public headers tells what they are). */
#ifndef STNI_CORE_DEVICE_DEVICE_H
#define STNI_CORE_DEVICE_DEVICE_H

#include <shardtensor/device.h>

#include "core/status.h"

#include <stdatomic.h>

struct stn_device {
    const stn_device_ops *ops;
    void *impl;
    char name[32];
    int is_cpu;
};

struct stn_queue {
    stn_device *device;
    void *impl;
    int immediate; /* CPU, caller's thread: launch is a plain call of the kernel */
    atomic_int failed; /* 0, or the status that is kept in `error` */
    struct stni_error error;
    atomic_flag error_lock;
    atomic_int_fast64_t kernels; /* launched */
    int64_t syncs;
};

/* The built-in CPU device; memory comes from `allocator` (NULL: the C library). */
stn_status stni_device_create_cpu(const stn_allocator *allocator, stn_device **out);
stn_status stni_device_create(const stn_device_ops *ops, void *impl, const char *name, stn_device **out);
void stni_device_destroy(stn_device **device);

stn_status stni_queue_create(stn_device *device, const stn_queue_options *options, stn_queue **out);
void stni_queue_destroy(stn_queue **queue); /* runs what is queued first */

/* An event marks a point of a queue. */
stn_status stni_event_create(stn_device *device, stn_event **out);
void stni_event_destroy(stn_event **event);
stn_status stni_event_record(stn_event *event, stn_queue *queue);
stn_status stni_queue_wait(stn_queue *queue, stn_event *event);
stn_status stni_event_sync(stn_event *event);

/* Queued copies between host and device; on an immediate CPU queue a memcpy. */
stn_status stni_queue_copy(stn_queue *queue, void *dst, const void *src, size_t bytes, int kind);

#endif
