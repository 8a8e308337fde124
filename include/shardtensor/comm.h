/* Communicators: the collectives by which bytes go from one rank to another.
 *
 * A communicator is a table of functions over a group of ranks. Thread ranks and the counting stand-in are built in;
 * MPI and NCCL come from modules (module.h), and an embedder can bring its own.
 *
 * All ranks of the group call the same collectives in the same order; sends and receives (stn_comm_group) are called
 * only by the ranks that take part. Counts are in elements; to all but all_to_all every rank passes the same ones.
 * Buffers are dense. `send` and `recv` may be the same pointer where a collective says "in place". Reductions of
 * integers and bool: SUM of bool is "or", PROD is "and". 16-bit floats are accumulated in f32.
 *
 * A rank that fails aborts the family (every communicator derived from the same world): each peer gets STN_ERR_PEER,
 * with the failed rank and its text, from the collective that it is in or from its next one. No collective waits longer
 * than the deadline. */
#ifndef SHARDTENSOR_COMM_H
#define SHARDTENSOR_COMM_H

#include <shardtensor/device.h>

STN_BEGIN_DECLS

typedef struct stn_comm stn_comm;
typedef struct stn_request stn_request;

typedef enum stn_reduce_op { STN_SUM, STN_AVG, STN_PROD, STN_MIN, STN_MAX, STN_REDUCE_OP_COUNT } stn_reduce_op;

enum { STN_MAX_BOX_NDIM = 10 };

/** A strided box in memory: shape[0] x … elements of `dtype`; strides are in elements. */
typedef struct stn_box {
    void *data;
    int ndim;
    int64_t shape[STN_MAX_BOX_NDIM];
    int64_t strides[STN_MAX_BOX_NDIM];
} stn_box;

/** One message of an exchange or of a send/receive group: a box that goes to or comes from `peer`. */
typedef struct stn_message {
    int peer; /* rank in the communicator; may be this rank */
    stn_box box;
} stn_message;

/** A set of messages. The k-th message from r to s at the sender meets the k-th from r at the receiver s, and has the
 *  same shape. Entries are sorted by peer. With `reduce`, the messages to one receiver that go to the same box are
 *  combined there by `op`, in the order of their senders' ranks; else each is copied. */
typedef struct stn_exchange {
    stn_dtype dtype;
    int reduce; /* 0 or 1 */
    stn_reduce_op op;
    int n_send, n_recv;
    const stn_message *send, *recv;
} stn_exchange;

enum { STN_MAX_AGREE = 4096 }; /* bytes */

/** What a communicator does. Each collective is called on the thread that runs `queue`, and fails through
 *  stn_queue_fail(queue). Of a device other than the CPU that is the thread which starts the collective: buffers are in
 *  the device's memory, what was queued before may still write to them, and the entry puts its own work on the queue
 *  (stn_queue_native) and need not wait for it.
 *
 *  all_reduce, group, subset and destroy are needed. Every other entry may be NULL: the library builds the collective
 *  from `group` (a barrier from all_reduce), reductions in rank order; also one whose entry declines dtype and op:
 *  STN_ERR_UNSUPPORTED at once, on all ranks, no failed queue. Without `abort` the peers of a rank that fails learn of
 *  it by their own deadline alone, which is the table's to keep. */
