/* Failures: a family keeps the first failure that a rank knows of, and sends it to all its ranks as small messages.
 * That a rank has left the family is sent in the same way. MPI_Abort is never called. */
#include "core/comm/mpi/family.h"

#include <stdio.h>
#include <string.h>

enum { TELLING = 100000000 /* nanoseconds */ };

/* 1 when the sends of all notices are complete. */
static int all_told(struct stni_mpi_family *family)
{
    int all = 1, done;
    for (int r = 0; r < family->size; r++) {
        done = 1;
        if (family->telling[r] != MPI_REQUEST_NULL &&
            MPI_Test(&family->telling[r], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            family->telling[r] = MPI_REQUEST_NULL; /* the notice cannot be sent to it */
        all &= done;
    }
    return all;
}

/* With the family's lock held, on a thread that may call MPI. The messages are short enough for MPI to take them at
 * once, but where it has to connect first: that gets a moment, as this process may end next. */
static void tell(struct stni_mpi_family *family)
{
    struct stni_mpi_backoff backoff = {0};
    family->told = 1;
    stni_mpi_lock();
    for (int r = 0; r < family->size; r++)
        if (r != family->rank && (r != family->failed.rank || family->failed.status != STN_ERR_PEER))
            MPI_Isend(&family->failed, (int)sizeof family->failed, MPI_BYTE, r, STNI_MPI_NOTICE_TAG, family->comm,
                      &family->telling[r]);
    while (!all_told(family))
        if (stni_mpi_wait_a_little(&backoff) && backoff.now - backoff.begin > TELLING)
            break;
    stni_mpi_unlock();
}

void stni_mpi_abort(struct stni_mpi_family *family, int rank, stn_status status, const char *text)
{
    stni_mpi_give_up();
    pthread_mutex_lock(&family->lock);
    if (!atomic_load(&family->aborted)) {
        family->failed.rank = rank;
        family->failed.status = (int32_t)status;
        snprintf(family->failed.text, sizeof family->failed.text, "%s", text);
        atomic_store(&family->aborted, 1);
        if (stni_mpi_thread_allowed())
            tell(family);
    }
    pthread_mutex_unlock(&family->lock);
}

/* A notice that has come, if it is for this family. */
static int take_notice(struct stni_mpi_family *family, struct stni_mpi_notice *notice)
{
    MPI_Message message;
    MPI_Status status;
    int there = 0;
    stni_mpi_lock();
    if (MPI_Improbe(MPI_ANY_SOURCE, STNI_MPI_NOTICE_TAG, family->comm, &there, &message, &status) != MPI_SUCCESS)
        there = 0;
    if (there)
        MPI_Mrecv(notice, (int)sizeof *notice, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    stni_mpi_unlock();
    return there && notice->family == family->id;
}

/* With the family's lock held. */
static void take_in(struct stni_mpi_family *family, const struct stni_mpi_notice *notice)
{
    if (notice->status == STN_OK) {
        atomic_store(&family->has_left[notice->rank], 1);
        atomic_fetch_add(&family->n_left, 1);
        return;
    }
    stni_mpi_give_up();
    if (atomic_load(&family->aborted))
        return;
    family->failed = *notice;
    family->told = 1; /* by the rank that found it */
    atomic_store(&family->aborted, 1);
}

void stni_mpi_poll_abort(struct stni_mpi_family *family)
{
    struct stni_mpi_notice notice;
    pthread_mutex_lock(&family->lock);
    while (!atomic_load(&family->aborted) && take_notice(family, &notice))
        take_in(family, &notice);
    if (atomic_load(&family->aborted) && !family->told)
        tell(family);
    pthread_mutex_unlock(&family->lock);
}

static stn_status set_error(struct stni_mpi_member *member, stn_status status, const char *format, ...)
    STN_PRINTF(3, 4);

static stn_status set_error(struct stni_mpi_member *member, stn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(member->error.text, sizeof member->error.text, format, args);
    va_end(args);
    return member->error.status = status;
}

stn_status stni_mpi_fail_aborted(struct stni_mpi_member *member)
{
    const struct stni_mpi_notice *failed = &member->family->failed;
    if (failed->rank == member->family->rank)
        return set_error(member, (stn_status)failed->status, "%s", failed->text);
    return set_error(member, STN_ERR_PEER, "rank %d: %s", failed->rank, failed->text);
}

stn_status stni_mpi_fail(struct stni_mpi_member *member, stn_status status, const char *format, ...)
{
    char text[STNI_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stni_mpi_abort(member->family, member->family->rank, status, text);
    return stni_mpi_fail_aborted(member);
}

/* A rank whose process has ended cannot report it: the abort is in its name. A rank that has left the family did not
 * fail: the abort is in this rank's name. */
stn_status stni_mpi_fail_gone(struct stni_mpi_member *member, int peer)
{
    char text[96];
    int rank = member->world[peer];
    if (atomic_load(&member->family->has_left[rank]))
        return stni_mpi_fail(member, STN_ERR_PEER, "%s: rank %d has destroyed its communicator",
                             stni_mpi_coll_name(member->kind), rank);
    snprintf(text, sizeof text, "its process %lld has ended", (long long)member->family->peers[rank].pid);
    stni_mpi_abort(member->family, rank, STN_ERR_PEER, text);
    return stni_mpi_fail_aborted(member);
}

static int is_open_with(const struct stni_mpi_member *member, int peer)
{
    int found = 0;
    for (int i = 0; i < member->n && !found; i++)
        found = (member->requests[i] != MPI_REQUEST_NULL || member->parts[i].unseen) && member->parts[i].peer == peer;
    return found;
}

/* "rank 1 had not arrived", "ranks 0, 2, … had not arrived": those that messages are still open with. */
stn_status stni_mpi_fail_late(struct stni_mpi_member *member)
{
    char list[256] = "";
    size_t at = 0;
    int n = 0;
    for (int r = 0; r < member->size; r++) {
        if (!is_open_with(member, r))
            continue;
        if (at + 32 > sizeof list) {
            snprintf(list + at, sizeof list - at, ", …");
            break;
        }
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", n ? ", " : "", member->world[r]);
        n++;
    }
    return stni_mpi_fail(member, STN_ERR_TIMEOUT, "%s: deadline of %g s passed, rank%s %s %s",
                         stni_mpi_coll_name(member->kind), member->deadline_seconds, n == 1 ? "" : "s", list,
                         member->kind == STNI_COLL_GROUP ? "have not sent or taken their messages" : "had not arrived");
}
