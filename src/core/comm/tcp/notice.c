/* Notices: that a rank has failed, with its text, or that it leaves. Who fails tells all others, on connections that
 * carry nothing else. */
#include "core/comm/tcp/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Few and short: they always have room. */
static void tell(struct stni_tcp_family *family, const struct stni_tcp_notice *notice)
{
    for (int r = 0; r < family->size; r++)
        if (family->peers[r].lanes[STNI_TCP_NOTICES] >= 0)
            stni_tcp_put(family->peers[r].lanes[STNI_TCP_NOTICES], notice, sizeof *notice, stni_tcp_now());
}

static struct stni_tcp_notice failure_of(int rank, stn_status status, const char *text)
{
    struct stni_tcp_notice notice = {.rank = rank, .status = (int32_t)status};
    snprintf(notice.text, sizeof notice.text, "%s", text);
    return notice;
}

void stni_tcp_tell_failure(const int *lanes, int rank, int size, stn_status status, const char *text)
{
    const struct stni_tcp_notice notice = failure_of(rank, status, text);
    for (int r = 0; r < size; r++)
        if (lanes[STNI_TCP_LANES * r + STNI_TCP_NOTICES] >= 0)
            stni_tcp_put(lanes[STNI_TCP_LANES * r + STNI_TCP_NOTICES], &notice, sizeof notice, stni_tcp_now());
}

void stni_tcp_abort_locked(struct stni_tcp_family *family, int rank, stn_status status, const char *text)
{
    if (family->aborted)
        return;
    family->failed = failure_of(rank, status, text);
    family->aborted = 1;
    stni_tcp_drop(family);
    tell(family, &family->failed);
}

void stni_tcp_abort(struct stni_tcp_family *family, int rank, stn_status status, const char *text)
{
    stni_tcp_lock(family);
    stni_tcp_abort_locked(family, rank, status, text);
    stni_tcp_unlock(family);
}

/* Who leaves because of a failure passes it on: its leaving could be known before the failure is. */
void stni_tcp_say_leaving(struct stni_tcp_family *family)
{
    const struct stni_tcp_notice leaves = failure_of(family->rank, STN_OK, family->leaves_with);
    if (family->aborted)
        tell(family, &family->failed);
    tell(family, &leaves);
}

static void take_in(struct stni_tcp_family *family, int rank, const struct stni_tcp_notice *notice)
{
    if (notice->status == STN_OK) {
        family->peers[rank].has_left = 1;
        snprintf(family->peers[rank].why, sizeof notice->text, "%.*s", (int)sizeof notice->text - 1, notice->text);
    }
    if (notice->status == STNI_TCP_ASKS)
        stni_tcp_answer(family, rank);
    if (notice->status == STNI_TCP_WAITS)
        stni_tcp_take_answer(family, rank, notice);
    if (notice->status <= STN_OK)
        return;
    if (family->aborted || notice->rank < 0 || notice->rank >= family->size)
        return;
    family->failed = *notice;
    family->failed.text[sizeof family->failed.text - 1] = '\0';
    family->aborted = 1;
    stni_tcp_drop(family);
}

void stni_tcp_take_notices(struct stni_tcp_family *family, int rank)
{
    struct stni_tcp_peer *peer = &family->peers[rank];
    while (peer->lanes[STNI_TCP_NOTICES] >= 0) {
        ssize_t n = recv(peer->lanes[STNI_TCP_NOTICES], (char *)&peer->notice + peer->notice_done,
                         sizeof peer->notice - peer->notice_done, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            stni_tcp_close(&peer->lanes[STNI_TCP_NOTICES]);
            return;
        }
        peer->notice_done += (size_t)n;
        if (peer->notice_done < sizeof peer->notice)
            continue;
        peer->notice_done = 0;
        take_in(family, rank, &peer->notice);
    }
}