typedef struct stn_comm_ops {
    size_t size; /* sizeof(stn_comm_ops); entries behind it are absent */
    const char *name;
    stn_status (*all_reduce)(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op); /* in place allowed */
    stn_status (*reduce)(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                         stn_reduce_op op, int root); /* recv used at root only */
    /** recv holds counts[0] + counts[1] + … elements in rank order; in place: send is its own part of recv. */
    stn_status (*all_gather)(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                             stn_dtype dtype);
    stn_status (*gather)(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                         stn_dtype dtype, int root);
    /** send holds counts[0] + … elements; rank r receives the reduced part r. */
    stn_status (*reduce_scatter)(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                                 stn_dtype dtype, stn_reduce_op op);
    stn_status (*scatter)(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                          stn_dtype dtype, int root);
    stn_status (*broadcast)(void *impl, stn_queue *queue, void *buffer, int64_t count, stn_dtype dtype, int root);
    /** send_counts[s] elements go to rank s, recv_counts[r] come from rank r; both buffers are in rank order. */
    stn_status (*all_to_all)(void *impl, stn_queue *queue, const void *send, const int64_t *send_counts, void *recv,
                             const int64_t *recv_counts, stn_dtype dtype);
    /** Sends and receives between any ranks, started together: any order on the ranks is free of deadlock. Not
     *  collective: only the ranks that are named take part. Pairs meet in the order of issue. All boxes are dense. */
    stn_status (*group)(void *impl, stn_queue *queue, const stn_exchange *messages);
    stn_status (*barrier)(void *impl, stn_queue *queue);
    /** Optional: the collective form of group, on strided boxes, without staging. */
    stn_status (*exchange)(void *impl, stn_queue *queue, const stn_exchange *messages);
    /** A communicator of the given ranks of this one, in that order; called by exactly those ranks. */
    stn_status (*subset)(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out);
    /** Optional: tells the whole family that this rank failed; returns at once. Any thread. */
    void (*abort)(void *impl, stn_status status, const char *text);
    void (*destroy)(void *impl); /* local */
    /** Optional: a context that takes the communicator says how long its collectives may wait: above 0 or, negative,
     *  without end. Subsets made later inherit it. Until then it is 300 s. */
    void (*set_deadline)(void *impl, double seconds);
    /* Agreement between hosts. Both entries or none: without them the library agrees by all_reduce and broadcast of
     * host memory, which a communicator of the CPU's ranks can move; on another device it then refuses to agree
     * (STN_ERR_UNSUPPORTED). They are collectives like the others, in one order with them, called on the same thread,
     * and return when all is done; what others have queued on a device may still run. */
    /** Optional: words[i] = op over all ranks' words[i], of host memory whatever the ranks' device is. op is SUM, MIN
     *  or MAX. At most STN_MAX_AGREE bytes. */
    stn_status (*agree)(void *impl, stn_queue *queue, int64_t *words, int n, stn_reduce_op op);
    /** Optional: every rank's bytes become `root`'s, in host memory. At most STN_MAX_AGREE. */
    stn_status (*agree_broadcast)(void *impl, stn_queue *queue, void *bytes, size_t n, int root);
    /** 1: the collectives move memory of the host and nothing else. For ranks on a device the library then stages: it
     *  copies what is sent to the host, waits for that, calls the entry with memory of the host and a queue of the CPU,
     *  and queues a copy of what was received. The device needs `host_allocate` for it. */
    int host_memory;
    /** Optional: how long this rank has waited for its peers in all collectives of `impl` so far, nanoseconds: before
     *  what is sent to it came and what it sends was taken, without the time that moving takes. Called on the thread
     *  that runs the collectives, between them. */
    int64_t (*waited)(void *impl);
    /** Optional: 1 where data is on its way without a core of this rank's, as between machines, and the entries may be
     *  called on a thread of the library's beside the caller's. Ops that choose for themselves go on meanwhile
     *  (stn_set_halo_overlap); requests are there in any case. The same at any time; ranks may differ. Any thread. */
    int (*beside)(void *impl);
    /** 1: on a device other than the CPU collectives may also be called while their queue records
     *  (stn_queue_capture_begin): what they put on it is recorded with the kernels around it, and done each time that
     *  the graph is launched. The table then has `agree` and `agree_broadcast`, which meet hosts alone and leave the
     *  queue as it is; `barrier` and `subset` are never called while the queue records. What a launch wants of the
     *  communicator goes by stn_host.queue_record_part. 0: a captured step (capture.h) calls its collectives anew each
     *  time, between graphs. The same on every rank. */
    int records;
    /** Optional: this rank ends with an error that its peers may find for themselves, and is about to destroy its end.
     *  Who then waits for something that it does not send is told this text; what it has sent before still arrives.
     *  Without it the library calls `abort`, and a slower rank may hear of its peer's error in place of its own. */
    void (*leave)(void *impl, stn_status status, const char *text);
} stn_comm_ops;

