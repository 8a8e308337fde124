/* Messages on their way: what is sent, what comes, and what it is matched with. */
#include "core/comm/tcp/tcp.h"

#include "core/base/host_alloc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

static void append(struct stni_tcp_queue *queue, struct stni_tcp_transfer *transfer)
{
    transfer->next = NULL;
    if (!queue->first)
        queue->last = &queue->first;
    *queue->last = transfer;
    queue->last = &transfer->next;
}

/* Takes the first of this channel out of the queue; NULL: there is none. */
static struct stni_tcp_transfer *take(struct stni_tcp_queue *queue, uint64_t channel)
{
    for (struct stni_tcp_transfer **at = &queue->first; *at; at = &(*at)->next) {
        struct stni_tcp_transfer *found = *at;
        if (found->header.channel != channel)
            continue;
        *at = found->next;
        if (!found->next)
            queue->last = at;
        return found;
    }
    return NULL;
}

static int64_t whole(const struct stni_tcp_transfer *transfer)
{
    return (int64_t)sizeof transfer->header + transfer->header.bytes;
}

static void refuse_length(struct stni_tcp_family *family, int peer, int64_t got, int64_t wanted)
{
    char text[128];
    snprintf(text, sizeof text, "a message from rank %d has %lld bytes, wanted %lld", peer, (long long)got,
             (long long)wanted);
    stni_tcp_abort_locked(family, family->rank, STN_ERR_MISMATCH, text);
}

static void finish(struct stni_tcp_transfer *transfer)
{
    transfer->done = whole(transfer);
    transfer->call->open--;
}

/* A message that came before it was asked for. */
static void hand_over(struct stni_tcp_family *family, struct stni_tcp_transfer *kept, struct stni_tcp_transfer *wanted)
{
    if (kept->header.bytes != wanted->header.bytes) {
        refuse_length(family, wanted->peer, kept->header.bytes, wanted->header.bytes);
    } else {
        if (kept->header.bytes > 0)
            memcpy(wanted->data, kept->data, (size_t)kept->header.bytes);
        finish(wanted);
    }
    stni_free(kept);
}

static struct stni_tcp_transfer *keep(const struct stni_tcp_header *header, int peer)
{
    struct stni_tcp_transfer *made = stni_malloc(sizeof *made + (size_t)header->bytes);
    if (made)
        *made = (struct stni_tcp_transfer){.peer = peer, .header = *header, .data = (char *)(made + 1)};
    return made;
}

/* The header is complete: where its message goes. */
static void begin_message(struct stni_tcp_family *family, int rank)
{
    struct stni_tcp_peer *peer = &family->peers[rank];
    struct stni_tcp_transfer *to = take(&peer->wanted, peer->header.channel);
    if (to && to->header.bytes != peer->header.bytes) {
        refuse_length(family, rank, peer->header.bytes, to->header.bytes);
        return;
    }
    if (!to)
        to = keep(&peer->header, rank);
    if (!to) {
        stni_tcp_abort_locked(family, family->rank, STN_ERR_MEMORY,
                              "out of memory: a message that came before it was asked for");
        return;
    }
    to->done = sizeof to->header;
    peer->coming = to;
}

static void end_message(struct stni_tcp_family *family, struct stni_tcp_peer *peer)
{
    struct stni_tcp_transfer *came = peer->coming;
    peer->coming = NULL;
    peer->header_done = 0;
    if (came->call) {
        finish(came);
        return;
    }
    struct stni_tcp_transfer *wanted = take(&peer->wanted, came->header.channel);
    if (wanted)
        hand_over(family, came, wanted);
    else
        append(&peer->kept, came);
}

/* The next bytes of what comes. @return as recv does. */
static ssize_t receive_some(struct stni_tcp_peer *peer)
{
    const int from = peer->lanes[STNI_TCP_MESSAGES];
    struct stni_tcp_transfer *to = peer->coming;
    ssize_t n;
    if (!to) {
        n = recv(from, (char *)&peer->header + peer->header_done, sizeof peer->header - peer->header_done, 0);
        peer->header_done += n > 0 ? (size_t)n : 0;
    } else {
        n = recv(from, to->data + (to->done - (int64_t)sizeof to->header), (size_t)(whole(to) - to->done), 0);
        to->done += n > 0 ? n : 0;
    }
    return n;
}

/* A connection that has ended says nothing more; a notice that came before it is read first. */
static void end(struct stni_tcp_family *family, int rank)
{
    stni_tcp_take_notices(family, rank);
    stni_tcp_close(&family->peers[rank].lanes[STNI_TCP_MESSAGES]);
}

