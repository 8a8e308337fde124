/* Exchanges with a reduction, by pieces: a piece of every message at a time, so that everything that is combined
 * into an element is at hand and is combined in the order of ranks. The ranks agree on the size of pieces by the
 * rank with the most messages: sender and receiver of a message divide it alike. */
#include "core/comm/recv_groups.h"
#include "core/comm/launch.h"

#include "core/box/box.h"
#include "core/box/box_range.h"
#include "core/base/clamp.h"
#include "core/base/host_alloc.h"

struct round {
    stn_comm *comm;
    stn_queue *queue;
    const stn_exchange *messages;
    size_t element_size;
    int64_t piece;  /* elements */
    int64_t from;   /* elements of each message that are through */
    char *sent, *received; /* a piece per message */
    struct stni_recv_group *recv_groups;
    stn_box *addends;
    stn_message *send, *recv;
};

/* How many elements of a box this round moves. */
static int64_t count_in(const struct round *r, const stn_box *box)
{
    return stni_clamp(stni_box_numel(box) - r->from, 0, r->piece);
}

static char *place(const struct round *r, char *pieces, int i)
{
    return pieces + i * r->piece * (int64_t)r->element_size;
}

static stn_message message_of(const struct round *r, const stn_message *from, char *data)
{
    return (stn_message){from->peer, {data, 1, {count_in(r, &from->box)}, {1}}};
}

/* What goes to this rank itself is packed where it would be received. */
static stn_status pack_all(const struct round *r, stn_exchange *group)
{
    const stn_exchange *m = r->messages;
    int rank = r->comm->rank, own = 0;
    struct stni_box_list list;
    stni_staged_begin(&list, r->queue);
    for (int i = 0; i < m->n_recv; i++)
        if (m->recv[i].peer != rank && count_in(r, &m->recv[i].box) > 0)
            r->recv[group->n_recv++] = message_of(r, &m->recv[i], place(r, r->received, i));
    while (own < m->n_recv && m->recv[own].peer != rank)
        own++;
    for (int i = 0; i < m->n_send; i++) {
        int64_t n = count_in(r, &m->send[i].box);
        int to_self = m->send[i].peer == rank;
        char *data = to_self ? place(r, r->received, own++) : place(r, r->sent, i);
        STNI_TRY(stni_staged_pack(&list, data, &m->send[i].box, r->from, r->from + n, r->element_size));
        if (!to_self && n > 0)
            r->send[group->n_send++] = message_of(r, &m->send[i], data);
    }
    return stni_box_list_launch(&list);
}

struct combination {
    const struct round *round;
    const struct stni_recv_group *recv_groups;
    int n;
    stn_status status;
};

/* Combines into `part` of the box the elements that begin at element `at` of the pieces. */
static void combine_part(void *arg, const stn_box *part, int64_t at)
{
    struct combination *c = arg;
    const struct round *r = c->round;
    stn_box dense = *part;
    stni_box_make_dense(&dense);
    for (int k = 0; k < c->n; k++) {
        r->addends[k] = dense;
        r->addends[k].data = place(r, r->received, c->recv_groups[k].index) + at * (int64_t)r->element_size;
    }
    if (c->status == STN_OK)
        c->status = stni_staged_combine(r->comm, r->queue, part, c->n, r->addends, r->messages->dtype, r->messages->op);
}

static stn_status combine_all(const struct round *r)
{
    const stn_exchange *m = r->messages;
    for (int i = 0, n; i < m->n_recv; i += n) {
        const stn_box *box = &m->recv[r->recv_groups[i].index].box;
        n = stni_recv_groups_run(r->recv_groups, i, m->n_recv);
        struct combination c = {r, r->recv_groups + i, n, STN_OK};
        stni_box_range(box, r->element_size, r->from, r->from + count_in(r, box), combine_part, &c);
        STNI_TRY(c.status);
    }
    return STN_OK;
}

static int64_t longest_message(const stn_exchange *m)
{
    int64_t longest = 0;
    for (int i = 0; i < m->n_send + m->n_recv; i++) {
        int64_t n = stni_box_numel(i < m->n_send ? &m->send[i].box : &m->recv[i - m->n_send].box);
        longest = n > longest ? n : longest;
    }
    return longest;
}

