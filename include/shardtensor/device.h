/* Devices: memory, queues, events and launch.
 *
 * A device is a table of functions. The CPU's is built in; others come from modules (module.h).
 * All work on data is put on a queue and runs there in order. A queue of the CPU is either immediate (the caller's
 * thread runs each kernel at once) or a worker thread (kernels run later, with random delays where the options say so).
 *
 * Memory is ordered by queues: bytes released on a queue are reused by later work of that queue only, so nobody has to
 * wait before releasing what a queued kernel still reads. */
#ifndef SHARDTENSOR_DEVICE_H
#define SHARDTENSOR_DEVICE_H

#include <shardtensor/dtype.h>
#include <shardtensor/status.h>

STN_BEGIN_DECLS

typedef struct stn_device stn_device;
typedef struct stn_queue stn_queue;
typedef struct stn_event stn_event;

/** A kernel. `args` is the plain struct that was given to launch (a copy). Runs once, on the queue; must not block on
 *  another rank, and must not call the library but for stn_queue_fail, stn_queue_native, stn_queue_value_error and
 *  stn_queue_value_record. */
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

/** Where a device's memory comes from instead of from its module: a framework's caching allocator, a pool of the
 *  program's. Both functions are called with the context's device as the thread's current one, on the thread that calls
 *  the library (contexts that share an allocator: several at once); deallocate after the context has gone too, on the
 *  thread that releases the last handle. They must not call the library.
 *
 *  The library divides what it was given, and keeps it for later work of the same context, and gives it
 *  back when stn_context_trim or a shortage asks for it, with the captured step that it belongs to, and when the
 *  context goes. All work that used it has ended by then: the host has waited, so that memory that came from cudaMalloc
 *  may go to cudaFree.
 *  Source: made to fit torch.cuda.caching_allocator_alloc, CUDAPluggableAllocator and RMM's device_memory_resource. */
typedef struct stn_device_allocator {
    size_t size; /* sizeof(stn_device_allocator) */
    void *arg;
    /** At least `bytes` bytes of the device, aligned to 256; NULL when there are none. `stream`, in the device's type
     *  (a cudaStream_t), is the context's own: work that is put on it from now on may use the memory. For memory that
     *  other streams use too (what a collective is staged in), and while the context's records a step, when an
     *  allocation in its order would become a part of the graph, it is one that the device keeps for this alone; the
     *  host waits for that before it uses the memory. */
    void *(*allocate)(void *arg, size_t bytes, void *stream);
    /** What `allocate` gave for as many bytes. `stream` as there, or the one that the device keeps where the context's
     *  records or is gone. */
    void (*deallocate)(void *arg, void *pointer, size_t bytes, void *stream);
} stn_device_allocator;

typedef enum stn_queue_kind {
    STN_QUEUE_DEFAULT,   /* the device's own choice: immediate on the CPU */
    STN_QUEUE_IMMEDIATE, /* the caller's thread */
    /** A thread of its own. A child that fork makes does not have it, and waits without end where it uses or destroys
     *  the context or its communicators: make them behind the fork, or have the child call exec or _exit at once. */
    STN_QUEUE_WORKER
} stn_queue_kind;

typedef struct stn_queue_options {
    size_t size; /* sizeof(stn_queue_options) */
    stn_queue_kind kind;
    /** WORKER: delay kernels at random, drawn from this seed; 0 = no delays. Finds missing waits and early frees. */
    uint64_t delay_seed;
    /** The caller's own stream in the device's type (a cudaStream_t), on which this work and the caller's run in the
     *  order in which they were put there. It stays the caller's and outlives the queue. NULL: the device makes one.
     *  The CPU has none: STN_ERR_UNSUPPORTED. */
    void *stream;
    /** Queues of a higher number go first where they compete for the device, which rounds it to what it has; 0: its
     *  default. The CPU ignores it. */
    int priority;
} stn_queue_options;

enum { STN_VALUE_NUMBERS = 14 };

/** A value that a kernel read and could not use: an index out of range. A context has one such record, in memory that
 *  its device can write; its first value error since the last agreement stands there. A kernel claims it by an atomic
 *  compare-and-swap of `state` from FREE to CLAIMED, and where that succeeded writes the rest, then, behind a release
 *  fence, `state` WRITTEN. */
