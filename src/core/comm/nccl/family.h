/* The NCCL communicator: this rank's end of a world and of what was derived from it, as the files of this folder share
 * it.
 *
 * A family is a rank's members (one for each of its communicators) and a thread, the watch, that follows the
 * collectives which this rank has put on its GPU. Nobody waits inside NCCL: every call is non-blocking and polled, and
 * a collective that hangs on the GPU is ended by the watch, which aborts NCCL's communicators when a peer was not there
 * by the deadline, NCCL reports an error, or another rank has failed.
 *
 * What hosts tell each other goes over communicators of hosts: each member has one, its control, used by the caller's
 * thread. The family has one more over the ranks of the world, the alarm, used by the watch alone: by it ranks learn
 * that another one has failed.
 *
 * Locks: `calls` is held around calls of NCCL on the family's communicators and guards the list of members; `lock`,
 * taken inside of it or alone, guards the watched collectives and the failure. */
#ifndef STNI_CORE_COMM_NCCL_FAMILY_H
#define STNI_CORE_COMM_NCCL_FAMILY_H

#include "core/comm/nccl/library.h"

#include "core/comm/collective.h"

#include <shardtensor/module.h>

#include <pthread.h>
#include <stdatomic.h>

typedef char stni_nccl_call[96]; /* as a text names it */

/* A collective on the GPU, or a launch of recorded ones. Waiting for its peers begins where `ready` has passed and
 * what was put on the stream before has ended; in a launch, where the GPU comes to a collective. */
struct stni_nccl_watched {
    struct stni_nccl_watched *next;
    cudaEvent_t ready; /* on the caller's queue: all before the collective is done */
    cudaEvent_t end;   /* on the member's stream; on the queue behind a launch */
    stn_queue *queue;
    int64_t begun;     /* nanoseconds; 0: not seen */
    struct stni_nccl_part *part; /* of a launch; NULL: a collective that was called */
    uint32_t at;       /* of a launch: the mark that was seen last */
    stni_nccl_call call;
};

/* What one member has in a recording: its collectives, in their order. The GPU marks 2 i + 1 where it comes to the
 * i-th, 2 i + 2 behind it. */
struct stni_nccl_part {
    struct stni_nccl_part *next;
    struct stni_nccl_member *member;
    stni_nccl_call *calls;
    int n;
    struct stni_nccl_watched *launch; /* that is being made */
};

/* What a family has in a recording. */
struct stni_nccl_recorded {
    struct stni_nccl_recorded *next;  /* of the family's list */
    struct stni_nccl_family *family;  /* NULL once a communicator of it was destroyed */
    struct stni_nccl_part *parts;
    cudaEvent_t order; /* between streams, while it is recorded */
    int device;
};

struct stni_nccl_family {
    int refs; /* members */
    int device; /* of all of them */
    stn_comm *alarm;
    pthread_mutex_t calls;
    struct stni_nccl_member *members;
    struct stni_nccl_recorded *recorded;  /* all; guarded by the lock */
    struct stni_nccl_recorded *recording; /* now; NULL: none */
    pthread_t watch;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int has_watch, ends;      /* the watch runs; is to end */
    atomic_int aborted;       /* set after `failed` is complete */
    struct stni_error failed; /* the first failure that this rank knows of, as its callers are told it */
};

struct stni_nccl_member {
    struct stni_nccl_family *family;
    struct stni_nccl_member *next; /* of the family's list */
    stn_comm *control;
    int rank, size, device;
    int rank_order;
    double deadline; /* seconds; negative: none. Guarded by the family's lock */
    ncclComm_t comm; /* NULL before it is made and after it was aborted; guarded by `calls` */
    cudaStream_t stream;
    struct stni_nccl_watched *first, *last, *spare; /* guarded by the family's lock */
    int under_way; /* from first to last; guarded by the family's lock */
    _Atomic uint32_t *progress; /* memory of the host that marks are written to; NULL before the first recording; guarded by the family's lock */
};

