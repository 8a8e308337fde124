#include "every_collective.h"

#include <stdio.h>

enum { ROOT = 1 };

/* Ones are sent. */
struct memory {
    int32_t *send, *recv; /* a part for each rank */
    int64_t *counts;
    stn_message *out, *in;
    stn_exchange *messages;
};

static stn_box part(int32_t *data, int rank, int64_t n)
{
    return (stn_box){data + rank * n, 1, {n}, {1}};
}

static struct memory memory_create(int size, int64_t n)
{
    struct memory m;
    m.send = malloc((size_t)(size * n) * sizeof *m.send);
    m.recv = calloc((size_t)(size * n), sizeof *m.recv);
    m.counts = malloc((size_t)size * sizeof *m.counts);
    m.out = malloc((size_t)size * sizeof *m.out);
    m.in = malloc((size_t)size * sizeof *m.in);
    m.messages = malloc(sizeof *m.messages);
    for (int64_t i = 0; i < size * n; i++)
        m.send[i] = 1;
    for (int r = 0; r < size; r++) {
        m.counts[r] = n;
        m.out[r] = (stn_message){r, part(m.send, r, n)};
        m.in[r] = (stn_message){r, part(m.recv, r, n)};
    }
    *m.messages = (stn_exchange){STN_DTYPE_I32, 0, STN_SUM, size, size, m.out, m.in};
    return m;
}

/* Overwrites what peers could still read, so that a copy made too late is wrong also where no sanitizer looks. */
static void memory_destroy(struct memory *m, int size, int64_t n)
{
    memset(m->send, 0x5a, (size_t)(size * n) * sizeof *m->send);
    free(m->send);
    free(m->recv);
    free(m->counts);
    free(m->out);
    free(m->in);
    free(m->messages);
}

static stn_status call(stn_comm *comm, enum stni_coll_kind kind, int64_t n, const struct memory *m)
{
    int is_root = stn_comm_rank(comm) == ROOT;
    switch (kind) {
    case STNI_COLL_ALL_REDUCE: return stn_comm_all_reduce(comm, m->send, m->recv, n, STN_DTYPE_I32, STN_SUM, NULL);
    case STNI_COLL_REDUCE: return stn_comm_reduce(comm, m->send, m->recv, n, STN_DTYPE_I32, STN_SUM, ROOT, NULL);
    case STNI_COLL_ALL_GATHER: return stn_comm_all_gather(comm, m->send, m->recv, m->counts, STN_DTYPE_I32, NULL);
    case STNI_COLL_GATHER: return stn_comm_gather(comm, m->send, m->recv, m->counts, STN_DTYPE_I32, ROOT, NULL);
    case STNI_COLL_REDUCE_SCATTER:
        return stn_comm_reduce_scatter(comm, m->send, m->recv, m->counts, STN_DTYPE_I32, STN_SUM, NULL);
    case STNI_COLL_SCATTER: return stn_comm_scatter(comm, m->send, m->recv, m->counts, STN_DTYPE_I32, ROOT, NULL);
    case STNI_COLL_BROADCAST:
        return stn_comm_broadcast(comm, is_root ? m->send : m->recv, n, STN_DTYPE_I32, ROOT, NULL);
    case STNI_COLL_ALL_TO_ALL:
        return stn_comm_all_to_all(comm, m->send, m->counts, m->recv, m->counts, STN_DTYPE_I32, NULL);
    case STNI_COLL_GROUP: return stn_comm_group(comm, m->messages, NULL);
    case STNI_COLL_EXCHANGE: return stn_comm_exchange(comm, m->messages, NULL);
    case STNI_COLL_BARRIER: return stn_comm_barrier(comm, NULL);
    case STNI_COLL_COUNT: break;
    }
    return STN_ERR_INTERNAL;
}

/* Elements that arrive in recv, and what each of them is. */
static void expected(enum stni_coll_kind kind, int rank, int size, int64_t n, int64_t *count, int32_t *value)
{
    int reduces = kind == STNI_COLL_ALL_REDUCE || kind == STNI_COLL_REDUCE || kind == STNI_COLL_REDUCE_SCATTER;
    int to_root = kind == STNI_COLL_REDUCE || kind == STNI_COLL_GATHER, from_root = kind == STNI_COLL_BROADCAST;
    int one_part = reduces || kind == STNI_COLL_SCATTER || from_root;
    *value = reduces ? size : 1;
    *count = one_part ? n : size * n;
    if (kind == STNI_COLL_BARRIER || (to_root && rank != ROOT) || (from_root && rank == ROOT))
        *count = 0;
}

static int received(const struct memory *m, enum stni_coll_kind kind, int rank, int size, int64_t n)
{
    int64_t count, i = 0;
    int32_t value;
    expected(kind, rank, size, n, &count, &value);
    while (i < count && m->recv[i] == value)
        i++;
    return i == count;
}

stn_status every_collective_call(stn_comm *comm, enum stni_coll_kind kind, int64_t n)
{
    int size = stn_comm_size(comm);
    struct memory m = memory_create(size, n);
    stn_status status = call(comm, kind, n, &m);
    if (status == STN_OK && !CHECK(received(&m, kind, stn_comm_rank(comm), size, n)))
        fprintf(stderr, "%s of %lld elements\n", stni_coll_name(kind), (long long)n);
    memory_destroy(&m, size, n);
    return status;
}

void every_collective_fails(stn_comm *comm, stn_status status, const char *text)
{
    for (int kind = 0; kind < STNI_COLL_COUNT; kind++)
        for (int many = 0; many < 2; many++) {
            CHECK_STATUS(every_collective_call(comm, (enum stni_coll_kind)kind, many ? MANY_ELEMENTS : FEW_ELEMENTS),
                         status);
            CHECK_STR(stn_comm_error_text(comm), text);
        }
}
