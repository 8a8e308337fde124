/* Sends and receives: started together, waited for together. */
#include "core/comm/tcp/tcp.h"

#include "core/base/host_alloc.h"
#include "core/box/box.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const double answering = 0.5; /* seconds that ranks have to say whom they wait for */

void stni_tcp_lock(struct stni_tcp_family *family)
{
    atomic_fetch_add(&family->callers, 1);
    pthread_mutex_lock(&family->lock);
    atomic_fetch_sub(&family->callers, 1);
}

void stni_tcp_unlock(struct stni_tcp_family *family)
{
    pthread_mutex_unlock(&family->lock);
}

/* With the lock held. A thread that waits for the lock gets it: a mutex alone would be taken again before it wakes.
 * Then this one waits like any other, and is let in while the other's call lasts. */
static void let_in(struct stni_tcp_family *family)
{
    static const struct timespec moment = {.tv_nsec = 20000};
    pthread_mutex_unlock(&family->lock);
    while (atomic_load(&family->callers) > 0)
        nanosleep(&moment, NULL);
    stni_tcp_lock(family);
}

/* What the family's failure means here. With the lock held. */
static stn_status fail_aborted(struct stni_tcp_member *member)
{
    const struct stni_tcp_notice *failed = &member->family->failed;
    member->error = (struct stni_error){0};
    if (failed->rank == member->family->rank)
        return stni_error_set(&member->error, (stn_status)failed->status, "%s", failed->text);
    return stni_error_set(&member->error, STN_ERR_PEER, "rank %d: %s", failed->rank, failed->text);
}

static stn_status fail_locked(struct stni_tcp_member *member, stn_status status, const char *text)
{
    stni_tcp_abort_locked(member->family, member->family->rank, status, text);
    return fail_aborted(member);
}

