/* The NCCL communicator: this rank's end of a world and of what was derived from it, as the files of this folder share it.
 *
 * A family is a rank's members (one for each of its communicators) and a thread, the watch, that follows the collectives which this rank has put on
 * its GPU. Nobody waits inside NCCL: every call is non-blocking and polled, and a collective that hangs on the GPU is ended by the watch, which
 * aborts NCCL's communicators when a peer was not there by the deadline, NCCL reports an error, or another rank has failed.
 *
 * What hosts tell each other goes over communicators of hosts: each member has one, its control, used by the caller's thread. The family has one more
 * over the ranks of the world, the alarm, used by the watch alone: by it ranks learn that another one has failed.
 *
 * Locks: `calls` is held around calls of NCCL on the family's communicators and guards the list of members; `lock`, taken inside of it or alone,
 * guards the watched collectives and the failure. */
#ifndef STNI_CORE_COMM_NCCL_FAMILY_H
#define STNI_CORE_COMM_NCCL_FAMILY_H

#include "core/comm/nccl/library.h"

#include "core/comm/collective.h"

#include <shardtensor/module.h>

#include <pthread.h>
#include <stdatomic.h>

/* A collective on the GPU. Waiting for its peers begins where `ready` has passed and what was put on the stream before has ended. */
struct stni_nccl_watched {
    struct stni_nccl_watched *next;
    cudaEvent_t ready; /* on the caller's queue: all before the collective is done */
    cudaEvent_t end;   /* on the member's stream */
    stn_queue *queue;
    int64_t begun;     /* nanoseconds; 0: not seen */
    char call[96];
};

struct stni_nccl_family {
    int refs; /* members */
    stn_comm *alarm;
    pthread_mutex_t calls;
    struct stni_nccl_member *members;
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

/* This rank's end of a world, whose control it owns from then on, and the watch; NCCL's communicator is still to be made. Collective over control. */
stn_status stni_nccl_family_create(stn_comm *control, int device, double deadline, struct stni_nccl_member **out, struct stni_error *error);

/* An end of another communicator of the family. Owns control on success. Local. */
stn_status stni_nccl_member_create(struct stni_nccl_family *family, stn_comm *control, int device, double deadline, struct stni_nccl_member **out,
                                   struct stni_error *error);

/* Ends NCCL's communicator too, if there is one. The last member's end is the family's. Keeps control if `keeps`. */
void stni_nccl_member_destroy(struct stni_nccl_member *member, int keeps);

/* Every rank brings what it has found; all return the first rank's failure, if there is one. Collective over control. */
stn_status stni_nccl_agree(stn_comm *control, stn_status status, struct stni_error *error);

/* Makes NCCL's communicator over the ranks of the member's control: by splitting `from`, if that is one and NCCL splits it, else anew. Collective. */
stn_status stni_nccl_make(struct stni_nccl_member *member, ncclComm_t from, struct stni_error *error);

/* Failing (abort.c) */

/* Keeps the family's first failure, marks the queues whose collectives wait, and wakes the watch, which ends them. `tells`: it is this rank's own, of
 * which the others are told. Any thread, without `lock`. */
void stni_nccl_abort(struct stni_nccl_family *family, stn_status status, const char *text, int tells);

/* The same with a text, and the error as this rank's callers get it: the first failure. */
stn_status stni_nccl_fail(struct stni_nccl_member *member, struct stni_error *error, stn_status status, const char *format, ...) STN_PRINTF(4, 5);
stn_status stni_nccl_fail_aborted(struct stni_nccl_member *member, struct stni_error *error);

/* An answer of NCCL's to `call`: fails with its name and NCCL's own last words. */
stn_status stni_nccl_fail_answer(struct stni_nccl_member *member, struct stni_error *error, const char *call, ncclResult_t answer);

/* What the control answered, to `call`. */
stn_status stni_nccl_fail_control(struct stni_nccl_member *member, struct stni_error *error, const char *call, stn_status status);

/* Calls (calls.c). With `calls` held. */

/* Waits while NCCL is in progress with `call`: polls `comm`, at most for the member's deadline. */
stn_status stni_nccl_await(struct stni_nccl_member *member, struct stni_error *error, const char *call, ncclComm_t comm, ncclResult_t answer);

/* Between the two NCCL's work goes to the member's stream: behind what is on `queue`, and before what comes there. `begin` takes `calls`, and where
 * it succeeds `end` releases it, whatever NCCL has answered. */
stn_status stni_nccl_begin(struct stni_nccl_member *member, stn_queue *queue, const struct stni_coll *coll, struct stni_nccl_watched **out,
                           struct stni_error *error);
stn_status stni_nccl_end(struct stni_nccl_member *member, struct stni_nccl_watched *watched, ncclResult_t answer, struct stni_error *error);

void stni_nccl_watched_free(struct stni_nccl_watched *watched);

/* The watch (watch.c) */
stn_status stni_nccl_watch_begin(struct stni_nccl_family *family);
void stni_nccl_watch_end(struct stni_nccl_family *family);

/* Collectives (collective.c) */
stn_status stni_nccl_run(struct stni_nccl_member *member, stn_queue *queue, const struct stni_coll *coll, struct stni_error *error);
int stni_nccl_reduces(const struct stni_nccl_member *member, stn_dtype dtype, stn_reduce_op op);
const char *stni_nccl_name(enum stni_coll_kind kind);

#endif
