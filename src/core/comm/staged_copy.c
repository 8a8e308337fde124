/* Exchanges without a reduction, by pieces. All messages between two ranks in one direction are one stream of elements,
 * which is divided into pieces of half the staging memory. A piece has a key: the distance from sender to receiver
 * around the ring of ranks, then its number. Each rank passes its pieces, those it sends and those it receives, in the
 * order of keys, as many keys at once as fit.
 *
 * That cannot deadlock, however differently two ranks group their pieces: of all pieces not yet through, take one
 * with the least key. All that its two ranks have issued before has smaller keys, so it is through; hence both have
 * issued this one. (Keys must not be split: else every rank might wait in what it sends for what its neighbour has
 * not begun to receive.) */
#include "core/comm/launch.h"

#include "core/base/clamp.h"
#include "core/base/host_alloc.h"
#include "core/box/box.h"

#include <stdlib.h>

struct stream {
    int distance, receives, peer;
    int first, n; /* of the list of messages */
    int64_t elements;
    int direct; /* one dense message: its memory needs no staging */
};

struct piece {
    const struct stream *stream;
    int64_t from, to; /* elements of the stream */
    char *data;
    int order; /* of the key */
};

struct work {
    stn_comm *comm;
    stn_queue *queue;
    const stn_exchange *messages;
    size_t element_size;
    struct stream *streams;
    struct piece *pieces;
    stn_message *send, *recv;
    int n_streams, n_pieces;
    int64_t piece_elements, space; /* of the staging memory, elements */
    char *staging;
};

static const stn_message *list_of(const struct work *w, const struct stream *s)
{
    return (s->receives ? w->messages->recv : w->messages->send) + s->first;
}

static int is_dense(const stn_box *box)
{
    int64_t stride = 1;
    for (int d = box->ndim - 1; d >= 0; d--) {
        if (box->shape[d] > 1 && box->strides[d] != stride)
            return 0;
        stride *= box->shape[d];
    }
    return 1;
}

/* The streams of one list. */
static void find_streams(struct work *w, const stn_message *list, int n, int receives)
{
    int rank = w->comm->rank, size = w->comm->size;
    for (int i = 0, end; i < n; i = end) {
        struct stream s = {.receives = receives, .peer = list[i].peer, .first = i};
        for (end = i; end < n && list[end].peer == s.peer; end++)
            s.elements += stni_box_numel(&list[end].box);
        s.n = end - i;
        s.distance = ((receives ? rank - s.peer : s.peer - rank) + size) % size;
        s.direct = s.n == 1 && is_dense(&list[i].box);
        if (s.peer != rank && s.elements > 0)
            w->streams[w->n_streams++] = s;
    }
}

static int by_distance(const void *a, const void *b)
{
    const struct stream *x = a, *y = b;
    return x->distance != y->distance ? x->distance - y->distance : x->receives - y->receives;
}

static int by_peer(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->stream->peer != y->stream->peer ? x->stream->peer - y->stream->peer : x->order - y->order;
}

/* Packs or unpacks the part of each message that lies in the piece. */
static stn_status move_piece(const struct work *w, const struct piece *p, struct stni_box_list *list)
{
    const stn_message *messages = list_of(w, p->stream);
    int64_t begin = 0;
    for (int i = 0; i < p->stream->n; i++) {
        int64_t n = stni_box_numel(&messages[i].box), from = p->from - begin, to = p->to - begin;
        from = from > 0 ? from : 0;
        to = to < n ? to : n;
        begin += n;
        if (from >= to)
            continue;
        char *at = p->data + (begin - n + from - p->from) * (int64_t)w->element_size;
        if (p->stream->receives)
            STNI_TRY(stni_staged_unpack(list, &messages[i].box, at, from, to, w->element_size));
        else
            STNI_TRY(stni_staged_pack(list, at, &messages[i].box, from, to, w->element_size));
    }
    return STN_OK;
}

static stn_status move_pieces(const struct work *w, int receives)
{
    struct stni_box_list list;
    stni_staged_begin(&list, w->queue);
    for (int i = 0; i < w->n_pieces; i++)
        if (w->pieces[i].stream->receives == receives && !w->pieces[i].stream->direct)
            STNI_TRY(move_piece(w, &w->pieces[i], &list));
    return stni_box_list_launch(&list);
}

