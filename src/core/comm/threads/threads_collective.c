/* The course of every collective of thread ranks: arrive, wait, copy, leave (threads.h tells why it is safe). */
#include "core/comm/threads/threads.h"

#include <string.h>

/* Prefetches for writing a line that this rank will write: its peers have read it since the last write, and a store
 * that has to invalidate their copies first takes as long as the new value takes to reach them. */
#ifdef __x86_64__
#define WILL_WRITE(at) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(at)))
#else
#define WILL_WRITE(at) ((void)(at))
#endif

static struct stni_thread_slot *own_slot(const struct stni_thread_member *member)
{
    return &member->group->slots[member->rank];
}

/* What peers need of a large collective. */
static void publish_pointers(struct stni_thread_mail *mail, const struct stni_coll *coll, int size)
{
    mail->data.at.send = coll->send;
    if (coll->kind == STNI_COLL_ALL_TO_ALL && size <= STNI_THREAD_FEW) {
        memcpy(mail->data.few.counts, coll->counts, (size_t)size * sizeof *coll->counts);
        return;
    }
    mail->data.at.recv = coll->recv;
    mail->data.at.counts = coll->counts;
    mail->data.at.messages = coll->messages;
}

/* The first line is written last and in one go: waiting peers poll it all the time, and each poll between two stores
 * moves the line to another core. */
static void publish(struct stni_thread_member *member, const struct stni_coll *coll)
{
    struct stni_thread_mail *mail = &own_slot(member)->mail[member->sequence & 1];
    mail->large = (uint8_t)stni_thread_pack(member, coll, mail);
    mail->kind = (uint8_t)coll->kind;
    mail->dtype = (uint8_t)coll->dtype;
    mail->op = (uint8_t)coll->op;
    mail->root = coll->root;
    mail->count = coll->count;
    if (mail->large)
        publish_pointers(mail, coll, member->group->size);
    stni_thread_post(member, &mail->arrived, member->sequence);
}

/* Whether some of what a rank receives is its own. */
static int keeps_own(const struct stni_coll *coll)
{
    return coll->kind == STNI_COLL_ALL_GATHER || coll->kind == STNI_COLL_ALL_TO_ALL;
}

static int not_arrived(const struct stni_thread_member *member, int peer)
{
    return atomic_load(&member->group->slots[peer].mail[member->sequence & 1].arrived) < member->sequence;
}

static int not_left(const struct stni_thread_member *member, int peer)
{
    return atomic_load(&member->group->slots[peer].left) < member->sequence;
}

static stn_status await_arrivals(struct stni_thread_member *member, const struct stni_coll *coll)
{
    struct stni_thread_group *group = member->group;
    const uint64_t sequence = member->sequence;
    for (int r = 0; r < group->size; r++) {
        const stni_thread_word *arrived = &group->slots[r].mail[sequence & 1].arrived;
        if (r == member->rank || atomic_load_explicit(arrived, memory_order_acquire) >= sequence)
            continue;
        enum stni_thread_wait wait = stni_thread_wait(member, r, arrived, sequence, 1, &member->until);
        if (wait != STNI_WAIT_READY)
            return stni_thread_fail_wait(member, wait, r, coll, not_arrived, "had not arrived");
    }
    return STN_OK;
}

static stn_status await_leaves(struct stni_thread_member *member, const struct stni_coll *coll)
{
    struct stni_thread_group *group = member->group;
    const uint64_t sequence = member->sequence;
    for (int r = 0; r < group->size; r++) {
        const stni_thread_word *left = &group->slots[r].left;
        if (r == member->rank || atomic_load_explicit(left, memory_order_acquire) >= sequence)
            continue;
        enum stni_thread_wait wait = stni_thread_wait(member, r, left, sequence, 1, &member->until);
        if (wait != STNI_WAIT_READY)
            return stni_thread_fail_wait(member, wait, r, coll, not_left, "were still copying");
    }
    return STN_OK;
}

/* After a failure, whose text stays: what the peer has put on its queue comes before anything that this rank's queue
 * does next. */
static void follow_quietly(struct stni_thread_member *member, int rank)
{
    struct stni_error why = member->error;
    stni_thread_follow(member, rank, STNI_POINT_DONE);
    member->error = why;
}

/* After a failure: returns when no peer touches this rank's buffers any more. A peer that is still copying after a
 * second deadline is given up, and the text says so: it may touch what this rank frees. */
static stn_status await_quiet(struct stni_thread_member *member, stn_status status)
{
    struct stni_thread_group *group = member->group;
    int64_t until = 0;
    for (int r = 0; r < group->size; r++) {
        struct stni_thread_slot *slot = &group->slots[r];
        if (r == member->rank || atomic_load(&slot->entered) < member->sequence)
            continue;
        enum stni_thread_wait wait = stni_thread_wait(member, r, &slot->left, member->sequence, 0, &until);
        if (member->queue)
            follow_quietly(member, r);
        if (wait == STNI_WAIT_LATE)
            status =
                stni_thread_fail_agreed(member, STN_ERR_PEER,
                                        "rank %d: %.300s; rank %d is still in its copy phase after a "
                                        "second deadline and may touch this rank's buffers",
                                        group->family->failed_rank, group->family->failed_text, group->world_ranks[r]);
    }
    return status;
}

static int differs(const struct stni_thread_mail *a, const struct stni_thread_mail *b)
{
    return a->kind != b->kind || a->dtype != b->dtype || a->op != b->op || a->root != b->root || a->count != b->count;
}

static void describe_mail(const struct stni_thread_mail *mail, char *text, size_t size)
{
    struct stni_coll coll = {.kind = (enum stni_coll_kind)mail->kind,
                             .dtype = (stn_dtype)mail->dtype,
                             .op = (stn_reduce_op)mail->op,
                             .root = mail->root,
                             .count = mail->count};
    stni_coll_describe(&coll, text, size);
}

