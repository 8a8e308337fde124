/* The thread communicator: ranks are threads of one process and read each other's buffers in place.
 *
 * A family is one world and every communicator derived from it; a group is one communicator; a member is one rank's end
 * of it, and owns one slot that all ranks of the group see. A collective of large data goes
 *
 *     publish the arguments in the own slot -> wait for every peer's -> copy -> wait until every peer has copied
 *
 * and one of small data carries it in the slot, so that the last wait is not needed. Everybody waits for everybody in
 * each collective, hence a slot holds the data of two collectives only: a rank that writes collective s + 2 knows that
 * all have finished reading collective s.
 *
 * Copying waits on nothing. A rank enters it by `entered = s`, then looks whether the family was aborted, and ends it
 * by `left = s`. A rank that sees the abort leaves the collective when each peer that has entered has left: with both
 * orders sequentially consistent, whoever entered without seeing the abort is seen by everyone who leaves because of
 * it.
 *
 * Data in a device's memory is moved by kernels on the ranks' queues; the hosts meet as above, and all of it counts as
 * large. Two events of each rank order the queues: `ready`, recorded before the rank arrives, which each peer's queue
 * waits for before its first kernel, and `done`, recorded behind the rank's last kernel before it leaves, which each
 * peer's queue waits for before the collective returns. So no host waits for a queue and no kernel for a host. Every
 * wait is for an event that was recorded before the wait was put on its queue, hence queues cannot wait in a circle.
 * What a rank copies in a collective is one launch, where the device has a kernel for lists of boxes (box_list.h). */
#ifndef STNI_CORE_COMM_THREADS_THREADS_H
#define STNI_CORE_COMM_THREADS_THREADS_H

#include "core/box/box_list.h"
#include "core/comm/multi_reduce.h"
#include "core/comm/collective.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

enum {
    STNI_THREAD_LINE = 64,     /* bytes of a cache line */
    STNI_THREAD_INLINE = 1024, /* bytes of data that travel in the slot */
    STNI_THREAD_MEMCPY = 1 << 15, /* bytes up to which a copy needs no box */
    STNI_THREAD_FEW = 4,
    STNI_THREAD_ANY = -1       /* wait for whatever peer moves first */
};

typedef _Atomic(uint64_t) stni_thread_word;

enum stni_thread_large { STNI_THREAD_LARGE = 1, STNI_THREAD_ON_DEVICE = 2 };

/* The events of a rank whose data is on a device. */
enum stni_thread_point { STNI_POINT_READY, STNI_POINT_DONE, STNI_POINT_COUNT };

/* Where a collective is when the test hook is called. */
enum stni_thread_phase {
    STNI_PHASE_BEFORE_ARRIVE,
    STNI_PHASE_AFTER_ARRIVE,
    STNI_PHASE_IN_COPY,
    STNI_PHASE_BEFORE_LEAVE,
    STNI_PHASE_COUNT
};

/* Lets a test act in a phase. Set before the ranks start; NULL in any other use. */
struct stni_thread_hook {
    void (*call)(void *arg, int world_rank, enum stni_coll_kind kind, enum stni_thread_phase phase);
    void *arg;
};

/* What a rank publishes of one collective; valid when arrived >= the collective's number. */
struct stni_thread_mail {
    alignas(STNI_THREAD_LINE) stni_thread_word arrived;
    uint8_t kind, dtype, op, large; /* bits of enum stni_thread_large; 0: peers use the bytes below, else the pointers */
    int32_t root;
    int64_t count;
    union {
        struct {
            const void *send;
            void *recv;
            const int64_t *counts;
            const stn_exchange *messages;
        } at;
        struct {
            const void *send;
            int64_t counts[STNI_THREAD_FEW]; /* all_to_all of few ranks: no second line to fetch */
        } few;
        alignas(8) unsigned char bytes[STNI_THREAD_INLINE + 40]; /* with the fields above, whole lines */
    } data;
};

