/* Messages between ranks: begun without blocking, completed by polling. */
#include "core/comm/mpi/family.h"

#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 8,       /* requests that are looked at in one poll */
    SMALL = 3072,     /* bytes that every transport of MPI carries along with the envelope */
    EAGER = 1024,     /* bytes in progress from which on an abort is looked for when all is through: MPI reads larger ones in place */
    GRACE = 200000000, /* nanoseconds in which what is being sent may still end after a failure */
    LARGE = 1 << 16,  /* bytes in progress that MPI may move piece by piece, each in a poll */
    LARGE_SLEEP_AFTER = 200000000 /* nanoseconds */
};

/* One block: parts, then requests. */
static int grow(struct stni_mpi_member *m, int64_t capacity)
{
    size_t n = (size_t)capacity;
    struct stni_mpi_part *parts = malloc(n * (sizeof *m->requests + sizeof *m->parts));
    if (!parts)
        return 0;
    MPI_Request *requests = (void *)(parts + n);
    if (m->n > 0) {
        memcpy(requests, m->requests, (size_t)m->n * sizeof *requests);
        memcpy(parts, m->parts, (size_t)m->n * sizeof *parts);
    }
    free(m->parts);
    m->requests = requests;
    m->parts = parts;
    m->capacity = (int)capacity;
    return 1;
}

stn_status stni_mpi_reserve(struct stni_mpi_member *m, int64_t n, int64_t bytes)
{
    int64_t wanted = m->n + n + bytes / STNI_MPI_MESSAGE;
    if (wanted > m->capacity && (wanted > INT32_MAX / 2 || !grow(m, wanted + wanted / 2 + 16)))
        return stni_mpi_fail(m, STN_ERR_MEMORY, "out of memory: %lld messages", (long long)wanted);
    return STN_OK;
}

static stn_status fail_mpi(struct stni_mpi_member *m, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    return stni_mpi_fail(m, STN_ERR_COMM, "%s: %s: %.200s", stni_mpi_coll_name(m->kind), what, text);
}

static int tag_of(const struct stni_mpi_member *m, int large)
{
    return 1 + STNI_MPI_TAGS * m->number + 2 * large + (m->kind == STNI_COLL_GROUP);
}

static int is_large(const struct stni_mpi_part *part)
{
    return part->bytes > SMALL;
}

/* A large message is received later. */
static int begin_part(struct stni_mpi_member *m, struct stni_mpi_part *part, MPI_Request *request)
{
    int rank = m->world[part->peer], tag = tag_of(m, is_large(part)), code = MPI_SUCCESS;
    if (part->receives && is_large(part)) {
        *request = MPI_REQUEST_NULL;
        part->unseen = 1;
        part->earlier = m->last[part->peer];
        m->last[part->peer] = m->n;
        return code;
    }
    stni_mpi_lock();
    code = part->receives ? MPI_Irecv(part->data, part->bytes, MPI_BYTE, rank, tag, m->family->comm, request)
                          : MPI_Isend(part->data, part->bytes, MPI_BYTE, rank, tag, m->family->comm, request);
    stni_mpi_unlock();
    return code;
}

static stn_status begin(struct stni_mpi_member *m, int peer, void *data, int64_t bytes, int receives)
{
    for (int64_t at = 0; at < bytes || at == 0; at += STNI_MPI_MESSAGE) {
        int n = (int)(bytes - at < STNI_MPI_MESSAGE ? bytes - at : STNI_MPI_MESSAGE);
        m->parts[m->n] = (struct stni_mpi_part){data ? (char *)data + at : NULL, peer, receives, n, 0, -1};
        int code = begin_part(m, &m->parts[m->n], &m->requests[m->n]);
        if (code != MPI_SUCCESS)
            return fail_mpi(m, receives ? "MPI_Irecv" : "MPI_Isend", code);
        m->n++;
        m->open++;
        m->bytes += n;
    }
    return STN_OK;
}

stn_status stni_mpi_send(struct stni_mpi_member *m, int peer, const void *data, int64_t bytes)
{
    return begin(m, peer, (void *)(uintptr_t)data, bytes, 0);
}

