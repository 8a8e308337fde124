/* Devices and queues inside the library (device.h of the public headers tells what they are). */
#ifndef STNI_CORE_DEVICE_DEVICE_H
#define STNI_CORE_DEVICE_DEVICE_H

#include <shardtensor/context.h>

#include "core/base/isa.h"
#include "core/base/status.h"

#include <stdatomic.h>

struct stni_trace;

/* Tables of functions of this size and up are known: what came later is optional. */
#define STNI_DEVICE_OPS_LEAST offsetof(stn_device_ops, host_allocate)

struct stn_device {
    const stn_device_ops *ops; /* `table` */
    stn_device_ops table;      /* the device's, entries that it lacks NULL */
    void *impl;
    char name[32];
    int is_cpu;
    enum stni_isa isa; /* of host code that runs for the device: the best one unless the context chose another. Queues take it over */
    int follows_runs;  /* the processor follows long dense runs by itself (core/base/processor.h). Taken over too */
    int index; /* of a module's device: "name:index" */
    stn_device_allocator allocator; /* the caller's, of which all memory comes; its `allocate` NULL: the device's own does */
    struct stn_context *context;    /* that is told what was wrong with the caller's memory; NULL: none */
    /* A module's core.box_copy, core.box_copies, core.fill and core.box_reduce; the CPU has its own, and leaves them
     * NULL. */
    stn_kernel_fn box_copy, box_copies, fill, box_reduce;
};

struct stn_queue {
    stn_device *device;
    void *impl;
    enum stni_isa isa; /* which of the kernels compiled once per instruction set run here */
    int follows_runs;  /* the processor follows long dense runs by itself */
    int immediate; /* CPU, caller's thread: launch is a plain call of the kernel */
    atomic_int failed; /* STN_OK, or the status that is kept in `error`; set after the text is complete */
    struct stni_error error;
    atomic_flag error_lock;
    atomic_int_fast64_t kernels; /* launched; any thread may read it */
    atomic_int_fast64_t waited; /* for peers, by collectives that are called from this queue, nanoseconds; any thread */
    _Atomic(struct stni_trace *) trace; /* where runs of kernels are recorded; NULL: nowhere */
    const char *launching; /* the name of the kernel that is launched, for a trace; NULL: not told */
    int64_t syncs[STN_SYNC_REASONS]; /* waits of the host */
    stn_graph *capture;              /* what is being recorded; NULL: work runs */
    struct stni_recording *recording; /* of a step, whose stretch of kernels `capture` is; NULL: of none */
    _Atomic(stn_queue *) follower;   /* a queue that waits for work of this one, and fails with it; NULL: none does */
    const char *collective; /* which one runs here, or ran last: for communicators that get its parts alone */
    struct stn_context *context; /* whose kernels run here, and find there what it keeps for them; NULL: none's */
};

/* How far ahead a kernel's loop over such a run prefetches, bytes; 0: not at all. */
static inline int64_t stni_queue_run_ahead(const stn_queue *queue, int64_t wanted)
{
    return queue->follows_runs ? 0 : wanted;
}

struct stn_event {
    stn_device *device;
    void *impl;
};

/* The built-in CPU device; memory comes from `allocator` (NULL: the C library), which is copied. */
stn_status stni_device_create_cpu(const stn_allocator *allocator, stn_device **out);
/* The first entry that every device has and this table lacks, "size" where it ends before them; NULL: it has all. */
const char *stni_device_ops_missing(const stn_device_ops *ops);
/* A device of a table of functions; owns `impl` on success. STN_ERR_VERSION where the table is too short,
 * STN_ERR_ARGUMENT where it lacks an entry. */
stn_status stni_device_create(const stn_device_ops *ops, void *impl, const char *name, stn_device **out);
void stni_device_destroy(stn_device **device); /* after its queues and events */

/* From here on all memory is the caller's; `allocator` is copied. STN_ERR_UNSUPPORTED where the device's table lacks
 * the entries. */
stn_status stni_device_adopt_allocator(stn_device *device, const stn_device_allocator *allocator);