/* Passes the pieces that were gathered, as one group. */
static stn_status pass_pieces(struct work *w)
{
    stn_exchange group = {.dtype = w->messages->dtype, .send = w->send, .recv = w->recv};
    STNI_TRY(move_pieces(w, 0));
    qsort(w->pieces, (size_t)w->n_pieces, sizeof *w->pieces, by_peer);
    for (int i = 0; i < w->n_pieces; i++) {
        const struct piece *p = &w->pieces[i];
        stn_message m = {p->stream->peer, {p->data, 1, {p->to - p->from}, {1}}};
        if (p->stream->receives)
            w->recv[group.n_recv++] = m;
        else
            w->send[group.n_send++] = m;
    }
    const struct stni_coll coll = {.kind = STNI_COLL_GROUP, .dtype = group.dtype, .messages = &group};
    STNI_TRY(w->comm->run(w->comm, w->queue, &coll));
    STNI_TRY(move_pieces(w, 1));
    w->n_pieces = 0;
    w->space = 2 * w->piece_elements;
    return STN_OK;
}

/* How many elements of the stream the piece has; 0 behind its end. */
static int64_t piece_length(const struct work *w, const struct stream *s, int64_t number)
{
    return stni_clamp(s->elements - number * w->piece_elements, 0, w->piece_elements);
}

static void add_piece(struct work *w, const struct stream *s, int64_t number)
{
    int64_t n = piece_length(w, s, number), from = number * w->piece_elements;
    if (n == 0)
        return;
    char *data = w->staging + (2 * w->piece_elements - w->space) * (int64_t)w->element_size;
    if (s->direct)
        data = (char *)list_of(w, s)->box.data + from * (int64_t)w->element_size;
    w->pieces[w->n_pieces] = (struct piece){s, from, from + n, data, w->n_pieces};
    w->n_pieces++;
    w->space -= n;
}

/* The pieces with one key: at a distance this rank has at most two streams. */
static stn_status add_key(struct work *w, const struct stream *streams, int n, int64_t number)
{
    int64_t elements = piece_length(w, &streams[0], number) + (n > 1 ? piece_length(w, &streams[1], number) : 0);
    if (elements > w->space)
        STNI_TRY(pass_pieces(w));
    for (int i = 0; i < n; i++)
        add_piece(w, &streams[i], number);
    return STN_OK;
}

static stn_status pass_streams(struct work *w)
{
    for (int i = 0, n; i < w->n_streams; i += n) {
        const struct stream *s = &w->streams[i];
        n = i + 1 < w->n_streams && s[1].distance == s[0].distance ? 2 : 1;
        int64_t longest = n > 1 && s[1].elements > s[0].elements ? s[1].elements : s[0].elements;
        for (int64_t number = 0; number * w->piece_elements < longest; number++)
            STNI_TRY(add_key(w, s, n, number));
    }
    return w->n_pieces > 0 ? pass_pieces(w) : STN_OK;
}

/* Bytes of staging memory: what is staged, up to the limit. */
static size_t staging_needed(const struct work *w)
{
    size_t bytes = 0, limit = (size_t)(2 * w->piece_elements) * w->element_size;
    for (int i = 0; i < w->n_streams; i++)
        bytes += (size_t)w->streams[i].elements * w->element_size;
    return bytes < limit ? bytes : limit;
}

stn_status stni_staged_copy(stn_comm *comm, stn_queue *queue, const stn_exchange *messages)
{
    struct work w = {
        .comm = comm, .queue = queue, .messages = messages, .element_size = stn_dtype_size(messages->dtype)};
    /* A batch holds at most two whole pieces beside the last pieces of streams. */
    size_t n = (size_t)messages->n_send + (size_t)messages->n_recv;
    size_t bytes = n * sizeof *w.streams + (n + 2) * (sizeof *w.pieces + 2 * sizeof *w.send);
    char *memory = stni_malloc(bytes);
    if (!memory)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "exchange: out of memory: plan (%zu bytes)", bytes);
    w.send = (void *)memory;
    w.recv = w.send + n + 2;
    w.streams = (void *)(w.recv + n + 2);
    w.pieces = (void *)(w.streams + n);
    w.piece_elements = (int64_t)(comm->staging_limit / 2 / w.element_size);
    w.space = 2 * w.piece_elements;
    find_streams(&w, messages->send, messages->n_send, 0);
    find_streams(&w, messages->recv, messages->n_recv, 1);
    if (w.n_streams > 1)
        qsort(w.streams, (size_t)w.n_streams, sizeof *w.streams, by_distance);
    size_t needed = staging_needed(&w);
    w.staging = stni_staging(comm, queue, needed);
    stn_status status = needed > 0 && !w.staging ? STN_ERR_MEMORY : pass_streams(&w);
    stni_free(memory);
    return status;
}