/* Writes a message into an error; returns `status`. */
stn_status stni_nccl_say(struct stni_error *error, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/* Nanoseconds of a clock that only goes forward. */
int64_t stni_nccl_now(void);

/* Makes the member's device current; returns the one that was, for stni_nccl_leave. */
int stni_nccl_enter(int device);
void stni_nccl_leave(int device, int before);

/* The table of the communicator's entries (open.c). */
extern const stn_comm_ops stni_nccl_ops;

/* Making and ending (family.c, make.c) */

/* This rank's end of a world, whose control it owns from then on, and the watch; NCCL's communicator is still to be
 * made. All ranks get theirs, or none does. Collective over control. */
stn_status stni_nccl_family_create(stn_comm *control, int device, double deadline, struct stni_nccl_member **out,
                                   struct stni_error *error);

/* An end of another communicator of the family. Owns control on success. Local. */
stn_status stni_nccl_member_create(struct stni_nccl_family *family, stn_comm *control, int device, double deadline,
                                   struct stni_nccl_member **out, struct stni_error *error);

/* Ends NCCL's communicator too, if there is one. The last member's end is the family's. Keeps control if `keeps`. */
void stni_nccl_member_destroy(struct stni_nccl_member *member, int keeps);

/* Every rank brings what it has found; all return the first rank's failure, if there is one. Collective over
 * control. */
stn_status stni_nccl_agree(stn_comm *control, stn_status status, struct stni_error *error);

/* Makes NCCL's communicator over the ranks of the member's control: by splitting `from`, if that is one and NCCL
 * splits it, else anew. Collective. */
stn_status stni_nccl_make(struct stni_nccl_member *member, ncclComm_t from, struct stni_error *error);

/* Ending NCCL's communicators (end.c). Without `calls`. */

/* How long a communicator's end waits for the other ranks, nanoseconds. 0: it aborts, which waits for none of them. */
#define STNI_NCCL_LEAVING INT64_C(2000000000)
#define STNI_NCCL_FOREVER INT64_C(-1)

/* Returns when it is gone. */
void stni_nccl_end_here(ncclComm_t comm, int device, int64_t patience);

/* By a thread that nobody waits for. `has_graphs`: graphs of its collectives live, before which it cannot be gone. */
void stni_nccl_end_apart(ncclComm_t comm, int device, int64_t patience, int has_graphs);

/* Waits for those without graphs, not for long. */
void stni_nccl_await_ends(void);

/* Failing (abort.c) */

/* Keeps the family's first failure, marks the queues whose collectives wait, and wakes the watch, which ends them.
 * `tells`: it is this rank's own, of which the others are told. Any thread, without `lock`. */
void stni_nccl_abort(struct stni_nccl_family *family, stn_status status, const char *text, int tells);

/* The same with a text, and the error as this rank's callers get it: the first failure. */
stn_status stni_nccl_fail(struct stni_nccl_member *member, struct stni_error *error, stn_status status,
                          const char *format, ...) STN_PRINTF(4, 5);
stn_status stni_nccl_fail_aborted(struct stni_nccl_member *member, struct stni_error *error);

/* An answer of NCCL's to `call`: fails with its name and NCCL's own last words. */
stn_status stni_nccl_fail_answer(struct stni_nccl_member *member, struct stni_error *error, const char *call,
                                 ncclResult_t answer);

/* What the control answered, to `call`. */
stn_status stni_nccl_fail_control(struct stni_nccl_member *member, struct stni_error *error, const char *call,
                                  stn_status status);

/* Waits while as many collectives and launches of the member as `most` stand in line, at most until the family fails.
 * Without `calls`. */
void stni_nccl_wait_for_room(struct stni_nccl_member *member, int most);

/* Calls (calls.c). With `calls` held. */

/* Waits while NCCL is in progress with `call`: polls `comm`, at most for the member's deadline. */
stn_status stni_nccl_await(struct stni_nccl_member *member, struct stni_error *error, const char *call, ncclComm_t comm,
                           ncclResult_t answer);

/* Between the two NCCL's work goes to the member's stream: behind what is on `queue`, and before what comes there.
 * `begin` takes `calls`, and where it succeeds `end` releases it, whatever NCCL has answered. */
stn_status stni_nccl_begin(struct stni_nccl_member *member, stn_queue *queue, const struct stni_coll *coll,
                           struct stni_nccl_watched **out, struct stni_error *error);
stn_status stni_nccl_end(struct stni_nccl_member *member, struct stni_nccl_watched *watched, ncclResult_t answer,
                         struct stni_error *error);

/* Whether the queue is of the member's device, and whether it records. */
stn_status stni_nccl_check_queue(struct stni_nccl_member *member, stn_queue *queue, const struct stni_coll *coll,
                                 int *records, struct stni_error *error);

void stni_nccl_watched_free(struct stni_nccl_watched *watched);

/* One with events that nobody uses; NULL without memory. */
struct stni_nccl_watched *stni_nccl_watched_take(struct stni_nccl_member *member, stn_queue *queue);

/* From here on the watch looks at it. */
void stni_nccl_add_watched(struct stni_nccl_member *member, struct stni_nccl_watched *watched);

/* The host waits a little, longer each time. */
void stni_nccl_pause(int polls);

void stni_nccl_describe(const struct stni_coll *coll, char *text, size_t size);

/* Recorded collectives (recorded.c) */

/* As stni_nccl_begin and stni_nccl_end, while the queue records: NCCL's work on the member's stream becomes a part
 * of that. */
stn_status stni_nccl_record_begin(struct stni_nccl_member *member, stn_queue *queue, const struct stni_coll *coll,
                                  struct stni_error *error);
stn_status stni_nccl_record_end(struct stni_nccl_member *member, stn_queue *queue, ncclResult_t answer,
                                struct stni_error *error);

/* Whether there are graphs of its collectives. With `lock` held. */
int stni_nccl_is_recorded(const struct stni_nccl_member *member);

/* The member goes: graphs of its collectives cannot be launched any more. With `lock` held. */
void stni_nccl_leave_recorded(const struct stni_nccl_member *member);

/* The collective that is on the GPU; NULL where a launch is between its collectives. Its `begun` begins anew with
 * each. With `lock` held. */
const char *stni_nccl_place(struct stni_nccl_watched *watched, const struct stni_nccl_member *member, int64_t now);

/* The watch (watch.c) */
void stni_nccl_retire(struct stni_nccl_member *member); /* what has ended needs no watching. With `lock` held */
stn_status stni_nccl_watch_begin(struct stni_nccl_family *family);
void stni_nccl_watch_end(struct stni_nccl_family *family);

/* Collectives (collective.c) */
stn_status stni_nccl_run(struct stni_nccl_member *member, stn_queue *queue, const struct stni_coll *coll,
                         struct stni_error *error);
int stni_nccl_reduces(const struct stni_nccl_member *member, stn_dtype dtype, stn_reduce_op op);
const char *stni_nccl_name(enum stni_coll_kind kind);

#endif