/* A send of a group of messages (stn_comm_group) that is not received yet. It lives in the sender's call. */
struct stni_thread_pending_send {
    int from, to;
    stn_dtype dtype;
    const stn_box *box;
    int on_device;
    struct stni_thread_pending_send *next;
    atomic_int state; /* of threads_group.c */
};

struct stni_thread_slot {
    alignas(STNI_THREAD_LINE) stni_thread_word entered; /* in a line that peers look at after an abort only */
    alignas(STNI_THREAD_LINE) stni_thread_word left;
    atomic_int gone;                                 /* the owner has destroyed its end, or will have none */
    alignas(STNI_THREAD_LINE) _Atomic(uint32_t) bell; /* what the owner sleeps on */
    atomic_int asleep;                               /* 0, or the peer it waits for + 1; STNI_THREAD_ANY */
    alignas(STNI_THREAD_LINE) stni_thread_word events; /* of groups of messages: sends that were posted or matched */
    pthread_mutex_t inbox_lock;
    struct stni_thread_pending_send *inbox, **inbox_end; /* oldest first */
    pthread_mutex_t points_lock;
    /* The owner's; NULL before its first collective on a device, and once nothing of it is under way any more. */
    stn_event *points[STNI_POINT_COUNT];
    void *kept;                                    /* pending sends that the owner gave up while a peer copied them; freed with the group */
    struct stni_thread_mail mail[2];
};

/* Rank `from` sleeps in an agreement until rank `to` writes *word >= value. On its stack. */
struct stni_thread_edge {
    struct stni_thread_edge *next;
    int from, to; /* in the world */
    const stni_thread_word *word;
    uint64_t value;
    const struct stni_coll *coll;
};

/* One rank of the world, under the family's lock. */
struct stni_thread_rank {
    int members;                 /* its ends of communicators that are alive */
    int has_left;                /* it has had some, and joins nothing any more */
    struct stni_error left_with; /* its error, which its peers may find, too; STN_OK: none */
};

struct stni_thread_family {
    atomic_int refs;
    atomic_int aborted; /* set after the three fields below are complete */
    int failed_rank;    /* in the world */
    stn_status failed_status;
    char failed_text[STNI_ERROR_TEXT];
    struct stni_thread_hook hook;
    pthread_mutex_t lock; /* of `groups`, their chains, `edges`, `ranks` and the abort's fields */
    struct stni_thread_group *groups;
    struct stni_thread_edge *edges; /* of ranks that sleep in an agreement */
    uint64_t last_id;
    struct stni_thread_rank ranks[]; /* by their number in the world */
};

struct stni_thread_group {
    struct stni_thread_family *family;
    int size;
    int *world_ranks;
    int refs;                         /* members alive; under the family's lock, as what follows */
    int joined;                       /* members made so far */
    uint64_t id, parent_id;           /* unique in the family; whose subset it is */
    unsigned char *has_joined;
    struct stni_thread_group *prev, *next;
    void *memory; /* that the group lies in */
    struct stni_thread_slot slots[];
};

struct stni_thread_member {
    struct stni_thread_group *group;
    int rank;
    uint64_t sequence;       /* collectives begun */
    double deadline_seconds; /* negative: none */
    int64_t waited;          /* for peers, nanoseconds; short waits are not counted */
    int64_t until;           /* when the deadline of the collective in progress passes, nanoseconds; 0: not computed yet */
    void *scratch;           /* for copying, which allocates nothing */
    size_t scratch_bytes;
    struct stni_error error; /* of the collective in progress */
    const void *call;        /* of a group of messages: what is still open */
    const struct stni_coll *agreement; /* whose peers are waited for; NULL: none */
    enum stni_isa isa; /* of the queue that the collective runs on */
    /* Set for the time of a collective on a device other than the CPU. */
    stn_queue *queue;     /* NULL: the data is in host memory */
    struct stni_box_list *copies; /* collected, and launched together */
    stn_status launched;  /* the first failure of a kernel's launch */
    int large;            /* what the rank publishes of large data: bits of enum stni_thread_large */
    int64_t inline_bytes; /* most data that travels in the slot; negative: none does */
    int64_t memcpy_bytes; /* up to here memcpy copies; negative: never */
};