/** Makes a communicator of a table, which is copied. `impl` is owned by it from now on, and destroyed with it; where
 *  this fails it is still the caller's. Local. @return STN_ERR_VERSION where `ops->size` is none that this library
 *  knows, STN_ERR_ARGUMENT (rank and size, or an entry that is needed is NULL: stn_comm_ops_missing names it),
 *  STN_ERR_MEMORY. */
STN_API stn_status stn_comm_create(const stn_comm_ops *ops, void *impl, int rank, int size, stn_comm **out);

/** The name of the first entry that a table needs and lacks, "size" where its size is none that this library knows;
 *  NULL if it is complete. Local. */
STN_API const char *stn_comm_ops_missing(const stn_comm_ops *ops);

/** Communicators of `n` ranks that are threads of this process, the caller's own: out[r] is rank r's end, for its
 *  thread to make a context with (stn_context_options.comm) or to call collectives on. One thread uses one end at a
 *  time; collectives wait for all n. Each end is destroyed by itself, by its context or by stn_comm_destroy; one that
 *  is destroyed early is known to those that wait for it (STN_ERR_PEER). A collective waits 300 s, or as long as its
 *  context's deadline_seconds say. Local, once for all ranks. `out` is written on success only.
 *  @param n    1 to 1024.
 *  @param out  n entries.
 *  @return STN_ERR_ARGUMENT, STN_ERR_MEMORY. */
STN_API stn_status stn_comm_create_threads(int n, stn_comm **out);

/** A communicator that moves nothing: it counts messages and bytes, and lets one process plan as any rank of a world of
 *  up to 100,000 and more. What would be received stays as it was. But integers on a CPU, which may say how much there
 *  is to come, are 0, and a reduction of them is what this rank has. `seconds_per_message` and `seconds_per_byte` drive
 *  its clock. Local. @return STN_ERR_ARGUMENT, STN_ERR_MEMORY. */
STN_API stn_status stn_comm_create_fake(int rank, int size, double seconds_per_message, double seconds_per_byte,
                                        stn_comm **out);

/** The virtual clock of a fake communicator's family, in seconds; 0 for any other. Local. */
STN_API double stn_comm_fake_seconds(const stn_comm *comm);

/** Destroys a communicator that no context owns. Steps that were captured with it can be repeated no more, also where
 *  it goes inside of the capture. Local; accepts NULL and sets it to NULL. */
STN_API void stn_comm_destroy(stn_comm **comm);

STN_API int stn_comm_rank(const stn_comm *comm); /**< This rank, 0 <= rank < size; -1 for NULL. */
STN_API int stn_comm_size(const stn_comm *comm); /**< Ranks of the group; 0 for NULL. */

/* The collectives. Buffers are memory that the ranks' device reaches: on a GPU its own, and memory of the host from
 * cudaHostAlloc and its like; other memory of the host is refused on the rank that passes it (STN_ERR_ARGUMENT).
 * `request` NULL: returns when the work is done (CPU) or queued (GPU). Else the collective runs beside the caller
 * (ranks on a device may meet here first), the buffers stay untouched until stn_request_wait, and collectives of one
 * communicator run in the order of their calls. Errors of all collectives: STN_ERR_ARGUMENT, STN_ERR_DTYPE (none of the
 * enum; MIN and MAX of complex numbers), STN_ERR_MISMATCH (ranks call with different arguments), STN_ERR_PEER,
 * STN_ERR_TIMEOUT, STN_ERR_MEMORY, STN_ERR_COMM. */

