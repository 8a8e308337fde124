/* Communicators inside the library: what every backend shares. */
#ifndef STNI_CORE_COMM_COMM_H
#define STNI_CORE_COMM_COMM_H

#include <shardtensor/comm.h>

#include "core/device/device.h"

#include <pthread.h>
#include <stddef.h>

enum {
    STNI_CALL_RING = 64,            /* calls that are remembered */
    STNI_STAGING_LIMIT = 64 << 20   /* bytes of staging memory of an exchange built from group */
};

enum stni_coll_kind {
    STNI_COLL_ALL_REDUCE,
    STNI_COLL_REDUCE,
    STNI_COLL_ALL_GATHER,
    STNI_COLL_GATHER,
    STNI_COLL_REDUCE_SCATTER,
    STNI_COLL_SCATTER,
    STNI_COLL_BROADCAST,
    STNI_COLL_ALL_TO_ALL,
    STNI_COLL_GROUP,
    STNI_COLL_EXCHANGE,
    STNI_COLL_BARRIER,
    STNI_COLL_COUNT
};

/* One remembered collective. `count` as in struct stni_coll. */
struct stni_call_record {
    int64_t sequence; /* from 1 */
    enum stni_coll_kind kind;
    int64_t count;
    stn_dtype dtype;
    stn_reduce_op op;
    int root;
};

/* What ranks agree on first: where they are in their programs. One that comes to another agreement is told apart by
 * it, whatever the words. */
enum stni_agreement {
    STNI_AGREE_FURTHER, /* on something that they have met for */
    STNI_AGREE_CALL,
    STNI_AGREE_DIST,
    STNI_AGREE_BACKWARD,
    STNI_AGREE_SYNC,
    STNI_AGREE_RANDOM,
    STNI_AGREE_GRADIENTS,
    STNI_AGREE_STREAMS,
    STNI_AGREEMENTS
};

struct stni_comm_stats {
    int64_t collectives, messages, bytes_sent;
};

/* Tables of functions of this size and up are known: what came later is optional. */
#define STNI_COMM_OPS_LEAST offsetof(stn_comm_ops, set_deadline)

/* The deadline that 0 stands for. */
#define STNI_DEADLINE_SECONDS 300.0

struct stni_comm_captured;
struct stni_comm_recorded;
struct stni_comm_block;
struct stni_coll;

