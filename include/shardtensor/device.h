/* Devices: memory, queues, events and launch.
 *
 * A device is a table of functions. The CPU's is built in; others come from modules (module.h).
 * All work on data is put on a queue and runs there in order. A queue of the CPU is either immediate (the caller's
 * thread runs each kernel at once) or a worker thread (kernels run later, with random delays where the options say so).
 *
 * Memory is ordered by queues: bytes released on a queue are reused by later work of that queue only, so nobody has to wait
 * before releasing what a queued kernel still reads. */
#ifndef SHARDTENSOR_DEVICE_H
#define SHARDTENSOR_DEVICE_H

#include <shardtensor/dtype.h>
#include <shardtensor/status.h>

STN_BEGIN_DECLS

typedef struct stn_device stn_device;
typedef struct stn_queue stn_queue;
typedef struct stn_event stn_event;

/** A kernel. `args` is the plain struct that was given to launch (a copy). Runs once, on the queue; must not block on
 *  another rank, and must not call the library but for stn_queue_fail. */
typedef stn_status (*stn_kernel_fn)(stn_queue *queue, const void *args);

enum { STN_MAX_KERNEL_ARGS = 4096 }; /* bytes */

/** Where bytes come from. Both functions may be called from any thread. */
typedef struct stn_allocator {
    size_t size; /* sizeof(stn_allocator) */
    void *arg;
    /** At least `bytes` bytes, aligned to `alignment` (a power of two); NULL when there are none. */
    void *(*allocate)(void *arg, size_t bytes, size_t alignment);
    void (*deallocate)(void *arg, void *pointer, size_t bytes);
} stn_allocator;

typedef enum stn_queue_kind {
    STN_QUEUE_DEFAULT,   /* the device's own choice: immediate on the CPU */
    STN_QUEUE_IMMEDIATE, /* the caller's thread */
    STN_QUEUE_WORKER     /* a thread of its own */
} stn_queue_kind;

typedef struct stn_queue_options {
    size_t size; /* sizeof(stn_queue_options) */
    stn_queue_kind kind;
    /** WORKER: delay kernels at random, drawn from this seed; 0 = no delays. Finds missing waits and early frees. */
    uint64_t delay_seed;
} stn_queue_options;

/** What a device does. Every entry is called by one thread at a time per queue; `impl` is the device's own.
 *  Kernels receive pointers of this device. */
typedef struct stn_device_ops {
    size_t size; /* sizeof(stn_device_ops) */
    const char *name;
    stn_status (*allocate)(void *impl, size_t bytes, void **out);
    void (*deallocate)(void *impl, void *pointer, size_t bytes);
    stn_status (*queue_create)(void *impl, const stn_queue_options *options, void **out);
    void (*queue_destroy)(void *impl, void *queue); /* runs what is queued first */
    stn_status (*queue_sync)(void *impl, void *queue);
    /** Copies `args`; `queue_handle` is what the kernel gets as its first argument. */
    stn_status (*launch)(void *impl, void *queue, stn_queue *queue_handle, stn_kernel_fn kernel, const void *args,
                         size_t args_size);
    stn_status (*event_create)(void *impl, void **out);
    void (*event_destroy)(void *impl, void *event);
    stn_status (*event_record)(void *impl, void *event, void *queue);
    /** Later work of `queue` waits for the event as it was recorded last; the host does not. The event may be of another device of this table (another
     *  rank's), and may be recorded anew or destroyed as soon as this has returned. */
    stn_status (*queue_wait)(void *impl, void *queue, void *event);
    stn_status (*event_sync)(void *impl, void *event);              /* the host waits */
    /** Queued copies; `kind`: 0 device to device, 1 host to device, 2 device to host. */
    stn_status (*copy)(void *impl, void *queue, void *dst, const void *src, size_t bytes, int kind);
    void (*destroy)(void *impl);
} stn_device_ops;

/** Puts a kernel on `queue`. `args_size` bytes (at most STN_MAX_KERNEL_ARGS) of `args` are copied.
 *  Local. @return STN_OK, or what an immediate kernel returned; a later failure marks the queue. */
STN_API stn_status stn_queue_launch(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size);

/** The host waits until everything put on `queue` so far has ended; returns the queue's failure if there is one. Local. */
STN_API stn_status stn_queue_sync(stn_queue *queue);

/** Marks `queue` failed with a text, once: the first failure is kept, later kernels are skipped. For kernels; any thread.
 *  @return `status`. */
STN_API stn_status stn_queue_fail(stn_queue *queue, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/** What the device's queue_create gave: a stream, for instance. NULL for an immediate queue of the CPU. For kernels. */
STN_API void *stn_queue_native(stn_queue *queue);

/** The kept text of a failed queue, "" if none. Valid until the queue is destroyed. */
STN_API const char *stn_queue_error_text(const stn_queue *queue);

STN_END_DECLS
#endif