/* Waiting (threads_wait.c) */

enum stni_thread_wait { STNI_WAIT_READY, STNI_WAIT_ABORTED, STNI_WAIT_GONE, STNI_WAIT_LATE, STNI_WAIT_CIRCLE /* member->error says which */ };

/* Waits until *word >= value, which rank `peer` of the group will write. Reads the abort flag too where `poll_abort`
 * is set. `*until`: when it is too late, nanoseconds; computed from the member's deadline when it is first needed
 * (0). */
enum stni_thread_wait stni_thread_wait(struct stni_thread_member *member, int peer, const stni_thread_word *word,
                                       uint64_t value, int poll_abort, int64_t *until);

/* Writes a word that peers wait for, and wakes those that sleep. */
void stni_thread_post(struct stni_thread_member *member, stni_thread_word *word, uint64_t value);

/* Wakes the owner of a slot, if it sleeps waiting for `by` or for anybody. */
void stni_thread_wake(struct stni_thread_slot *slot, int by);

/* Wakes the owner of a slot, whatever it waits for. */
void stni_thread_ring(struct stni_thread_slot *slot);

/* Circles (threads_circle.c) */

/* Before the rank sleeps. @return 1: with those that sleep already it closes a circle, and member->error says which. */
int stni_thread_edge_add(struct stni_thread_member *member, struct stni_thread_edge *edge);
void stni_thread_edge_remove(struct stni_thread_member *member, const struct stni_thread_edge *edge);

/* Failing (threads_abort.c) */

static inline int stni_thread_aborted(const struct stni_thread_member *member)
{
    return atomic_load(&member->group->family->aborted);
}

void stni_thread_abort(void *impl, stn_status status, const char *text);

/* Keeps what this rank ends with for those who come to wait for it once its end is gone. */
void stni_thread_leave(void *impl, stn_status status, const char *text);

/* All of these write member->error and return its status. */

/* The family's error, as this rank sees it. */
stn_status stni_thread_fail_aborted(struct stni_thread_member *member);

/* Aborts the family because of what this rank found. */
stn_status stni_thread_fail(struct stni_thread_member *member, stn_status status, const char *format, ...)
    STN_PRINTF(3, 4);

/* The same because of what member->error says. */
stn_status stni_thread_fail_kept(struct stni_thread_member *member);

/* An error that every rank finds by itself, so that the family is not aborted. */
stn_status stni_thread_fail_agreed(struct stni_thread_member *member, stn_status status, const char *format, ...)
    STN_PRINTF(3, 4);

/* The failure behind a wait that was not READY; `missing` tells which ranks are waited for, `what` what they have
 * not done. */
stn_status stni_thread_fail_wait(struct stni_thread_member *member, enum stni_thread_wait wait, int peer,
                                 const struct stni_coll *coll,
                                 int (*missing)(const struct stni_thread_member *, int peer), const char *what);

/* Collectives (threads.c, threads_collective.c, threads_group.c) */

