/* The MPI communicator: its families, groups and members, as the module's files share them.
 *
 * A family is one duplicate of a communicator of MPI and all groups of its ranks. Every collective is made of messages
 * between two ranks that both know their lengths, so that the ranks that have not come can be named. A group is a set
 * of ranks with four tags of its own (two for collectives and two for groups of sends and receives, each for small and
 * for large messages), not a communicator of MPI: making and destroying one calls no collective of MPI. No two groups
 * that have a rank in common share tags, because the ranks of a group agree on a number that none of them has used
 * before.
 *
 * Nothing waits inside MPI. A wait polls its requests, and every now and then the clock, notices of failure, and
 * whether the processes of peers on this machine still run. */
#ifndef STNI_CORE_COMM_MPI_FAMILY_H
#define STNI_CORE_COMM_MPI_FAMILY_H

#include "core/comm/mpi/process.h"

#include "core/comm/collective.h"

#include <shardtensor/module.h>

#include <stdatomic.h>

enum {
    STNI_MPI_NOTICE_TAG = 0,
    STNI_MPI_TAGS = 4, /* of a group */
    STNI_MPI_PIECE = 64 << 20, /* bytes of scratch of a reduction */
    STNI_MPI_MESSAGE = 1 << 30 /* bytes of one message of MPI, whose counts are int */
};

/* What is told to peers: a failure, or (STN_OK) that a rank has left the family. `family` keeps apart what was sent
 * to a communicator that MPI has given the same number before. */
struct stni_mpi_notice {
    uint64_t family;
    int32_t rank, status; /* who failed or left */
    char text[STNI_ERROR_TEXT];
};

/* How often this rank has opened a communicator of MPI, and the duplicate of it that the others had not come to
 * make. */
struct stni_mpi_openings {
    int64_t begun;
    int unfinished;
    MPI_Comm made;
    MPI_Request request;
};

struct stni_mpi_family {
    atomic_int refs; /* members of this process */
    MPI_Comm comm;
    int rank, size;
    uint64_t id;
    int tags; /* the largest allowed */
    int used; /* group numbers that this rank has seen used */
    struct stni_mpi_peer *peers;
    pthread_mutex_t lock; /* of what follows */
    atomic_int aborted;   /* set after failed is complete */
    int told;
    struct stni_mpi_notice failed, leaving;
    MPI_Request *telling; /* a request for each rank, made early: failing and leaving allocate nothing */
    atomic_int *has_left; /* for each rank: it sends and receives nothing more */
    atomic_int n_left;
    int told_leaving;
    struct stni_mpi_family *next; /* of those that this process is in, or of those that it has left */
};

/* One message under way. A large one is received when it has come and its length was seen: MPI may copy a message
 * that is longer than its buffer all the same, where the sender's memory is read directly. */
struct stni_mpi_part {
    void *data;
    int peer, receives, bytes;
    int unseen;  /* a large message that has not come */
    int earlier; /* large messages of one peer come in this order: the one before; -1: none */
};

struct stni_mpi_member {
    struct stni_mpi_family *family;
    int rank, size;
    int *world; /* ranks of the family */
    int number; /* of the group */
    int spans_machines; /* some rank is on another one than this */
    unsigned calls;
    double deadline_seconds; /* negative: none */
    struct stni_error error; /* of the collective in progress */
    enum stni_coll_kind kind;
    stn_queue *queue; /* of the collective in progress: whose kernels reduce */
    MPI_Request *requests;
    struct stni_mpi_part *parts;
    int n, capacity, open, first; /* requests; those not completed, and where they begin */
    int receiving; /* large messages that have come and are being moved here */
    int *last; /* for each rank: the last large message from it, -1: none */
    int64_t bytes; /* of the messages in progress */
    int64_t waited, waits_since; /* nanoseconds: for peers, in all collectives so far; since when it waits now, 0: it does not */
    char *scratch;
    size_t scratch_bytes;
    const void **sources;   /* a pointer for each rank */
    int64_t *from, *counts; /* the split in use: elements, for each rank */
};

/* Set once, before anything else of the module runs. */
extern _Atomic(const stn_host *) stni_mpi_host;

static inline size_t stni_mpi_size(stn_dtype dtype)
{
    return atomic_load_explicit(&stni_mpi_host, memory_order_relaxed)->dtype_size(dtype);
}