/* Memory of a device for any of its queues, at least 64-byte aligned. `bytes` > 0. Nothing queued uses what is given
 * back. Where a caller's allocator gave memory that cannot be used, the context has the text. */
stn_status stni_device_allocate(stn_device *device, size_t bytes, void **out);
void stni_device_deallocate(stn_device *device, void *pointer, size_t bytes);

/* The same for work that is put on this queue later on. */
stn_status stni_queue_allocate(stn_queue *queue, size_t bytes, void **out);
void stni_queue_deallocate(stn_queue *queue, void *pointer, size_t bytes);

/* Of the device's own memory (the table's entries). STN_ERR_UNSUPPORTED where it lacks them, and where all memory is
 * the caller's. */
stn_status stni_device_reserve(stn_device *device, size_t *bytes, void **out);
void stni_device_unreserve(stn_device *device, void *pointer, size_t bytes);
stn_status stni_device_commit(stn_device *device, void *pointer, size_t bytes);
void stni_device_decommit(stn_device *device, void *pointer, size_t bytes);

stn_status stni_queue_create(stn_device *device, const stn_queue_options *options, stn_queue **out);
void stni_queue_destroy(stn_queue **queue); /* runs what is queued first */

/* Runs a kernel on the calling thread unless the queue has failed; a failure of the kernel marks the queue. For
 * devices that run kernels themselves. Returns the queue's failure if there is one. */
stn_status stni_queue_run(stn_queue *queue, stn_kernel_fn kernel, const void *args);

/* The same under a name for traces, which is what queue->launching was at the launch. */
stn_status stni_queue_run_named(stn_queue *queue, stn_kernel_fn kernel, const void *args, const char *name);

/* Of what is launched now, for the launching thread alone: others may run kernels of the queue meanwhile. */
const char *stni_queue_launch_name(stn_queue *queue);

/* stni_queue_launch of a kernel under a name, by which a trace and a recording call it. */
stn_status stni_queue_launch_named(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size,
                                   const char *name);

/* stn_queue_launch of a kernel and arguments that are there, and no more of these than there may be: what ops launch
 * through, which takes few instructions. */
stn_status stni_queue_launch(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size);

/* stn_queue_sync, counted by why the host waits. */
stn_status stni_queue_sync_for(stn_queue *queue, stn_sync_reason reason);

/* Waits for the queue and forgets its failure, so that it takes work again. */
void stni_queue_recover(stn_queue *queue);

/* An event marks a point of a queue: the last one it was recorded at. One that was never recorded has passed. */
stn_status stni_event_create(stn_device *device, stn_event **out);
void stni_event_destroy(stn_event **event);
stn_status stni_event_record(stn_event *event, stn_queue *queue);
stn_status stni_queue_wait(stn_queue *queue, stn_event *event);
stn_status stni_event_sync(stn_event *event);
/* Whether it has passed, without a wait; 0 always on devices that cannot tell. */
int stni_event_passed(const stn_event *event);
int stni_device_tells_passed(const stn_device *device);

/* Whether kernels of the device reach memory at `pointer`; 1 where that cannot be told. */
int stni_device_reaches(const stn_device *device, const void *pointer);

/* Fails the queue where `status`, of an entry of its device's table, says so: `what` as in "a copy of", and why. */
stn_status stni_queue_refused(stn_queue *queue, stn_status status, const char *what);

/* What is put on somebody else's stream from now on comes behind what is on the queue, and the other way round. The
 * host waits for nothing. STN_ERR_UNSUPPORTED where the device has no such streams. */
stn_status stni_stream_follow(stn_queue *queue, void *stream);
stn_status stni_queue_follow(stn_queue *queue, void *stream);

/* Queued copies between host and device; on an immediate CPU queue a memcpy. */
enum stni_copy_kind { STNI_COPY_DEVICE, STNI_COPY_TO_DEVICE, STNI_COPY_TO_HOST };
stn_status stni_queue_copy(stn_queue *queue, void *dst, const void *src, size_t bytes,
                           enum stni_copy_kind kind);

#endif