/* Runs a collective on the calling thread, which is the queue's; fails the queue. */
typedef stn_status (*stni_comm_run_fn)(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

struct stn_comm {
    const stn_comm_ops *ops;
    stn_comm_ops table; /* where `ops` is one from outside: that, as far as its size goes */
    stni_comm_run_fn run; /* stni_coll_run, which calls the entries of `ops`; the library's own communicators have a function of their own instead */
    void *impl;
    int rank, size;
    stn_queue *queue;       /* where collectives without a request run: the context's once it has adopted the communicator, else own_queue */
    stn_device *own_device; /* of a communicator that no context owns; made on first use */
    stn_queue *own_queue;
    stn_queue *side_queue;  /* collectives with a request; made on first use */
    stn_request *requests;  /* not waited for */
    stn_event *side_end;    /* the last of them; NULL where collectives on `queue` need not wait for it */
    const stn_request *side_last; /* whose end that is; NULL once it was waited for */
    int checks;
    int exact_sums; /* sums of floating numbers are exact, rounded once (core/box/box_exact.h) */
    struct stni_comm_stats *stats; /* shared by a family's communicators of one rank; own_stats unless adopted */
    struct stni_comm_stats own_stats;
    int64_t sequence; /* collectives called */
    struct stni_call_record ring[STNI_CALL_RING];
    struct stni_error error; /* the text of the last failure; its status, until the next call of the public collectives */
    pthread_mutex_t blocks_lock;
    struct stni_comm_block *blocks; /* arrays of queued collectives that do not fit into kernel arguments */
    void *staging;                  /* exchange built from group: kept between calls */
    stn_device *staging_device;     /* whose memory that is; NULL: the C library's */
    size_t staging_bytes, staging_limit;
    void *pinned;                   /* host memory of a device's, for a communicator that moves nothing else: kept between calls */
    stn_device *pinned_device;
    size_t pinned_bytes;
    struct stni_comm_captured *captured; /* its part of what its queue records now; NULL: none */
    struct stni_comm_recorded *recorded; /* its calls in captured steps */
};

/* stn_comm_create for the library's own communicators, whose collectives `run` runs. */
stn_status stni_comm_create(const stn_comm_ops *ops, stni_comm_run_fn run, void *impl, int rank, int size,
                            stn_comm **out);

/* The thread communicator: `size` linked communicators, one per rank thread, made before the threads start.
 * `deadline_seconds` as in stn_context_options. */
stn_status stni_comm_create_threads(int size, double deadline_seconds, stn_comm **comms);

/* The immediate queue of the CPU that belongs to the communicator; made on first use. */
stn_status stni_comm_own_queue(stn_comm *comm);

/* A context adopts a communicator: its collectives run on `queue` from then on and are counted in `stats`. */
void stni_comm_adopt(stn_comm *comm, stn_queue *queue, struct stni_comm_stats *stats, int checks,
                     double deadline_seconds);

/* How long its collectives may wait; as in stn_context_options. */
void stni_comm_set_deadline(stn_comm *comm, double seconds);

/* Undoes stni_comm_adopt, for a context that could not be completed: whoever gave the communicator owns it again. */
void stni_comm_give_back(stn_comm *comm);

/* The collectives on a given queue: what ops use. They launch on `queue` (an immediate queue: run), and copy what
 * they need from arrays that they are given. */
stn_status stni_comm_all_reduce(stn_comm *comm, stn_queue *queue, const void *send, void *recv, int64_t count,
                                stn_dtype dtype, stn_reduce_op op);
stn_status stni_comm_all_gather(stn_comm *comm, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                                stn_dtype dtype);
stn_status stni_comm_all_to_all(stn_comm *comm, stn_queue *queue, const void *send, const int64_t *send_counts,
                                void *recv, const int64_t *recv_counts, stn_dtype dtype);
stn_status stni_comm_exchange(stn_comm *comm, stn_queue *queue, const stn_exchange *messages);

/* The same beside the caller, until stn_request_wait: they run after what is on the communicator's queue now, and
 * after the request `after` of any of the context's communicators (NULL: none). The buffers are the collective's
 * until then. */
stn_status stni_comm_all_reduce_begin(stn_comm *comm, const void *send, void *recv, int64_t count, stn_dtype dtype,
                                      stn_reduce_op op, const stn_request *after, stn_request **request);
stn_status stni_comm_exchange_begin(stn_comm *comm, const stn_exchange *messages, const stn_request *after,
                                    stn_request **request);

/* Agreement between hosts, through the communicator's own entries: words[i] = op (SUM, MIN or MAX) over all ranks'
 * words[i]; every rank's bytes, at most STN_MAX_AGREE, become root's. Memory of the host, whatever the device. They
 * wait for the queue, which fails if they do. */
stn_status stni_comm_agree(stn_comm *comm, stn_queue *queue, int64_t *words, int64_t n, stn_reduce_op op);
stn_status stni_comm_agree_first(stn_comm *comm, stn_queue *queue, enum stni_agreement what, int64_t *words, int64_t n,
                                 stn_reduce_op op);
stn_status stni_comm_agree_broadcast(stn_comm *comm, stn_queue *queue, void *bytes, size_t n, int root);

stn_status stni_comm_subset(stn_comm *comm, stn_queue *queue, const int *ranks, int n_ranks, stn_comm **out);

/* How long this rank has waited for its peers in this communicator's collectives so far, nanoseconds; -1: it does
 * not tell. On the thread that runs them. */
int64_t stni_comm_waited(const stn_comm *comm);

/* 1 where this rank's cores are free while collectives on `queue` move data, and those may run on a thread beside
 * the caller's. */
int stni_comm_goes_beside(const stn_comm *comm, const stn_queue *queue);

/* Tells the family that this rank failed. Any thread. */
void stni_comm_abort(stn_comm *comm, stn_status status, const char *text);

/* This rank ends with an error that its peers may find, too, and is about to destroy its end: who waits for it then is
 * told. A table that cannot wait so aborts. */
void stni_comm_leave(stn_comm *comm, stn_status status, const char *text);

/* One line per remembered call, oldest first. */
void stni_comm_dump_calls(const stn_comm *comm, void (*line)(void *arg, const char *text), void *arg);

#endif