/* Openings (opening.c). The openings of a communicator of MPI, NULL without memory; and a duplicate of it: the one
 * that was not finished before, or a new one. It is waited for with `backoff`, at most `seconds`. */
struct stni_mpi_openings *stni_mpi_openings_of(MPI_Comm comm);
stn_status stni_mpi_duplicate(MPI_Comm from, struct stni_mpi_openings *openings, struct stni_mpi_backoff *backoff,
                              double seconds, MPI_Comm *out, struct stni_error *error);

/* Leaving (leaving.c). A family is entered when it is made, and goes with the last member of this process. It is freed
 * when all its ranks have left; leaving also frees the others for which that holds by now. */
void stni_mpi_enter(struct stni_mpi_family *family);
void stni_mpi_is_going(const struct stni_mpi_family *family);
void stni_mpi_leave(struct stni_mpi_family *family);
void stni_mpi_end_families(void);
void stni_mpi_family_free(struct stni_mpi_family *family);

/* Making (family.c). Collective over `from`, of which the family owns a duplicate. */
stn_status stni_mpi_family_create(MPI_Comm from, double deadline_seconds, struct stni_mpi_member **out,
                                  struct stni_error *error);

/* This rank's end of a group of `size` ranks, `world` of them (copied), with a number of its own. Local. */
struct stni_mpi_member *stni_mpi_member_create(struct stni_mpi_family *family, int size, const int *world, int number,
                                               double deadline_seconds);
void stni_mpi_member_destroy(void *impl);

/* Failing (abort.c). All but the first two write member->error and return its status. */

/* Tells the family that rank `rank` of it failed. Any thread. */
void stni_mpi_abort(struct stni_mpi_family *family, int rank, stn_status status, const char *text);

/* Receives notices of peers, and sends those that another thread could not send. */
void stni_mpi_poll_abort(struct stni_mpi_family *family);

stn_status stni_mpi_fail(struct stni_mpi_member *member, stn_status status, const char *format, ...) STN_PRINTF(3, 4);
stn_status stni_mpi_fail_aborted(struct stni_mpi_member *member);
stn_status stni_mpi_fail_gone(struct stni_mpi_member *member, int peer);
stn_status stni_mpi_fail_late(struct stni_mpi_member *member);

/* Messages (transfer.c) */

/* Makes space in the lists for `n` more messages, of `bytes` bytes together. */
stn_status stni_mpi_reserve(struct stni_mpi_member *member, int64_t n, int64_t bytes);
stn_status stni_mpi_send(struct stni_mpi_member *member, int peer, const void *data, int64_t bytes);
stn_status stni_mpi_receive(struct stni_mpi_member *member, int peer, void *data, int64_t bytes);

/* Waits for all that was begun. */
stn_status stni_mpi_complete(struct stni_mpi_member *member);

/* Collectives (collective.c, reduce.c) */

stn_status stni_mpi_run(struct stni_mpi_member *member, const struct stni_coll *coll);
const char *stni_mpi_coll_name(enum stni_coll_kind kind);

/* Fills member->from and member->counts: from given counts, or with the balanced split of `count` elements from
 * element `first` on. */
void stni_mpi_cut(struct stni_mpi_member *member, const int64_t *counts);
void stni_mpi_cut_evenly(struct stni_mpi_member *member, int64_t first, int64_t count);

/* All-gather in place: each rank has its part of the split in `data`, and gets those of all others. `size`: bytes of
 * an element. */
stn_status stni_mpi_share(struct stni_mpi_member *member, void *data, size_t size);

/* Gather: each rank has its part; the root gets them all. */
stn_status stni_mpi_collect(struct stni_mpi_member *member, const void *part, void *all, size_t size, int root);

/* Scatter: the root has all parts; each rank gets its own. */
stn_status stni_mpi_spread(struct stni_mpi_member *member, const void *all, void *part, size_t size, int root);

stn_status stni_mpi_all_reduce(struct stni_mpi_member *member, const struct stni_coll *coll);
stn_status stni_mpi_reduce(struct stni_mpi_member *member, const struct stni_coll *coll);
stn_status stni_mpi_reduce_scatter(struct stni_mpi_member *member, const struct stni_coll *coll);

#endif
