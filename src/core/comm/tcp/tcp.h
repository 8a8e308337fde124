/* Ranks that are processes, on one machine or many, over TCP: for jobs that were started without MPI, and for the hosts
 * of ranks on devices.
 *
 * A family is a set of processes with two connections between each pair, which are local sockets on one machine
 * (local.h): one for messages, one for notices. A notice is short, says that a rank has failed or left, and never
 * stands behind a message that nobody takes. A group is a set of ranks with a channel, a number that its messages
 * carry.
 *
 * There is no thread behind it: who waits moves whatever can be moved, of any group of the family, under the family's
 * lock. A message that nobody has asked for yet is kept in memory of the family's, so that no order of sends and
 * receives blocks.
 *
 * The table has sends and receives, subsets and agreement; every other collective is the library's own, made of
 * those (built.c). */
#ifndef STNI_CORE_COMM_TCP_TCP_H
#define STNI_CORE_COMM_TCP_TCP_H

#include "core/comm/tcp/socket.h"

#include "core/comm/collective.h"

#include <pthread.h>
#include <stdatomic.h>

/* What stands before a message. */
struct stni_tcp_header {
    uint64_t channel;
    int64_t bytes;
};

/* How many messages of a call are still under way. */
struct stni_tcp_call {
    int open;
};

/* A message that is sent, received, or kept until it is asked for (then `call` is NULL, and what `data` points to is
 * its own). */
struct stni_tcp_transfer {
    struct stni_tcp_transfer *next;
    struct stni_tcp_call *call;
    int peer; /* rank of the family */
    struct stni_tcp_header header;
    char *data;
    int64_t done; /* bytes of header and data together */
};

struct stni_tcp_queue {
    struct stni_tcp_transfer *first, **last;
};

/* Statuses of notices that are none of a failure, beside STN_OK: the rank leaves. */
enum {
    STNI_TCP_ASKS = -1, /* whom does the other wait for? */
    STNI_TCP_WAITS = -2 /* the answer, bit r of the text: for rank r of the family */
};

struct stni_tcp_notice {
    int32_t rank, status; /* who failed; STN_OK and below: who says it */
    char text[STNI_ERROR_TEXT];
};

struct stni_tcp_peer {
    int lanes[STNI_TCP_LANES]; /* descriptors; -1: this rank itself, or a connection that has ended */
    int has_left;              /* it said so */
    char why[STNI_ERROR_TEXT]; /* with what error; "": with none */
    int is_elsewhere;          /* on another machine */
    int is_awaited, is_asked, is_named, has_answered; /* late.c */
    struct stni_tcp_queue sending, wanted, kept;
    struct stni_tcp_header header; /* of the message that is coming */
    size_t header_done;
    struct stni_tcp_transfer *coming; /* where it goes to; NULL: its header is not complete */
    struct stni_tcp_notice notice;
    size_t notice_done;
};

/* How often these ranks have made a group, so that each has a channel of its own. */
struct stni_tcp_made {
    uint64_t ranks;
    uint64_t times;
};

struct stni_tcp_family {
    atomic_int refs; /* members of this process */
    int rank, size;
    double spins;         /* seconds in which who waits does not sleep: what is answered at once comes within them */
    atomic_int callers;   /* threads that want the lock: who waits for messages lets them in */
    pthread_mutex_t lock; /* of all that follows */
    struct stni_tcp_peer *peers;
    struct pollfd *polled;
    int aborted;
    struct stni_tcp_notice failed;
    char leaves_with[STNI_ERROR_TEXT]; /* this rank's error, which its peers may find, too; "": none */
    struct stni_tcp_made *made;
    int n_made;
};

struct stni_tcp_member {
    struct stni_tcp_family *family;
    int rank, size;
    int *world; /* ranks of the family */
    uint64_t channel;
    int spans_machines;      /* some rank is on another one than this */
    double deadline_seconds; /* negative: none */
    int64_t waited;          /* nanoseconds in which nothing could be moved */
    const char *collective;  /* the one in progress */
    struct stni_error error; /* of the collective in progress */
};

/* A family of `lanes` (2 for each rank), which it closes in the end. NULL: no memory; they are still the caller's. */
struct stni_tcp_family *stni_tcp_family_create(int rank, int size, const int *lanes);

/* Lets go of the family; the last says to all ranks that this one leaves. */
void stni_tcp_family_release(struct stni_tcp_family *family);

/* progress.c. With the family's lock held: sends and receives what can be, and waits up to `milliseconds` for that.
 * @return 0: there was nothing. */
int stni_tcp_progress(struct stni_tcp_family *family, int milliseconds);

/* With the family's lock held: a message begins, in its peer's order. */
void stni_tcp_start(struct stni_tcp_family *family, struct stni_tcp_transfer *transfer, int receives);

/* notice.c. Any thread: this rank knows that `rank` has failed, and tells all others. The first failure stays. */
void stni_tcp_abort(struct stni_tcp_family *family, int rank, stn_status status, const char *text);

/* The same on the connections that have been made, `lanes` as for stni_tcp_family_create, where no family could be. */
void stni_tcp_tell_failure(const int *lanes, int rank, int size, stn_status status, const char *text);

/* With the family's lock held. */
void stni_tcp_abort_locked(struct stni_tcp_family *family, int rank, stn_status status, const char *text);
void stni_tcp_take_notices(struct stni_tcp_family *family, int rank);
void stni_tcp_say_leaving(struct stni_tcp_family *family);

/* late.c. With the family's lock held. Forgets what was answered before. */
void stni_tcp_begin_asking(struct stni_tcp_family *family);

/* Asks a rank whom it waits for, once, and those whom others have named since. */
void stni_tcp_ask(struct stni_tcp_family *family, int rank);
void stni_tcp_ask_named(struct stni_tcp_family *family);

/* A question or an answer that has come from a rank. */
void stni_tcp_answer(struct stni_tcp_family *family, int rank);
void stni_tcp_take_answer(struct stni_tcp_family *family, int rank, const struct stni_tcp_notice *answer);

/* Lists ranks: those that were asked and have not answered, or, if there are none, those that are awaited, which have.
 * @return how many have not answered; `*n`: how many are listed. */
int stni_tcp_list_late(const struct stni_tcp_family *family, char *text, size_t size, int *n);

/* Drops messages that are under way: nothing is sent or received after a failure. With the family's lock held. */
void stni_tcp_drop(struct stni_tcp_family *family);

static inline int stni_tcp_is_gone(const struct stni_tcp_peer *peer)
{
    return peer->lanes[STNI_TCP_MESSAGES] < 0;
}

void stni_tcp_lock(struct stni_tcp_family *family);
void stni_tcp_unlock(struct stni_tcp_family *family);

/* group.c. Passes `n` messages, of each of which peer, data and header.bytes are set; the first `n_receives` are
 * received, the others sent. Returns when all are done. */
stn_status stni_tcp_pass(struct stni_tcp_member *member, struct stni_tcp_transfer *transfers, int n_receives, int n);
stn_status stni_tcp_group(struct stni_tcp_member *member, const stn_exchange *messages);

stn_status stni_tcp_fail(struct stni_tcp_member *member, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

#endif