stn_status stni_mpi_receive(struct stni_mpi_member *m, int peer, void *data, int64_t bytes)
{
    return begin(m, peer, data, bytes, 1);
}

static stn_status mismatch(struct stni_mpi_member *m, const struct stni_mpi_part *part, const char *got, int n)
{
    return stni_mpi_fail(m, STN_ERR_MISMATCH, "%s: a message from rank %d to rank %d has %s%d bytes, wanted %d",
                         stni_mpi_coll_name(m->kind), m->world[part->peer], m->world[m->rank], got, n, part->bytes);
}

/* Of a message that has come: whether it is the one that was waited for. */
static stn_status check(struct stni_mpi_member *m, const struct stni_mpi_part *part, const MPI_Status *status)
{
    int n = 0;
    if (!part->receives)
        return STN_OK;
    MPI_Get_count(status, MPI_BYTE, &n);
    return n == part->bytes ? STN_OK : mismatch(m, part, "", n);
}

/* One request. A call for each: an error in one of several would go to the error handler of MPI_COMM_WORLD, which is
 * the caller's. */
static stn_status test(struct stni_mpi_member *m, int i, int *done)
{
    MPI_Status status;
    int class = MPI_SUCCESS;
    stni_mpi_lock();
    int code = MPI_Test(&m->requests[i], done, &status);
    stni_mpi_unlock();
    if (code == MPI_SUCCESS && !*done)
        return STN_OK;
    m->open--;
    m->requests[i] = MPI_REQUEST_NULL;
    m->receiving -= m->parts[i].receives && is_large(&m->parts[i]);
    if (code == MPI_SUCCESS)
        return check(m, &m->parts[i], &status);
    MPI_Error_class(code, &class);
    return class == MPI_ERR_TRUNCATE ? mismatch(m, &m->parts[i], "more than ", m->parts[i].bytes)
                                     : fail_mpi(m, "a message", code);
}

static int is_open(const struct stni_mpi_member *m, int i)
{
    return m->requests[i] != MPI_REQUEST_NULL || m->parts[i].unseen;
}

static stn_status probe_failed(struct stni_mpi_member *m, int code)
{
    return fail_mpi(m, "a probe", code);
}

/* Begins to receive a large message that has come. One of another length is left where it is. */
static stn_status see(struct stni_mpi_member *m, int i, int *seen)
{
    struct stni_mpi_part *part = &m->parts[i];
    MPI_Message message;
    MPI_Status status;
    int n = 0;
    if (part->earlier >= 0 && m->parts[part->earlier].unseen)
        return STN_OK;
    stni_mpi_lock();
    int code = MPI_Improbe(m->world[part->peer], tag_of(m, 1), m->family->comm, seen, &message, &status);
    if (code == MPI_SUCCESS && *seen)
        MPI_Get_count(&status, MPI_BYTE, &n);
    if (code == MPI_SUCCESS && *seen && n == part->bytes)
        code = MPI_Imrecv(part->data, n, MPI_BYTE, &message, &m->requests[i]);
    stni_mpi_unlock();
    if (code != MPI_SUCCESS)
        return probe_failed(m, code);
    if (!*seen)
        return STN_OK;
    part->unseen = 0;
    if (n == part->bytes) {
        m->receiving++;
        return STN_OK;
    }
    m->open--;
    return mismatch(m, part, "", n);
}

/* A rank waits for peers while nothing has come and what it sent is not taken. That ends where a poll begins that
 * moves something, as this copies, and does not begin again before what has come is here. */
static void count_waiting(struct stni_mpi_member *m, int moved, int64_t before_poll)
{
    const int waits = !moved && m->receiving == 0;
    if (waits == (m->waits_since != 0))
        return;
    if (m->waits_since)
        m->waited += before_poll - m->waits_since;
    m->waits_since = waits ? before_poll : 0;
}

/* Completes what can be of the first `most` open messages: all must end, so those behind them can wait. *moved tells
 * whether anything was. */
