/* Recording of a queue's work (stn_queue_capture_begin of the public headers). */
#ifndef STNI_CORE_DEVICE_CAPTURE_H
#define STNI_CORE_DEVICE_CAPTURE_H

#include "core/device/device.h"

#include <shardtensor/module.h>

/* Keeps a launch on a queue of the CPU that records. */
stn_status stni_capture_launch(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size);

/* Fails a queue that records: `what` cannot be recorded. */
stn_status stni_capture_refuses(stn_queue *queue, const char *what);

/* stn_host.queue_record_part. */
stn_status stni_capture_part(stn_queue *queue, const stn_graph_part *part);

/* 1 where it is known that launching the graph does nothing. */
int stni_capture_is_empty(const stn_graph *graph);

#endif
