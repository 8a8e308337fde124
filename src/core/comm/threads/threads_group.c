/* Sends and receives between thread ranks. A sender puts a pending send, which points to its box, into the receiver's
 * inbox; the receiver takes it out, copies straight from the box, and marks it done. Everything is sent before anything
 * is waited for, so no order of calls can deadlock.
 *
 * A pending send is posted, then taken (under the inbox's lock), then done; after that the receiver does not touch
 * it any more. A sender that leaves because of an abort withdraws the sends that are only posted and waits for those
 * that are taken, so its boxes are free when it returns. */
#include "core/comm/threads/threads.h"

#include "core/box/box.h"

#include <string.h>

enum { POSTED, TAKEN, DONE };

struct call {
    struct stni_thread_member *member;
    const stn_exchange *messages;
    struct stni_thread_pending_send *sends; /* one per message sent */
    unsigned char *received;            /* one per message wanted */
    int open;                           /* messages wanted and not received yet */
};

static struct stni_thread_slot *slot_of(const struct call *call, int rank)
{
    return &call->member->group->slots[rank];
}

static void tell(const struct call *call, int peer)
{
    struct stni_thread_slot *slot = slot_of(call, peer);
    atomic_fetch_add(&slot->events, 1);
    stni_thread_wake(slot, call->member->rank);
}

static stn_status refuse(const struct call *call, int from, const char *what)
{
    const int *world = call->member->group->world_ranks;
    return stni_thread_fail(call->member, STN_ERR_MISMATCH, "group: a message from rank %d to rank %d %s", world[from],
                            world[call->member->rank], what);
}

static int same_shape(const stn_box *a, const stn_box *b)
{
    int same = a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++)
        same = a->shape[d] == b->shape[d];
    return same;
}

static stn_status copy_box(const struct call *call, const stn_box *dst, const stn_box *src)
{
    struct stni_thread_member *member = call->member;
    if (stni_box_numel(dst) > 0)
        stni_thread_copy_box(member, dst, src, stn_dtype_size(call->messages->dtype));
    stni_thread_launch_copies(member); /* at once: the sender may go on when it is told */
    return member->launched == STN_OK ? STN_OK : stni_thread_fail_launch(member);
}

/* On a device: behind what the sender's queue had to do before it posted the box. */
static stn_status copy_from(const struct call *call, int from, const stn_box *dst, const stn_box *src)
{
    struct stni_thread_member *member = call->member;
    if (!member->queue)
        return copy_box(call, dst, src);
    STNI_TRY(stni_thread_follow(member, from, STNI_POINT_READY));
    stn_status status = copy_box(call, dst, src);
    stn_status marked = stni_thread_mark_done(member);
    return status == STN_OK ? marked : status;
}

/* Messages of this rank to itself, in their order. */
static stn_status copy_to_self(struct call *call)
{
    const stn_exchange *m = call->messages;
    int rank = call->member->rank, at = 0;
    for (int i = 0; i < m->n_recv; i++) {
        if (m->recv[i].peer != rank)
            continue;
        while (at < m->n_send && m->send[at].peer != rank)
            at++;
        if (at == m->n_send)
            return refuse(call, rank, "is wanted but not sent");
        if (!same_shape(&m->recv[i].box, &m->send[at].box))
            return refuse(call, rank, "has different shapes at its ends");
        if (copy_box(call, &m->recv[i].box, &m->send[at++].box) != STN_OK)
            return stni_thread_fail_kept(call->member);
        call->received[i] = 1;
        call->open--;
    }
    return STN_OK;
}

static void post_pending_sends(struct call *call)
{
    const stn_exchange *m = call->messages;
    int rank = call->member->rank;
    for (int i = 0; i < m->n_send; i++) {
        struct stni_thread_pending_send *send = &call->sends[i];
        int peer = m->send[i].peer;
        *send = (struct stni_thread_pending_send){.from = rank, .to = peer, .dtype = m->dtype, .box = &m->send[i].box,
                                                  .on_device = call->member->queue != NULL};
        atomic_init(&send->state, peer == rank ? DONE : POSTED);
        if (peer == rank)
            continue;
        struct stni_thread_slot *slot = slot_of(call, peer);
        pthread_mutex_lock(&slot->inbox_lock);
        *slot->inbox_end = send;
        slot->inbox_end = &send->next;
        pthread_mutex_unlock(&slot->inbox_lock);
        tell(call, peer);
    }
}