static stn_status poll(struct stni_mpi_member *m, int most, int *moved)
{
    stn_status status = STN_OK;
    const int64_t before = stni_mpi_now();
    *moved = 0;
    while (m->first < m->n && !is_open(m, m->first))
        m->first++;
    for (int i = m->first, tested = 0; i < m->n && tested < most && status == STN_OK; i++) {
        int done = 0, seen = 0;
        if (!is_open(m, i))
            continue;
        if (m->parts[i].unseen)
            status = see(m, i, &seen);
        if (status == STN_OK && !m->parts[i].unseen)
            status = test(m, i, &done);
        *moved |= done | seen;
        tested++;
    }
    count_waiting(m, *moved, before);
    return status;
}

/* Whether all large messages that are wanted from `peer` have come. */
static int has_seen_all(const struct stni_mpi_member *m, int peer)
{
    return m->last[peer] < 0 || !m->parts[m->last[peer]].unseen;
}

/* A message that is expected as a small one and was sent as a large one, or the other way round, has another tag and
 * would never be received. Between two ranks messages are matched in the order in which they were sent: where one
 * has come that nobody expects, all before it have come. */
static stn_status look_at_lengths(struct stni_mpi_member *m)
{
    for (int i = m->first, looked = 0; i < m->n && looked < WINDOW; i++) {
        const struct stni_mpi_part *part = &m->parts[i];
        MPI_Status status;
        int there = 0, moved, n;
        if (!part->receives || !is_open(m, i) || (is_large(part) && !part->unseen) ||
            (!is_large(part) && !has_seen_all(m, part->peer)))
            continue;
        stni_mpi_lock();
        int code = MPI_Iprobe(m->world[part->peer], tag_of(m, !is_large(part)), m->family->comm, &there, &status);
        if (code == MPI_SUCCESS && there)
            MPI_Get_count(&status, MPI_BYTE, &n);
        stni_mpi_unlock();
        if (code != MPI_SUCCESS)
            return probe_failed(m, code);
        if (there)
            STNI_TRY(poll(m, m->n, &moved));
        if (there && (is_large(part) ? part->unseen : is_open(m, i)))
            return mismatch(m, part, "", n);
        looked++;
    }
    return STN_OK;
}

/* The peer of an open message that has left the family, or whose process has ended; -1 if all are there. */
static int find_gone(const struct stni_mpi_member *m)
{
    const struct stni_mpi_family *family = m->family;
    int seen = -1;
    for (int i = 0; i < m->n; i++) {
        int peer = m->parts[i].peer;
        if (!is_open(m, i) || peer == seen)
            continue;
        seen = peer;
        if (atomic_load(&family->has_left[m->world[peer]]) ||
            !stni_mpi_may_live(&family->peers[m->world[peer]], &family->peers[family->rank]))
            return peer;
    }
    return -1;
}

struct wait {
    struct stni_mpi_backoff backoff;
    int64_t looked; /* at the processes of peers */
    int gone;       /* a peer that was found gone the last time; -1: none */
};

/* A message of a rank that is gone may still be on its way: it is given up when nothing has come since the last
 * look. */
static stn_status look_at_peers(struct stni_mpi_member *m, struct wait *wait)
{
    int gone = -1, moved;
    if (wait->backoff.now - wait->looked < STNI_MPI_PEERS_EVERY)
        return STN_OK;
    STNI_TRY(poll(m, m->n, &moved));
    if (wait->looked)
        gone = find_gone(m);
    wait->looked = wait->backoff.now;
    if (gone >= 0 && gone == wait->gone)
        return stni_mpi_fail_gone(m, gone);
    wait->gone = gone;
    return STN_OK;
}

static stn_status look(struct stni_mpi_member *m, struct wait *wait)
{
    int moved;
    stni_mpi_poll_abort(m->family);
    if (atomic_load(&m->family->aborted))
        return stni_mpi_fail_aborted(m);
    STNI_TRY(poll(m, m->n, &moved));
    STNI_TRY(look_at_lengths(m));
    if (m->deadline_seconds < 0 || (double)(wait->backoff.now - wait->backoff.begin) <= m->deadline_seconds * 1e9)
        return look_at_peers(m, wait);
    return m->open > 0 ? stni_mpi_fail_late(m) : STN_OK;
}

