/* Failures of thread ranks: the first one is kept by the family and wakes everybody. What a rank leaves with is none
 * before somebody waits for it. */
#include "core/comm/threads/threads.h"

#include <stdarg.h>
#include <stdio.h>

/* In the name of a rank of the world, with the family's lock held. */
static void abort_locked(struct stni_thread_family *family, int rank, stn_status status, const char *text)
{
    if (atomic_load(&family->aborted))
        return;
    family->failed_rank = rank;
    family->failed_status = status;
    snprintf(family->failed_text, sizeof family->failed_text, "%s", text);
    atomic_store(&family->aborted, 1);
    for (struct stni_thread_group *g = family->groups; g; g = g->next)
        for (int r = 0; r < g->size; r++)
            stni_thread_ring(&g->slots[r]);
}

void stni_thread_abort(void *impl, stn_status status, const char *text)
{
    const struct stni_thread_member *member = impl;
    struct stni_thread_family *family = member->group->family;
    pthread_mutex_lock(&family->lock);
    abort_locked(family, member->group->world_ranks[member->rank], status, text);
    pthread_mutex_unlock(&family->lock);
}

void stni_thread_leave(void *impl, stn_status status, const char *text)
{
    const struct stni_thread_member *member = impl;
    struct stni_thread_family *family = member->group->family;
    struct stni_error *left_with = &family->ranks[member->group->world_ranks[member->rank]].left_with;
    pthread_mutex_lock(&family->lock);
    if (left_with->status == STN_OK)
        stni_error_set(left_with, status, "%s", text);
    pthread_mutex_unlock(&family->lock);
}

static stn_status set_error(struct stni_thread_member *member, stn_status status, const char *format, va_list args)
{
    member->error.status = status;
    vsnprintf(member->error.text, sizeof member->error.text, format, args);
    return status;
}

stn_status stni_thread_fail_agreed(struct stni_thread_member *member, stn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_error(member, status, format, args);
    va_end(args);
    return status;
}

stn_status stni_thread_fail_aborted(struct stni_thread_member *member)
{
    const struct stni_thread_family *family = member->group->family;
    if (family->failed_rank == member->group->world_ranks[member->rank])
        return stni_thread_fail_agreed(member, family->failed_status, "%s", family->failed_text);
    return stni_thread_fail_agreed(member, STN_ERR_PEER, "rank %d: %s", family->failed_rank, family->failed_text);
}

stn_status stni_thread_fail(struct stni_thread_member *member, stn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_error(member, status, format, args);
    va_end(args);
    stni_thread_abort(member, status, member->error.text);
    return stni_thread_fail_aborted(member);
}

stn_status stni_thread_fail_kept(struct stni_thread_member *member)
{
    struct stni_error why = member->error;
    return stni_thread_fail(member, why.status, "%s", why.text);
}

/* "rank 1", "ranks 1, 3", "ranks 0, 1, …": world ranks of the peers that are missing. */
static void list_missing(const struct stni_thread_member *member,
                         int (*missing)(const struct stni_thread_member *, int), char *text, size_t size)
{
    int n = 0;
    size_t at = 0;
    char list[256] = "";
    for (int r = 0; r < member->group->size; r++) {
        if (r == member->rank || !missing(member, r))
            continue;
        if (at + 32 > sizeof list) {
            snprintf(list + at, sizeof list - at, ", …");
            break;
        }
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", n ? ", " : "", member->group->world_ranks[r]);
        n++;
    }
    snprintf(text, size, "rank%s %s", n == 1 ? "" : "s", list);
}

/* A peer that has left with an error is who failed. One that has left without did not: this rank did. */
static stn_status fail_gone(struct stni_thread_member *member, int peer, const char *call)
{
    struct stni_thread_family *family = member->group->family;
    const int rank = member->group->world_ranks[peer];
    const struct stni_error *left_with = &family->ranks[rank].left_with;
    pthread_mutex_lock(&family->lock);
    const int has_failed = left_with->status != STN_OK;
    if (has_failed)
        abort_locked(family, rank, left_with->status, left_with->text);
    pthread_mutex_unlock(&family->lock);
    if (has_failed)
        return stni_thread_fail_aborted(member);
    return stni_thread_fail(member, STN_ERR_PEER, "%s: rank %d has destroyed its communicator", call, rank);
}

stn_status stni_thread_fail_wait(struct stni_thread_member *member, enum stni_thread_wait wait, int peer,
                                 const struct stni_coll *coll,
                                 int (*missing)(const struct stni_thread_member *, int peer), const char *what)
{
    if (wait == STNI_WAIT_ABORTED)
        return stni_thread_fail_aborted(member);
    if (wait == STNI_WAIT_CIRCLE)
        return stni_thread_fail_kept(member);
    char call[96], who[300];
    stni_coll_describe(coll, call, sizeof call);
    if (wait == STNI_WAIT_GONE)
        return fail_gone(member, peer, call);
    list_missing(member, missing, who, sizeof who);
    return stni_thread_fail(member, STN_ERR_TIMEOUT, "%s: deadline of %g s passed, %s %s", call,
                            member->deadline_seconds, who, what);
}