/* With the inbox's lock held: unlinks the pending send that *link points to. */
static void unlink_pending_send(struct stni_thread_slot *slot, struct stni_thread_pending_send **link)
{
    struct stni_thread_pending_send *send = *link;
    *link = send->next;
    if (!send->next)
        slot->inbox_end = link;
}

/* The oldest pending send from `peer`, now taken; NULL if none has come. */
static struct stni_thread_pending_send *pop_pending_send(const struct call *call, int peer)
{
    struct stni_thread_slot *slot = slot_of(call, call->member->rank);
    struct stni_thread_pending_send *found = NULL;
    pthread_mutex_lock(&slot->inbox_lock);
    for (struct stni_thread_pending_send **link = &slot->inbox; *link; link = &(*link)->next) {
        if ((*link)->from != peer)
            continue;
        found = *link;
        unlink_pending_send(slot, link);
        atomic_store(&found->state, TAKEN);
        break;
    }
    pthread_mutex_unlock(&slot->inbox_lock);
    return found;
}

/* Copies the box of a taken send, unless the family was aborted, and marks the send done. */
static stn_status receive(struct call *call, int i, struct stni_thread_pending_send *send)
{
    struct stni_thread_member *member = call->member;
    const stn_box *dst = &call->messages->recv[i].box;
    int from = send->from, aborted = stni_thread_aborted(member);
    stn_status copied = STN_OK;
    const char *bad = send->on_device != (member->queue != NULL) ? "is in a device's memory at one end only"
                      : send->dtype != call->messages->dtype ? "has different dtypes at its ends"
                      : !same_shape(dst, send->box)        ? "has different shapes at its ends"
                                                             : NULL;
    if (!aborted && !bad) {
        stni_thread_hook_call(member, STNI_COLL_GROUP, STNI_PHASE_IN_COPY);
        copied = copy_from(call, from, dst, send->box);
    }
    atomic_store(&send->state, DONE);
    tell(call, from);
    if (aborted)
        return stni_thread_fail_aborted(member);
    if (copied != STN_OK)
        return stni_thread_fail_kept(member);
    if (bad)
        return refuse(call, from, bad);
    call->received[i] = 1;
    call->open--;
    return STN_OK;
}

/* Receives whatever has come; *moved tells whether anything had. Of one peer's messages the first that is open is
 * the next. */
static stn_status receive_all(struct call *call, int *moved)
{
    const stn_exchange *m = call->messages;
    *moved = 0;
    for (int i = 0; i < m->n_recv; i++) {
        if (call->received[i])
            continue;
        int peer = m->recv[i].peer;
        struct stni_thread_pending_send *send = pop_pending_send(call, peer);
        if (send) {
            *moved = 1;
            STNI_TRY(receive(call, i, send));
            continue;
        }
        while (i + 1 < m->n_recv && m->recv[i + 1].peer == peer)
            i++;
    }
    return STN_OK;
}

static int all_taken(const struct call *call)
{
    int done = 1;
    for (int i = 0; done && i < call->messages->n_send; i++)
        done = atomic_load(&call->sends[i].state) == DONE;
    return done;
}

/* Whether the call still waits for `peer`. */
static int waits_for(const struct stni_thread_member *member, int peer)
{
    const struct call *call = member->call;
    int waits = 0;
    for (int i = 0; !waits && i < call->messages->n_recv; i++)
        waits = call->messages->recv[i].peer == peer && !call->received[i];
    for (int i = 0; !waits && i < call->messages->n_send; i++)
        waits = call->messages->send[i].peer == peer && atomic_load(&call->sends[i].state) != DONE;
    return waits;
}

/* A peer that has destroyed its end sends and receives nothing more. `gone` is read first: what the peer did before
 * is then visible. */
static stn_status check_gone(const struct call *call, const struct stni_coll *coll)
{
    const struct stni_thread_group *group = call->member->group;
    for (int r = 0; r < group->size; r++)
        if (r != call->member->rank && atomic_load(&group->slots[r].gone) && waits_for(call->member, r))
            return stni_thread_fail_wait(call->member, STNI_WAIT_GONE, r, coll, waits_for, "");
    return STN_OK;
}

/* On a device: when a message is taken, its copy may still be under way, so that what follows on this rank's queue
 * waits for it. */
