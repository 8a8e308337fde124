/* Collectives that move data without combining it, and the choice among all collectives. */
#include "core/comm/mpi/family.h"

#include <string.h>

/* A rank that only sends never waits: it looks for notices of failure in one collective of so many. */
enum { HEED_EVERY = 16 };

/* Up to here the root of a broadcast sends to everyone; above, to each its part, and the ranks pass them on. */
enum { BROADCAST_DIRECT = 1 << 16 /* bytes */ };

static const char *const names[STNI_COLL_COUNT] = {
    "all_reduce", "reduce",     "all_gather", "gather",   "reduce_scatter", "scatter",
    "broadcast",  "all_to_all", "group",      "exchange", "barrier",
};

const char *stni_mpi_coll_name(enum stni_coll_kind kind)
{
    return names[kind];
}

void stni_mpi_cut(struct stni_mpi_member *m, const int64_t *counts)
{
    int64_t at = 0;
    for (int r = 0; r < m->size; r++) {
        m->from[r] = at;
        m->counts[r] = counts[r];
        at += counts[r];
    }
}

void stni_mpi_cut_evenly(struct stni_mpi_member *m, int64_t first, int64_t count)
{
    for (int r = 0; r < m->size; r++) {
        m->from[r] = first;
        m->counts[r] = count / m->size + (r < count % m->size);
        first += m->counts[r];
    }
}

static char *part_of(const struct stni_mpi_member *m, const void *all, int r, size_t size)
{
    return (char *)(uintptr_t)all + m->from[r] * (int64_t)size;
}

static int64_t bytes_of(const struct stni_mpi_member *m, int r, size_t size)
{
    return m->counts[r] * (int64_t)size;
}

static int64_t all_bytes(const struct stni_mpi_member *m, size_t size)
{
    int64_t bytes = 0;
    for (int r = 0; r < m->size; r++)
        bytes += bytes_of(m, r, size);
    return bytes;
}

static void copy(void *dst, const void *src, int64_t bytes)
{
    if (bytes > 0 && dst != src)
        memcpy(dst, src, (size_t)bytes);
}

stn_status stni_mpi_share(struct stni_mpi_member *m, void *data, size_t size)
{
    int64_t own = bytes_of(m, m->rank, size);
    STNI_TRY(stni_mpi_reserve(m, 2 * (int64_t)m->size, all_bytes(m, size) + own * m->size));
    for (int i = 1; i < m->size; i++) {
        int from = (m->rank + i) % m->size;
        if (m->counts[from] > 0)
            STNI_TRY(stni_mpi_receive(m, from, part_of(m, data, from, size), bytes_of(m, from, size)));
    }
    for (int i = 1; i < m->size && own > 0; i++)
        STNI_TRY(stni_mpi_send(m, (m->rank + m->size - i) % m->size, part_of(m, data, m->rank, size), own));
    return stni_mpi_complete(m);
}

stn_status stni_mpi_collect(struct stni_mpi_member *m, const void *part, void *all, size_t size, int root)
{
    STNI_TRY(stni_mpi_reserve(m, m->size, all_bytes(m, size)));
    if (m->rank == root)
        copy(part_of(m, all, root, size), part, bytes_of(m, root, size));
    for (int r = 0; r < m->size && m->rank == root; r++)
        if (r != root && m->counts[r] > 0)
            STNI_TRY(stni_mpi_receive(m, r, part_of(m, all, r, size), bytes_of(m, r, size)));
    if (m->rank != root && m->counts[m->rank] > 0)
        STNI_TRY(stni_mpi_send(m, root, part, bytes_of(m, m->rank, size)));
    return stni_mpi_complete(m);
}

stn_status stni_mpi_spread(struct stni_mpi_member *m, const void *all, void *part, size_t size, int root)
{
    STNI_TRY(stni_mpi_reserve(m, m->size, all_bytes(m, size)));
    if (m->rank == root)
        copy(part, part_of(m, all, root, size), bytes_of(m, root, size));
    for (int r = 0; r < m->size && m->rank == root; r++)
        if (r != root && m->counts[r] > 0)
            STNI_TRY(stni_mpi_send(m, r, part_of(m, all, r, size), bytes_of(m, r, size)));
    if (m->rank != root && m->counts[m->rank] > 0)
        STNI_TRY(stni_mpi_receive(m, root, part, bytes_of(m, m->rank, size)));
    return stni_mpi_complete(m);
}