typedef struct stn_value_record {
    uint32_t state;                      /* stn_value_state */
    int32_t op;                          /* stn_op_number of the op that is meant */
    int32_t what;                        /* which of the op's texts (stn_op_impl.value_texts) */
    int32_t n;                           /* numbers that are set */
    int64_t numbers[STN_VALUE_NUMBERS];  /* what the text shows; a double by its bits */
} stn_value_record;

enum stn_value_state { STN_VALUE_FREE, STN_VALUE_CLAIMED, STN_VALUE_WRITTEN };

enum { STN_COMMIT_STEP = 1 << 21 }; /* bytes */

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
    /** Later work of `queue` waits for the event as it was recorded last; the host does not. The event may be of
     * another device of this table (another rank's), and may be recorded anew or destroyed as soon as this has
     * returned. */
    stn_status (*queue_wait)(void *impl, void *queue, void *event);
    stn_status (*event_sync)(void *impl, void *event);              /* the host waits */
    /** Queued copies; `kind`: 0 device to device, 1 host to device, 2 device to host. The device's may lie in memory of
     * host_allocate. */
    stn_status (*copy)(void *impl, void *queue, void *dst, const void *src, size_t bytes, int kind);
    void (*destroy)(void *impl);
    /* What follows may be NULL, or absent by `size`: the library then does without, or the call that needs it is
     * STN_ERR_UNSUPPORTED. */
    /** Memory of the host that kernels of the device read and write at the same address, and that copies reach without
     *  staging. */
    stn_status (*host_allocate)(void *impl, size_t bytes, void **out);
    void (*host_deallocate)(void *impl, void *pointer, size_t bytes);
    /** Calls function(arg) on a host thread once all that is on the queue has ended, whether or not it failed; later
     *  work waits for its return. The function calls neither the library nor the device. */
    stn_status (*call)(void *impl, void *queue, void (*function)(void *arg), void *arg);
    /** From here to capture_end what is put on the queue is recorded and not run. Waiting for the queue meanwhile is an
     *  error of the device. */
    stn_status (*capture_begin)(void *impl, void *queue);
    /** `*graph` is NULL where the recording failed, and where nothing was put on the queue. */
    stn_status (*capture_end)(void *impl, void *queue, void **graph);
    stn_status (*graph_launch)(void *impl, void *graph, void *queue); /* what was recorded, once more, in order on this queue */
    void (*graph_destroy)(void *impl, void *graph);
    /** What is put on a stream of somebody else's, in the device's type (a cudaStream_t), from now on waits for the
     *  event as it was recorded last. */
    stn_status (*stream_wait)(void *impl, void *stream, void *event);
    /** As event_record, on such a stream. */
    stn_status (*stream_record)(void *impl, void *event, void *stream);
    /** Memory from a caller's functions, which are called with the device as the current one. It is used by later work
     *  of `queue`; NULL: by any queue, from the return of this on, so that it is asked for on a stream that no queue
     *  works on, which is waited for.
     *  @return STN_ERR_MEMORY: there is none, and `*out` is NULL. */
    stn_status (*allocate_from)(void *impl, const stn_device_allocator *allocator, void *queue, size_t bytes,
                                void **out);
    /** Gives it back. Nothing queued uses it any more. `queue` NULL: on the device's stream for this. */
    void (*deallocate_to)(void *impl, const stn_device_allocator *allocator, void *queue, void *pointer, size_t bytes);
    /** 1 where what was on the queue when the event was recorded last has ended, whether or not it failed; 0 where it
     *  has not, or that cannot be told. The host does not wait. */
    int (*event_passed)(void *impl, void *event);
    /** 0 where kernels of the device do not reach the memory at `pointer`, as memory of the host; 1 where they do, or
     *  that cannot be told. */
    int (*reaches)(void *impl, const void *pointer);
    /** What the device says of the last entry that failed, of any queue; NULL where it says nothing. */
    const char *(*failure)(void *impl);
    /** Addresses without memory behind them, as many as one context could ever use, so that its memory is one piece
     *  however it grows: multiples of STN_COMMIT_STEP, as all that follows. All four entries or none; they are not
     *  called where the program gives an allocator. @return STN_ERR_UNSUPPORTED: there are none to give. */
    stn_status (*reserve)(void *impl, size_t *bytes, void **out);
    void (*unreserve)(void *impl, void *pointer, size_t bytes); /* all of it; memory behind it goes too */
    /** Memory behind some of these addresses, which has none, for any queue. @return STN_ERR_MEMORY: there is none. */
    stn_status (*commit)(void *impl, void *pointer, size_t bytes);
    void (*decommit)(void *impl, void *pointer, size_t bytes); /* it goes; the addresses stay. Nothing queued uses it */
} stn_device_ops;