static stn_status follow_receivers(const struct call *call)
{
    const stn_exchange *m = call->messages;
    struct stni_thread_member *member = call->member;
    stn_status status = STN_OK;
    for (int i = 0; member->queue && i < m->n_send; i++) {
        int peer = m->send[i].peer, first = i == 0 || m->send[i - 1].peer != peer;
        if (!first || peer == member->rank)
            continue;
        stn_status followed = stni_thread_follow(member, peer, STNI_POINT_DONE);
        status = status == STN_OK ? followed : status;
    }
    return status;
}

static stn_status complete(struct call *call, const struct stni_coll *coll)
{
    struct stni_thread_member *member = call->member;
    const stni_thread_word *events = &slot_of(call, member->rank)->events;
    int leaving = 0;
    for (;;) {
        uint64_t seen = atomic_load(events);
        int moved;
        STNI_TRY(receive_all(call, &moved));
        if (call->open == 0 && !leaving) {
            leaving = 1;
            stni_thread_hook_call(member, STNI_COLL_GROUP, STNI_PHASE_BEFORE_LEAVE);
        }
        if (call->open == 0 && all_taken(call))
            return follow_receivers(call) == STN_OK ? STN_OK : stni_thread_fail_kept(member);
        if (moved)
            continue;
        STNI_TRY(check_gone(call, coll));
        enum stni_thread_wait wait = stni_thread_wait(member, STNI_THREAD_ANY, events, seen + 1, 1, &member->until);
        if (wait != STNI_WAIT_READY)
            return stni_thread_fail_wait(member, wait, STNI_THREAD_ANY, coll, waits_for,
                                         "have not sent or taken their messages");
    }
}

/* A peer may still write that it is done: the pending sends outlive this rank's end. At most once, as no collective
 * runs after a failure. */
static void keep_pending_sends(const struct call *call)
{
    struct stni_thread_member *member = call->member;
    slot_of(call, member->rank)->kept = member->scratch;
    member->scratch = NULL;
    member->scratch_bytes = 0;
}

/* After a failure: unlinks the pending sends that nobody has taken, then waits for the others. */
static stn_status withdraw(struct call *call, stn_status status)
{
    struct stni_thread_member *member = call->member;
    const stni_thread_word *events = &slot_of(call, member->rank)->events;
    for (int i = 0; i < call->messages->n_send; i++) {
        struct stni_thread_slot *slot = slot_of(call, call->sends[i].to);
        pthread_mutex_lock(&slot->inbox_lock);
        struct stni_thread_pending_send **link = &slot->inbox;
        while (*link && *link != &call->sends[i])
            link = &(*link)->next;
        if (*link) {
            unlink_pending_send(slot, link);
            atomic_store(&call->sends[i].state, DONE);
        }
        pthread_mutex_unlock(&slot->inbox_lock);
    }
    int64_t until = 0;
    for (;;) {
        uint64_t seen = atomic_load(events);
        if (all_taken(call)) {
            struct stni_error why = member->error;
            follow_receivers(call);
            member->error = why;
            return status;
        }
        if (stni_thread_wait(member, STNI_THREAD_ANY, events, seen + 1, 0, &until) != STNI_WAIT_LATE)
            continue;
        keep_pending_sends(call);
        return stni_thread_fail_agreed(member, STN_ERR_PEER,
                                       "group: a message is still being copied after a second deadline, "
                                       "by a rank that may touch this rank's buffers");
    }
}

stn_status stni_thread_group_coll(struct stni_thread_member *member, const struct stni_coll *coll)
{
    const stn_exchange *m = coll->messages;
    size_t sends = (size_t)m->n_send * sizeof(struct stni_thread_pending_send);
    stni_thread_hook_call(member, coll->kind, STNI_PHASE_BEFORE_ARRIVE);
    if (stni_thread_aborted(member))
        return stni_thread_fail_aborted(member);
    STNI_TRY(stni_thread_reserve(member, sends + (size_t)m->n_recv));

    struct call call = {.member = member, .messages = m, .sends = member->scratch, .open = m->n_recv};
    call.received = (unsigned char *)member->scratch + sends;
    if (m->n_recv > 0)
        memset(call.received, 0, (size_t)m->n_recv);
    member->until = 0;
    STNI_TRY(copy_to_self(&call));
    member->call = &call;
    post_pending_sends(&call);
    stni_thread_hook_call(member, coll->kind, STNI_PHASE_AFTER_ARRIVE);
    stn_status status = complete(&call, coll);
    if (status != STN_OK)
        status = withdraw(&call, status);
    member->call = NULL;
    return status;
}