static void receive(struct stni_tcp_family *family, int rank)
{
    struct stni_tcp_peer *peer = &family->peers[rank];
    while (!family->aborted && !stni_tcp_is_gone(peer)) {
        ssize_t n = receive_some(peer);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
            end(family, rank);
        if (n <= 0)
            return;
        if (!peer->coming && peer->header_done == sizeof peer->header)
            begin_message(family, rank);
        if (peer->coming && peer->coming->done == whole(peer->coming))
            end_message(family, peer);
    }
}

/* What is left of header and data, as one call. */
static ssize_t send_some(const struct stni_tcp_peer *peer, struct stni_tcp_transfer *from)
{
    const int64_t head = (int64_t)sizeof from->header, body_done = from->done > head ? from->done - head : 0;
    struct iovec parts[2];
    size_t n_parts = 0;
    if (from->done < head)
        parts[n_parts++] = (struct iovec){(char *)&from->header + from->done, (size_t)(head - from->done)};
    if (from->header.bytes > body_done)
        parts[n_parts++] = (struct iovec){from->data + body_done, (size_t)(from->header.bytes - body_done)};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = n_parts};
    ssize_t n = sendmsg(peer->lanes[STNI_TCP_MESSAGES], &message, MSG_NOSIGNAL);
    from->done += n > 0 ? n : 0;
    return n;
}

static void send_on(struct stni_tcp_family *family, int rank)
{
    struct stni_tcp_peer *peer = &family->peers[rank];
    while (peer->sending.first && !stni_tcp_is_gone(peer)) {
        struct stni_tcp_transfer *from = peer->sending.first;
        ssize_t n = send_some(peer, from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            end(family, rank);
        if (n < 0)
            return;
        if (from->done == whole(from)) {
            peer->sending.first = from->next;
            finish(from);
        }
    }
}

void stni_tcp_start(struct stni_tcp_family *family, struct stni_tcp_transfer *transfer, int receives)
{
    struct stni_tcp_peer *peer = &family->peers[transfer->peer];
    transfer->done = 0;
    transfer->call->open++;
    struct stni_tcp_transfer *kept = receives ? take(&peer->kept, transfer->header.channel) : NULL;
    if (kept)
        hand_over(family, kept, transfer);
    else
        append(receives ? &peer->wanted : &peer->sending, transfer);
    if (!receives && peer->sending.first == transfer)
        send_on(family, transfer->peer);
}

/* poll passes over descriptors below 0. */
static void list_polled(struct stni_tcp_family *family)
{
    for (int r = 0; r < family->size; r++) {
        const struct stni_tcp_peer *peer = &family->peers[r];
        struct pollfd *polled = &family->polled[STNI_TCP_LANES * r];
        polled[STNI_TCP_MESSAGES] =
            (struct pollfd){peer->lanes[STNI_TCP_MESSAGES], (short)(POLLIN | (peer->sending.first ? POLLOUT : 0)), 0};
        polled[STNI_TCP_NOTICES] = (struct pollfd){peer->lanes[STNI_TCP_NOTICES], POLLIN, 0};
    }
}

/* Messages first: those that a rank had sent before it failed are not lost. */
int stni_tcp_progress(struct stni_tcp_family *family, int milliseconds)
{
    list_polled(family);
    if (poll(family->polled, (nfds_t)(STNI_TCP_LANES * family->size), milliseconds) <= 0)
        return 0;
    for (int r = 0; r < family->size; r++) {
        const short messages = family->polled[STNI_TCP_LANES * r + STNI_TCP_MESSAGES].revents;
        if (messages & ~POLLOUT)
            receive(family, r);
        if ((messages & POLLOUT) && !family->aborted)
            send_on(family, r);
    }
    for (int r = 0; r < family->size; r++)
        if (family->polled[STNI_TCP_LANES * r + STNI_TCP_NOTICES].revents)
            stni_tcp_take_notices(family, r);
    return 1;
}

static void drop_kept(struct stni_tcp_queue *queue)
{
    while (queue->first) {
        struct stni_tcp_transfer *next = queue->first->next;
        stni_free(queue->first);
        queue->first = next;
    }
}

void stni_tcp_drop(struct stni_tcp_family *family)
{
    for (int r = 0; r < family->size; r++) {
        struct stni_tcp_peer *peer = &family->peers[r];
        peer->sending.first = peer->wanted.first = NULL;
        drop_kept(&peer->kept);
        if (peer->coming && !peer->coming->call)
            stni_free(peer->coming);
        peer->coming = NULL;
    }
}