/** recv = op over all ranks' send, on every rank, the same bits. May be in place.
 *  @return errors of all collectives. */
STN_API stn_status stn_comm_all_reduce(stn_comm *comm, const void *send, void *recv, int64_t count, stn_dtype dtype,
                                       stn_reduce_op op, stn_request **request);

/** The same on `root` alone; elsewhere recv is not used. @return errors of all collectives. */
STN_API stn_status stn_comm_reduce(stn_comm *comm, const void *send, void *recv, int64_t count, stn_dtype dtype,
                                   stn_reduce_op op, int root, stn_request **request);

/** Every rank's counts[rank] elements, in rank order, on every rank. May be in place: send is the rank's own part of
 *  recv.
 *  @return errors of all collectives. */
STN_API stn_status stn_comm_all_gather(stn_comm *comm, const void *send, void *recv, const int64_t *counts,
                                       stn_dtype dtype, stn_request **request);

/** The same on `root` alone; elsewhere recv is not used. @return errors of all collectives. */
STN_API stn_status stn_comm_gather(stn_comm *comm, const void *send, void *recv, const int64_t *counts, stn_dtype dtype,
                                   int root, stn_request **request);

/** op over all ranks' send, of counts[0] + counts[1] + … elements; rank r gets the part r, counts[r] elements.
 *  @return errors of all collectives. */
STN_API stn_status stn_comm_reduce_scatter(stn_comm *comm, const void *send, void *recv, const int64_t *counts,
                                           stn_dtype dtype, stn_reduce_op op, stn_request **request);

/** Rank r gets the part r, counts[r] elements, of what `root` sends; elsewhere send is not used.
 *  @return errors of all collectives. */
STN_API stn_status stn_comm_scatter(stn_comm *comm, const void *send, void *recv, const int64_t *counts,
                                    stn_dtype dtype, int root, stn_request **request);

/** Every rank's buffer becomes `root`'s. @return errors of all collectives. */
STN_API stn_status stn_comm_broadcast(stn_comm *comm, void *buffer, int64_t count, stn_dtype dtype, int root,
                                      stn_request **request);

/** send_counts[s] elements go to rank s, recv_counts[r] come from rank r; both buffers are in rank order.
 *  @return errors of all collectives. */
STN_API stn_status stn_comm_all_to_all(stn_comm *comm, const void *send, const int64_t *send_counts, void *recv,
                                       const int64_t *recv_counts, stn_dtype dtype, stn_request **request);

/** Sends and receives between any ranks, started together. Not a collective: only the ranks that are named take part.
 *  Boxes are dense and row-major (the last dim has stride 1, the stride of each other dim is the number of elements of
 *  the dims behind it); stn_comm_exchange allows any strides. @return errors of all collectives. */
STN_API stn_status stn_comm_group(stn_comm *comm, const stn_exchange *messages, stn_request **request);

/** The collective form of stn_comm_group: every rank calls it, with no message or many. Boxes are read and written
 *  where they lie.
 *  @return errors of all collectives. */
STN_API stn_status stn_comm_exchange(stn_comm *comm, const stn_exchange *messages, stn_request **request);

/** Returns on no rank before all have called it. @return errors of all collectives. */
STN_API stn_status stn_comm_barrier(stn_comm *comm, stn_request **request);

/** Waits for a collective that was started with a request, frees the request and sets it to NULL. On a device other
 *  than the CPU the communicator's queue waits, not the host: what is queued from now on comes behind the collective.
 *  @return the collective's status. */
STN_API stn_status stn_request_wait(stn_request **request);

/** A communicator of some ranks of `comm`, in the order given; called by exactly those ranks. @return as a collective
 *  does. */
STN_API stn_status stn_comm_subset(stn_comm *comm, const int *ranks, int n_ranks, stn_comm **out);

/** The text of the last failure on this communicator, "" if none, and for NULL. */
STN_API const char *stn_comm_error_text(const stn_comm *comm);

STN_END_DECLS
#endif