stn_status stni_tcp_fail(struct stni_tcp_member *member, stn_status status, const char *format, ...)
{
    char text[STNI_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stni_tcp_lock(member->family);
    status = fail_locked(member, status, text);
    stni_tcp_unlock(member->family);
    return status;
}

static int is_open(const struct stni_tcp_transfer *transfer)
{
    return transfer->done < (int64_t)sizeof transfer->header + transfer->header.bytes;
}

/* A rank whose process has ended cannot report it, and one that has left with an error tells only who waits for it:
 * the failure is in its name. One that has left without did not fail: it is in this rank's. */
static stn_status fail_gone(struct stni_tcp_member *member, int peer)
{
    char text[96];
    const struct stni_tcp_peer *gone = &member->family->peers[peer];
    if (!gone->has_left || gone->why[0] != '\0') {
        stni_tcp_abort_locked(member->family, peer, STN_ERR_PEER,
                              gone->has_left ? gone->why : "its process or its connection has ended");
        return fail_aborted(member);
    }
    snprintf(text, sizeof text, "rank %d has destroyed its communicator", peer);
    return fail_locked(member, STN_ERR_PEER, text);
}

/* Of those that messages are still open with, all may wait for each other, as where their programs differ. */
static stn_status fail_late(struct stni_tcp_member *member, const struct stni_tcp_transfer *transfers, int n)
{
    struct stni_tcp_family *family = member->family;
    char text[STNI_ERROR_TEXT], list[256];
    int listed;
    for (int r = 0; r < family->size; r++)
        family->peers[r].is_awaited = 0;
    for (int i = 0; i < n; i++)
        family->peers[transfers[i].peer].is_awaited |= is_open(&transfers[i]);
    const int late = stni_tcp_list_late(family, list, sizeof list, &listed), one = listed == 1;
    snprintf(text, sizeof text, "%s: deadline of %g s passed, %srank%s %s%s", member->collective,
             member->deadline_seconds, late ? "" : "waiting for ", one ? "" : "s", list,
             late ? " had not arrived" : one ? ", which waits too" : ", which wait too");
    return fail_locked(member, STN_ERR_TIMEOUT, text);
}

/* Past the deadline. Other threads' answers are this one's, too. */
static void ask_awaited(struct stni_tcp_member *member, const struct stni_tcp_transfer *transfers, int n, int begins)
{
    if (begins)
        stni_tcp_begin_asking(member->family);
    for (int i = 0; i < n; i++)
        if (is_open(&transfers[i]))
            stni_tcp_ask(member->family, transfers[i].peer);
    stni_tcp_ask_named(member->family);
}

static int find_gone(const struct stni_tcp_family *family, const struct stni_tcp_transfer *transfers, int n)
{
    for (int i = 0; i < n; i++)
        if (is_open(&transfers[i]) && stni_tcp_is_gone(&family->peers[transfers[i].peer]))
            return transfers[i].peer;
    return -1;
}

/* With the lock held. */
static stn_status wait(struct stni_tcp_member *member, const struct stni_tcp_call *call,
                       const struct stni_tcp_transfer *transfers, int n)
{
    struct stni_tcp_family *family = member->family;
    const double began = stni_tcp_now();
    double asked = 0;
    for (double now = began; !family->aborted && call->open > 0; now = stni_tcp_now()) {
        int gone = find_gone(family, transfers, n);
        if (gone >= 0)
            return fail_gone(member, gone);
        if (member->deadline_seconds >= 0 && now - began > member->deadline_seconds) {
            ask_awaited(member, transfers, n, asked <= 0);
            asked = asked > 0 ? asked : now;
            if (now - asked > answering)
                return fail_late(member, transfers, n);
        }
        if (!stni_tcp_progress(family, now - began > family->spins))
            member->waited += (int64_t)((stni_tcp_now() - now) * 1e9);
        if (atomic_load(&family->callers) > 0)
            let_in(family);
    }
    return call->open > 0 ? fail_aborted(member) : STN_OK;
}

/* A call without messages waits for nobody; it fails where the family has, or one of its processes has ended. With
 * the lock held. */
static stn_status look_around(struct stni_tcp_member *member)
{
    const struct stni_tcp_family *family = member->family;
    stni_tcp_progress(member->family, 0);
    for (int r = 0; r < family->size && !family->aborted; r++)
        if (r != family->rank && stni_tcp_is_gone(&family->peers[r]) && !family->peers[r].has_left)
            return fail_gone(member, r);
    return family->aborted ? fail_aborted(member) : STN_OK;
}

stn_status stni_tcp_pass(struct stni_tcp_member *member, struct stni_tcp_transfer *transfers, int n_receives, int n)
{
    struct stni_tcp_family *family = member->family;
    struct stni_tcp_call call = {0};
    stni_tcp_lock(family);
    for (int i = 0; i < n && !family->aborted; i++) {
        transfers[i].call = &call;
        transfers[i].header.channel = member->channel;
        stni_tcp_start(family, &transfers[i], i < n_receives);
    }
    stn_status status = n == 0            ? look_around(member)
                        : family->aborted ? fail_aborted(member)
                                          : wait(member, &call, transfers, n);
    stni_tcp_unlock(family);
    return status;
}

static int64_t bytes_of(const stn_message *message, stn_dtype dtype)
{
    return stni_box_numel(&message->box) * (int64_t)stn_dtype_size(dtype);
}

/* Adds those that other ranks take part in. @return how many there are now. */
static int list_messages(const struct stni_tcp_member *member, const stn_message *messages, int n, stn_dtype dtype,
                         struct stni_tcp_transfer *out)
{
    int listed = 0;
    for (int i = 0; i < n; i++)
        if (messages[i].peer != member->rank)
            out[listed++] = (struct stni_tcp_transfer){.peer = member->world[messages[i].peer],
                                                       .header.bytes = bytes_of(&messages[i], dtype),
                                                       .data = messages[i].box.data};
    return listed;
}

static const stn_message *next_own(const struct stni_tcp_member *member, const stn_message *messages, int n, int *at)
{
    while (*at < n && messages[*at].peer != member->rank)
        ++*at;
    return *at < n ? &messages[(*at)++] : NULL;
}

/* What this rank sends to itself: the k-th send meets the k-th receive. */
static stn_status copy_own(struct stni_tcp_member *member, const stn_exchange *m)
{
    for (int s = 0, r = 0;;) {
        const stn_message *sent = next_own(member, m->send, m->n_send, &s),
                          *received = next_own(member, m->recv, m->n_recv, &r);
        if (!sent && !received)
            return STN_OK;
        if (!sent || !received || bytes_of(sent, m->dtype) != bytes_of(received, m->dtype))
            return stni_tcp_fail(member, STN_ERR_MISMATCH,
                                 "group: what rank %d sends itself is not what it receives from itself",
                                 member->family->rank);
        if (bytes_of(sent, m->dtype) > 0)
            memmove(received->box.data, sent->box.data, (size_t)bytes_of(sent, m->dtype));
    }
}

stn_status stni_tcp_group(struct stni_tcp_member *member, const stn_exchange *m)
{
    struct stni_tcp_transfer *transfers = stni_malloc((size_t)(m->n_send + m->n_recv + 1) * sizeof *transfers);
    if (!transfers)
        return stni_tcp_fail(member, STN_ERR_MEMORY, "out of memory: %d messages", m->n_send + m->n_recv);
    const int receives = list_messages(member, m->recv, m->n_recv, m->dtype, transfers);
    const int all = receives + list_messages(member, m->send, m->n_send, m->dtype, transfers + receives);
    stn_status status = copy_own(member, m);
    if (status == STN_OK)
        status = stni_tcp_pass(member, transfers, receives, all);
    stni_free(transfers);
    return status;
}