static stn_status run_rounds(struct round *r)
{
    int64_t longest = longest_message(r->messages);
    for (; r->from < longest; r->from += r->piece) {
        stn_exchange group = {.dtype = r->messages->dtype, .send = r->send, .recv = r->recv};
        STNI_TRY(pack_all(r, &group));
        const struct stni_coll coll = {.kind = STNI_COLL_GROUP, .dtype = group.dtype, .messages = &group};
        STNI_TRY(r->comm->run(r->comm, r->queue, &coll));
        STNI_TRY(combine_all(r));
    }
    return STN_OK;
}

/* `host`: the number is the host's, whatever the queue's device. */
static stn_status all_reduce_max(stn_comm *comm, stn_queue *queue, int64_t *number, int host)
{
    const struct stni_coll coll = {.kind = STNI_COLL_ALL_REDUCE,
                                   .dtype = STN_DTYPE_I64,
                                   .op = STN_MAX,
                                   .count = 1,
                                   .send = number,
                                   .recv = number,
                                   .host = host};
    return comm->run(comm, queue, &coll);
}

/* The largest of the ranks' numbers. Without a way for hosts to agree it goes through the device's memory, and the
 * host waits. */
static stn_status largest_of_ranks(stn_comm *comm, stn_queue *queue, int64_t *number)
{
    if (queue->device->is_cpu || stni_comm_has_agreement(comm))
        return all_reduce_max(comm, queue, number, !queue->device->is_cpu);
    int64_t *staged = stni_staging(comm, queue, sizeof *number);
    if (!staged)
        return STN_ERR_MEMORY;
    STNI_TRY(stni_queue_copy(queue, staged, number, sizeof *number, STNI_COPY_TO_DEVICE));
    STNI_TRY(all_reduce_max(comm, queue, staged, 0));
    STNI_TRY(stni_queue_copy(queue, number, staged, sizeof *number, STNI_COPY_TO_HOST));
    return stn_queue_sync(queue);
}

/* The size of a piece, in elements, the same on every rank. */
static stn_status agree_on_piece(stn_comm *comm, stn_queue *queue, const stn_exchange *m, int64_t *piece)
{
    int64_t most = (int64_t)m->n_send + m->n_recv;
    STNI_TRY(largest_of_ranks(comm, queue, &most));
    *piece = (int64_t)(comm->staging_limit / stn_dtype_size(m->dtype)) / (most > 0 ? most : 1);
    *piece = *piece > 0 ? *piece : 1;
    return STN_OK;
}

stn_status stni_staged_reduce(stn_comm *comm, stn_queue *queue, const stn_exchange *messages)
{
    struct round r = {
        .comm = comm, .queue = queue, .messages = messages, .element_size = stn_dtype_size(messages->dtype)};
    STNI_TRY(agree_on_piece(comm, queue, messages, &r.piece));
    int64_t longest = longest_message(messages);
    r.piece = r.piece < longest ? r.piece : longest > 0 ? longest : 1;
    size_t n_send = (size_t)messages->n_send, n_recv = (size_t)messages->n_recv, n = n_send + n_recv;
    if (n == 0)
        return STN_OK;
    size_t bytes = n * sizeof *r.send + n_recv * (sizeof *r.addends + sizeof *r.recv_groups);
    char *memory = stni_malloc(bytes);
    if (!memory)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "exchange: out of memory: plan (%zu bytes)", bytes);
    r.send = (void *)memory;
    r.recv = r.send + n_send;
    r.addends = (void *)(r.recv + n_recv);
    r.recv_groups = (void *)(r.addends + n_recv);
    stni_recv_groups_fill(messages, r.recv_groups);
    r.sent = stni_staging(comm, queue, n * (size_t)r.piece * r.element_size);
    r.received = r.sent ? place(&r, r.sent, messages->n_send) : NULL;
    stn_status status = r.sent ? run_rounds(&r) : STN_ERR_MEMORY;
    stni_free(memory);
    return status;
}