static stn_status all_gather(struct stni_mpi_member *m, const struct stni_coll *v)
{
    size_t size = stni_mpi_size(v->dtype);
    stni_mpi_cut(m, v->counts);
    copy(part_of(m, v->recv, m->rank, size), v->send, bytes_of(m, m->rank, size));
    return stni_mpi_share(m, v->recv, size);
}

static stn_status gather(struct stni_mpi_member *m, const struct stni_coll *v)
{
    stni_mpi_cut(m, v->counts);
    return stni_mpi_collect(m, v->send, v->recv, stni_mpi_size(v->dtype), v->root);
}

static stn_status scatter(struct stni_mpi_member *m, const struct stni_coll *v)
{
    stni_mpi_cut(m, v->counts);
    return stni_mpi_spread(m, v->send, v->recv, stni_mpi_size(v->dtype), v->root);
}

static stn_status broadcast(struct stni_mpi_member *m, const struct stni_coll *v)
{
    size_t size = stni_mpi_size(v->dtype);
    int64_t bytes = v->count * (int64_t)size;
    if (bytes > BROADCAST_DIRECT && m->size > 2) {
        stni_mpi_cut_evenly(m, 0, v->count);
        STNI_TRY(stni_mpi_spread(m, v->recv, part_of(m, v->recv, m->rank, size), size, v->root));
        return stni_mpi_share(m, v->recv, size);
    }
    STNI_TRY(stni_mpi_reserve(m, m->size, bytes * m->size));
    for (int r = 0; r < m->size && m->rank == v->root; r++)
        if (r != v->root && bytes > 0)
            STNI_TRY(stni_mpi_send(m, r, v->recv, bytes));
    if (m->rank != v->root && bytes > 0)
        STNI_TRY(stni_mpi_receive(m, v->root, v->recv, bytes));
    return stni_mpi_complete(m);
}

/* Empty messages are sent too: ranks that count differently are found. */
static stn_status all_to_all(struct stni_mpi_member *m, const struct stni_coll *v)
{
    size_t size = stni_mpi_size(v->dtype);
    stni_mpi_cut(m, v->counts);
    int64_t out = all_bytes(m, size), own = m->counts[m->rank];
    const char *mine = part_of(m, v->send, m->rank, size);
    stni_mpi_cut(m, v->recv_counts);
    STNI_TRY(stni_mpi_reserve(m, 2 * (int64_t)m->size, out + all_bytes(m, size)));
    if (own != m->counts[m->rank])
        return stni_mpi_fail(m, STN_ERR_MISMATCH, "all_to_all: rank %d sends itself %lld elements and wants %lld",
                             m->world[m->rank], (long long)own, (long long)m->counts[m->rank]);
    copy(part_of(m, v->recv, m->rank, size), mine, own * (int64_t)size);
    for (int i = 1; i < m->size; i++) {
        int r = (m->rank + i) % m->size;
        STNI_TRY(stni_mpi_receive(m, r, part_of(m, v->recv, r, size), bytes_of(m, r, size)));
    }
    stni_mpi_cut(m, v->counts);
    for (int i = 1; i < m->size; i++) {
        int r = (m->rank + m->size - i) % m->size;
        STNI_TRY(stni_mpi_send(m, r, part_of(m, v->send, r, size), bytes_of(m, r, size)));
    }
    return stni_mpi_complete(m);
}

static stn_status barrier(struct stni_mpi_member *m, const struct stni_coll *v)
{
    (void)v;
    STNI_TRY(stni_mpi_reserve(m, 2 * (int64_t)m->size, 0));
    for (int i = 1; i < m->size; i++)
        STNI_TRY(stni_mpi_receive(m, (m->rank + i) % m->size, NULL, 0));
    for (int i = 1; i < m->size; i++)
        STNI_TRY(stni_mpi_send(m, (m->rank + m->size - i) % m->size, NULL, 0));
    return stni_mpi_complete(m);
}