/* Where some rank's data is on a device: all ranks' has to be. Every rank comes to the same verdict. */
static stn_status compare_memory(const struct stni_thread_view *view)
{
    const int *world = view->member->group->world_ranks,
              first = stni_thread_mail_of(view, 0)->large & STNI_THREAD_ON_DEVICE;
    for (int r = 1; r < view->size; r++)
        if ((stni_thread_mail_of(view, r)->large & STNI_THREAD_ON_DEVICE) != first)
            return stni_thread_fail_agreed(view->member, STN_ERR_MISMATCH,
                                           "%s: the data of rank %d is in the memory of %s, that of rank %d is not",
                                           stni_coll_name(view->coll->kind), world[r], first ? "the host" : "a device",
                                           world[0]);
    return STN_OK;
}

/* All ranks have arrived, so all see the same arguments and come to the same verdict. Also whether any of them is
 * large. */
static stn_status compare(const struct stni_thread_view *view, int *large)
{
    const struct stni_thread_mail *first = stni_thread_mail_of(view, 0);
    *large = first->large;
    for (int r = 1; r < view->size; r++) {
        const struct stni_thread_mail *mail = stni_thread_mail_of(view, r);
        *large |= mail->large;
        if (!differs(first, mail))
            continue;
        char wanted[96], got[96];
        describe_mail(first, wanted, sizeof wanted);
        describe_mail(mail, got, sizeof got);
        const int *world = view->member->group->world_ranks;
        return stni_thread_fail_agreed(view->member, STN_ERR_MISMATCH, "collective %lld: rank %d calls %s, rank %d %s",
                              (long long)view->sequence, world[r], got, world[0], wanted);
    }
    return STN_OK;
}

static stn_status follow_all(struct stni_thread_member *member)
{
    stn_status status = STN_OK;
    for (int r = 0; r < member->group->size && status == STN_OK; r++)
        if (r != member->rank)
            status = stni_thread_follow(member, r, STNI_POINT_DONE);
    return status == STN_OK ? STN_OK : stni_thread_fail_kept(member);
}

/* The copy phase of large data. A rank that finds that arguments do not fit aborts before it leaves, so that every
 * rank that sees it leave also sees the abort. */
static stn_status copy_in_place(const struct stni_thread_view *view)
{
    struct stni_thread_member *member = view->member;
    struct stni_thread_slot *slot = own_slot(member);
    enum stni_coll_kind kind = view->coll->kind;
    stn_status status = STN_OK;
    atomic_store(&slot->entered, view->sequence);
    int aborted = stni_thread_aborted(member);
    if (!aborted) {
        WILL_WRITE(&slot->left);
        stni_thread_hook_call(member, kind, STNI_PHASE_IN_COPY);
        status = member->queue ? stni_thread_copy_on_device(view) : stni_thread_copy(view, 1);
        if (status != STN_OK)
            status = stni_thread_fail_kept(member); /* the ranks' arguments do not fit, which this rank alone may see */
    }
    stni_thread_post(member, &slot->left, view->sequence);
    if (aborted)
        return stni_thread_fail_aborted(member);
    STNI_TRY(status);
    if (keeps_own(view->coll))
        stni_thread_copy_own(view, 1);
    stni_thread_hook_call(member, kind, STNI_PHASE_BEFORE_LEAVE);
    STNI_TRY(await_leaves(member, view->coll));
    if (member->queue)
        STNI_TRY(follow_all(member));
    return stni_thread_aborted(member) ? stni_thread_fail_aborted(member) : STN_OK;
}

static stn_status copy_from_mail(const struct stni_thread_view *view)
{
    enum stni_coll_kind kind = view->coll->kind;
    stni_thread_hook_call(view->member, kind, STNI_PHASE_IN_COPY);
    stn_status status = stni_thread_copy(view, 0);
    if (status != STN_OK)
        return stni_thread_fail_kept(view->member);
    stni_thread_hook_call(view->member, kind, STNI_PHASE_BEFORE_LEAVE);
    return STN_OK;
}

stn_status stni_thread_collective(struct stni_thread_member *member, const struct stni_coll *coll)
{
    stni_thread_hook_call(member, coll->kind, STNI_PHASE_BEFORE_ARRIVE);
    if (stni_thread_aborted(member))
        return stni_thread_fail_aborted(member);
    STNI_TRY(stni_thread_reserve(member, stni_thread_scratch(coll, member->group->size)));
    if (coll->kind == STNI_COLL_EXCHANGE)
        stni_thread_exchange_prepare(coll->messages, member->scratch);

    member->sequence++;
    member->until = 0;
    publish(member, coll);
    stni_thread_hook_call(member, coll->kind, STNI_PHASE_AFTER_ARRIVE);

    struct stni_thread_view view = {member, coll, member->rank, member->group->size, member->sequence};
    int large;
    if (keeps_own(coll))
        stni_thread_copy_own(&view, 0);
    member->agreement = coll->agreement ? coll : NULL;
    stn_status status = await_arrivals(member, coll);
    member->agreement = NULL;
    if (status == STN_OK)
        WILL_WRITE(&own_slot(member)->mail[(member->sequence + 1) & 1]);
    if (status == STN_OK)
        status = compare(&view, &large);
    if (status == STN_OK && large > STNI_THREAD_LARGE)
        status = compare_memory(&view);
    if (status == STN_OK)
        status = large ? copy_in_place(&view) : copy_from_mail(&view);
    return status == STN_OK ? STN_OK : await_quiet(member, status);
}