/** Puts a kernel on `queue`. `args_size` bytes (at most STN_MAX_KERNEL_ARGS) of `args` are copied.
 *  Local. @return STN_OK, or what an immediate kernel returned; a later failure marks the queue; STN_ERR_ARGUMENT
 *  (args_size; a queue, kernel or `args` that is NULL). */
STN_API stn_status stn_queue_launch(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size);

/** The host waits until everything put on `queue` so far has ended. Local.
 *  @return the queue's failure if there is one; STN_ERR_ARGUMENT for NULL. */
STN_API stn_status stn_queue_sync(stn_queue *queue);

/** Marks `queue` failed with a text, once: the first failure is kept, later kernels are skipped. For kernels; any
 *  thread. NULL is ignored. @return `status`. */
STN_API stn_status stn_queue_fail(stn_queue *queue, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/** Reports a value error, for kernels that run on the host: claims the context's record if it is free, else does
 *  nothing. `op` and `what` as in stn_value_record, at most STN_VALUE_NUMBERS numbers. The kernel goes on, with 0 in
 *  place of what it could not read. Any thread. A queue that is NULL is ignored; no `numbers`: n counts as 0. */
STN_API void stn_queue_value_error(stn_queue *queue, int op, int what, int n, const int64_t *numbers);

/** The record of the queue's context, for launchers of kernels that run on the device: an address that kernels of the
 *  device may use. NULL for a queue that is no context's, and for NULL. */
STN_API stn_value_record *stn_queue_value_record(stn_queue *queue);

/** What the device's queue_create gave: a stream, for instance. NULL for an immediate queue of the CPU, and for
 *  NULL. For kernels. */
STN_API void *stn_queue_native(stn_queue *queue);

/** Calls function(arg) on a host thread once what is on `queue` has ended, also where that failed; later work waits for
 *  its return. The function must not call the library. An immediate queue calls it at once. Local.
 *  @return STN_ERR_UNSUPPORTED (the device cannot), STN_ERR_ARGUMENT (queue or function: NULL), or the device's own;
 *  the function is not called then. */
STN_API stn_status stn_queue_call(stn_queue *queue, void (*function)(void *arg), void *arg);

/* Recorded work: what is launched between begin and end is kept and not run, and may then be launched many times.
 * Kernels see the same arguments each time, so that the memory they name has to live as long as the graph, and nothing
 * recorded may depend on values that the host would read. */

typedef struct stn_graph stn_graph;

/** Begins recording. Until it ends, what waits for the queue or reads from it fails with STN_ERR_STATE. Local.
 *  @return STN_ERR_ARGUMENT (NULL), STN_ERR_STATE (recording already), STN_ERR_UNSUPPORTED (the device cannot
 *  record), STN_ERR_MEMORY. */
STN_API stn_status stn_queue_capture_begin(stn_queue *queue);

/** Ends recording; `*out` is written on success only. Local. @return the first failure since it began, STN_ERR_STATE
 *  (none began), STN_ERR_ARGUMENT (queue or `out`: NULL; it goes on). */
STN_API stn_status stn_queue_capture_end(stn_queue *queue, stn_graph **out);

/** Puts what was recorded on a queue of the same device, in its order. Local. @return STN_ERR_ARGUMENT (another
 *  device), the queue's failure. */
STN_API stn_status stn_graph_launch(stn_graph *graph, stn_queue *queue);

/** After the queues that it was launched on have passed it. Accepts NULL and sets it to NULL. Local. */
STN_API void stn_graph_destroy(stn_graph **graph);

/** The kept text of a failed queue, "" if none, and for NULL. Valid until the queue is destroyed. */
STN_API const char *stn_queue_error_text(const stn_queue *queue);

STN_END_DECLS
#endif