static int64_t box_bytes(const stn_box *box, size_t size)
{
    int64_t n = (int64_t)size;
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d];
    return n;
}

/* Messages of this rank to itself, in their order. */
static stn_status copy_to_self(struct stni_mpi_member *m, const stn_exchange *e, size_t size)
{
    int at = 0;
    for (int i = 0; i < e->n_recv; i++) {
        if (e->recv[i].peer != m->rank)
            continue;
        while (at < e->n_send && e->send[at].peer != m->rank)
            at++;
        if (at == e->n_send || box_bytes(&e->send[at].box, size) != box_bytes(&e->recv[i].box, size))
            return stni_mpi_fail(m, STN_ERR_MISMATCH, "group: a message from rank %d to itself %s", m->world[m->rank],
                                 at == e->n_send ? "is wanted but not sent" : "has different shapes at its ends");
        copy(e->recv[i].box.data, e->send[at].box.data, box_bytes(&e->recv[i].box, size));
        at++;
    }
    return STN_OK;
}

/* Boxes are dense: the library packs others. */
static stn_status group(struct stni_mpi_member *m, const struct stni_coll *v)
{
    const stn_exchange *e = v->messages;
    size_t size = stni_mpi_size(e->dtype);
    int64_t bytes = 0;
    for (int i = 0; i < e->n_send; i++)
        bytes += box_bytes(&e->send[i].box, size);
    for (int i = 0; i < e->n_recv; i++)
        bytes += box_bytes(&e->recv[i].box, size);
    STNI_TRY(stni_mpi_reserve(m, (int64_t)e->n_send + e->n_recv, bytes));
    STNI_TRY(copy_to_self(m, e, size));
    for (int i = 0; i < e->n_recv; i++)
        if (e->recv[i].peer != m->rank)
            STNI_TRY(stni_mpi_receive(m, e->recv[i].peer, e->recv[i].box.data, box_bytes(&e->recv[i].box, size)));
    for (int i = 0; i < e->n_send; i++)
        if (e->send[i].peer != m->rank)
            STNI_TRY(stni_mpi_send(m, e->send[i].peer, e->send[i].box.data, box_bytes(&e->send[i].box, size)));
    return stni_mpi_complete(m);
}

static stn_status (*const collectives[STNI_COLL_COUNT])(struct stni_mpi_member *m, const struct stni_coll *v) = {
    [STNI_COLL_ALL_REDUCE] = stni_mpi_all_reduce,
    [STNI_COLL_REDUCE] = stni_mpi_reduce,
    [STNI_COLL_ALL_GATHER] = all_gather,
    [STNI_COLL_GATHER] = gather,
    [STNI_COLL_REDUCE_SCATTER] = stni_mpi_reduce_scatter,
    [STNI_COLL_SCATTER] = scatter,
    [STNI_COLL_BROADCAST] = broadcast,
    [STNI_COLL_ALL_TO_ALL] = all_to_all,
    [STNI_COLL_GROUP] = group,
    [STNI_COLL_BARRIER] = barrier,
};

/* Whether the family has failed, and no more: NCCL's watch asks so, a thread that MPI may not be for. It hears of what
 * other threads of the process know then. */
static int is_question(const struct stni_coll *v)
{
    return v->kind == STNI_COLL_GROUP && v->messages->n_send == 0 && v->messages->n_recv == 0;
}

stn_status stni_mpi_run(struct stni_mpi_member *m, const struct stni_coll *v)
{
    m->kind = v->kind;
    const int allowed = stni_mpi_thread_allowed();
    if (!allowed && is_question(v))
        return atomic_load(&m->family->aborted) ? stni_mpi_fail_aborted(m) : STN_OK;
    if (!allowed)
        return stni_mpi_fail(m, STN_ERR_UNSUPPORTED,
                             "%s: MPI was initialised for its main thread alone, and this is another",
                             stni_mpi_coll_name(v->kind));
    if (m->calls++ % HEED_EVERY == 0 || atomic_load(&m->family->aborted))
        stni_mpi_poll_abort(m->family);
    return atomic_load(&m->family->aborted) ? stni_mpi_fail_aborted(m) : collectives[v->kind](m, v);
}