/* Whether a message that MPI has begun to receive may still be written: its sender lives, and the deadline has not
 * passed a second time. */
static int may_be_written(struct stni_mpi_member *m, struct wait *wait)
{
    if (m->deadline_seconds >= 0 && (double)(wait->backoff.now - wait->backoff.begin) > m->deadline_seconds * 1e9)
        return 0;
    if (wait->backoff.now - wait->looked >= STNI_MPI_PEERS_EVERY) {
        wait->looked = wait->backoff.now;
        wait->gone = 1;
        for (int i = 0; i < m->n && wait->gone; i++)
            if (m->parts[i].receives && m->requests[i] != MPI_REQUEST_NULL)
                wait->gone = !stni_mpi_may_live(&m->family->peers[m->world[m->parts[i].peer]],
                                                &m->family->peers[m->family->rank]);
    }
    return !wait->gone;
}

/* The number of messages that are still being received. */
static int end_what_can(struct stni_mpi_member *m)
{
    int receiving = 0;
    for (int i = 0; i < m->n; i++) {
        int done = 0;
        if (m->requests[i] == MPI_REQUEST_NULL)
            continue;
        stni_mpi_lock();
        int code = MPI_Test(&m->requests[i], &done, MPI_STATUS_IGNORE);
        stni_mpi_unlock();
        if (done || code != MPI_SUCCESS) {
            m->open--;
            m->requests[i] = MPI_REQUEST_NULL;
        } else {
            receiving += m->parts[i].receives;
        }
    }
    return receiving;
}

/* Cancels the receives that can be cancelled. A message that is being received ends before the caller has its buffer
 * again; one that is being sent may end within the grace, and is left to MPI after it: its receiver knows of the
 * failure. */
static void withdraw(struct stni_mpi_member *m)
{
    struct wait wait = {.gone = 0};
    stni_mpi_lock();
    for (int i = 0; i < m->n; i++) {
        struct stni_mpi_part *part = &m->parts[i];
        m->open -= part->unseen;
        part->unseen = 0;
        if (part->receives && !is_large(part) && m->requests[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&m->requests[i]);
    }
    stni_mpi_unlock();
    while (m->open > 0) {
        int receiving = end_what_can(m);
        if (m->open > 0 && stni_mpi_wait_a_little(&wait.backoff) && wait.backoff.now - wait.backoff.begin > GRACE &&
            !(receiving && may_be_written(m, &wait)))
            return;
    }
}

/* An aborted rank does not wait for its large messages to be read, so one that was read in the meantime may not be
 * what it was. */
static stn_status look_once(struct stni_mpi_member *m)
{
    if (m->bytes < EAGER)
        return STN_OK;
    stni_mpi_poll_abort(m->family);
    return atomic_load(&m->family->aborted) ? stni_mpi_fail_aborted(m) : STN_OK;
}

stn_status stni_mpi_complete(struct stni_mpi_member *m)
{
    struct wait wait = {.gone = -1,
                        .backoff.sleep_after = m->bytes >= LARGE ? LARGE_SLEEP_AFTER : STNI_MPI_SLEEP_AFTER};
    stn_status status = STN_OK;
    while (m->open > 0 && status == STN_OK) {
        int moved = 0;
        status = poll(m, WINDOW, &moved);
        if (moved)
            wait.backoff.polls = 0;
        else if (status == STN_OK && stni_mpi_wait_a_little(&wait.backoff))
            status = look(m, &wait);
    }
    count_waiting(m, 1, stni_mpi_now());
    if (status == STN_OK)
        status = look_once(m);
    else
        withdraw(m);
    for (int i = 0; i < m->n; i++)
        m->last[m->parts[i].peer] = -1;
    m->n = m->open = m->first = m->receiving = 0;
    m->bytes = 0;
    return status;
}