stn_status stni_thread_run(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

stn_status stni_thread_collective(struct stni_thread_member *member, const struct stni_coll *coll);
stn_status stni_thread_group_coll(struct stni_thread_member *member, const struct stni_coll *coll);

static inline void stni_thread_hook_call(const struct stni_thread_member *member, enum stni_coll_kind kind,
                                         enum stni_thread_phase phase)
{
    const struct stni_thread_hook *hook = &member->group->family->hook;
    if (hook->call)
        hook->call(hook->arg, member->group->world_ranks[member->rank], kind, phase);
}

/* At least `bytes` bytes of scratch, before arrival. A failure aborts. */
stn_status stni_thread_reserve(struct stni_thread_member *member, size_t bytes);

/* Data on a device (threads_device.c) */

/* A collective on a queue of a device other than the CPU. */
stn_status stni_thread_run_on_device(struct stni_thread_member *member, stn_queue *queue, const struct stni_coll *coll);

/* The member's queue waits for a rank's event. A wait is put on the queue even where that has failed: the memory
 * that peers still use must not be reused before. */
stn_status stni_thread_follow(struct stni_thread_member *member, int rank, enum stni_thread_point point);

/* Marks that the kernels launched so far are the member's last that touch its peers' memory. */
stn_status stni_thread_mark_done(struct stni_thread_member *member);

/* member->error tells what member->launched is; returns it. */
stn_status stni_thread_fail_launch(struct stni_thread_member *member);

/* Where nothing of the member is under way any more. */
void stni_thread_drop_points(struct stni_thread_member *member);

/* Copies or reduces boxes: at once in host memory, else on the member's queue. A launch that fails is kept in
 * member->launched. */
static inline void stni_thread_copy_box(struct stni_thread_member *member, const stn_box *dst, const stn_box *src,
                                        size_t element_size)
{
    if (!member->queue)
        stni_box_copy_now(member->isa, dst, src, element_size);
    else if (member->launched == STN_OK)
        member->launched = stni_box_list_add(member->copies, dst, src, element_size);
}

/* Launches the copies that are collected. */
static inline void stni_thread_launch_copies(struct stni_thread_member *member)
{
    if (member->queue && member->launched == STN_OK)
        member->launched = stni_box_list_launch(member->copies);
}

static inline void stni_thread_reduce_boxes(struct stni_thread_member *member, int n_dst, const stn_box *dst, int n_src,
                                            const stn_box *src, stn_dtype dtype, stn_reduce_op op)
{
    if (!member->queue)
        stni_box_reduce_now(member->isa, n_dst, dst, n_src, src, dtype, op);
    else if (n_dst == 1 && n_src == 1)
        stni_thread_copy_box(member, dst, src, stn_dtype_size(dtype));
    else if (member->launched == STN_OK)
        member->launched = stni_box_reduce(member->queue, n_dst, dst, n_src, src, dtype, op);
}

/* Copying (threads_copy.c, threads_exchange.c): pure functions on what the ranks published. */

struct stni_thread_view {
    struct stni_thread_member *member;
    const struct stni_coll *coll; /* this rank's */
    int rank, size;
    uint64_t sequence;
};

static inline const struct stni_thread_mail *stni_thread_mail_of(const struct stni_thread_view *view, int peer)
{
    return &view->member->group->slots[peer].mail[view->sequence & 1];
}

/* Bits of enum stni_thread_large; where there are none, the rank's bytes are in the mail. */
int stni_thread_pack(const struct stni_thread_member *member, const struct stni_coll *coll,
                     struct stni_thread_mail *mail);

/* Bytes of scratch that the collective's copy needs. */
size_t stni_thread_scratch(const struct stni_coll *coll, int size);

/* Copies what a rank of an all_gather or all_to_all sends to itself, which needs no peer: half of it before the
 * peers have arrived, half of it before they have left, where the rank would wait otherwise. On a device it is
 * copied with the rest. */
void stni_thread_copy_own(const struct stni_thread_view *view, int second_half);

/* Not OK: the ranks' arguments do not fit; member->error says how. */
stn_status stni_thread_copy(const struct stni_thread_view *view, int large);

/* The same for data on a device: kernels on the member's queue, behind what the peers' queues had to do before. */
stn_status stni_thread_copy_on_device(const struct stni_thread_view *view);

size_t stni_thread_exchange_scratch(const stn_exchange *messages);
/* Orders what is received by its box, in scratch: before arrival. */
void stni_thread_exchange_prepare(const stn_exchange *messages, void *scratch);
stn_status stni_thread_exchange_copy(const struct stni_thread_view *view);

/* Sets the deadline of one rank's end; seconds as in stn_context_options. */
void stni_thread_set_deadline(void *impl, double seconds);

#endif
