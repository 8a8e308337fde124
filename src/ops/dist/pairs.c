#include "ops/dist/pairs.h"

#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/shard/tables.h"

#include <string.h>

/* The messages from one rank to another, as one of them lists them. */
struct pair {
    int64_t messages, elements;
    uint64_t hash; /* of their lengths, in order */
};

/* Both lists of this rank by peer. */
struct table {
    int p, me;
    struct pair *sends, *expects;
};

static void add_up(struct pair *pairs, const struct stni_ranges *ranges)
{
    for (int64_t i = 0; i < ranges->n; i++) {
        struct pair *pair = &pairs[ranges->list[i].peer];
        pair->messages++;
        pair->elements += ranges->list[i].length;
        pair->hash = stni_hash_step(pair->hash, (uint64_t)ranges->list[i].length);
    }
}

static stn_status tabulate(const stn_mesh *mesh, const struct stni_ranges *send, const struct stni_ranges *receive,
                           struct table *out)
{
    const size_t bytes = 2 * (size_t)mesh->size * sizeof(struct pair);
    *out = (struct table){.p = mesh->size, .me = stni_mesh_position(mesh, mesh->context->rank), .sends = stni_calloc(1, bytes)};
    if (out->sends == NULL)
        return stni_fail_memory(mesh->context, "a list of messages by peer", bytes);
    out->expects = out->sends + out->p;
    add_up(out->sends, send);
    add_up(out->expects, receive);
    return STN_OK;
}

static uint64_t word_of(int from, int to, const struct pair *pair)
{
    if (pair->messages == 0)
        return 0;
    return stni_hash_step(stni_hash_step((uint64_t)from + 1, (uint64_t)to + 1), pair->hash);
}

stn_status stni_pairs_balance(const stn_mesh *mesh, const struct stni_ranges *send, const struct stni_ranges *receive,
                              int64_t *out)
{
    struct table t;
    uint64_t sum = 0;
    STNI_TRY(tabulate(mesh, send, receive, &t));
    for (int r = 0; r < t.p; r++)
        sum += word_of(t.me, r, &t.sends[r]) - word_of(r, t.me, &t.expects[r]);
    stni_free(t.sends);
    memcpy(out, &sum, sizeof sum);
    return STN_OK;
}

/* What rank `from` sends to this one, by way of its whole list. */
static stn_status ask(const stn_mesh *mesh, stn_comm *comm, const struct table *t, int from, struct pair *out)
{
    enum { MOST = STN_MAX_AGREE / sizeof(struct pair) };
    struct pair piece[MOST];
    for (int at = 0; at < t->p; at += MOST) {
        const int n = t->p - at < MOST ? t->p - at : MOST;
        memcpy(piece, t->sends + at, (size_t)n * sizeof *piece);
        if (comm != NULL)
            STNI_TRY(stni_comm_agree_broadcast(comm, mesh->context->queue, piece, (size_t)n * sizeof *piece, from));
        if (t->me >= at && t->me < at + n)
            *out = piece[t->me - at];
    }
    return STN_OK;
}

static stn_status refuse(const stn_mesh *mesh, const char *collective, int from, const struct pair *sent,
                         const struct pair *expected)
{
    return stni_fail(
        mesh->context, STN_ERR_MISMATCH,
        "%s: rank %d sends %lld messages of %lld elements in all, wanted %lld of %lld%s; nothing was moved", collective,
        stni_mesh_rank(mesh, from), (long long)sent->messages, (long long)sent->elements, (long long)expected->messages,
        (long long)expected->elements,
        sent->messages == expected->messages && sent->elements == expected->elements ? ", cut elsewhere" : "");
}

/* The lowest rank that expects something else than it is sent tells the others. */
static stn_status find(const stn_mesh *mesh, stn_comm *comm, const char *collective, const struct table *t)
{
    stn_status mine = STN_OK;
    for (int from = 0; from < t->p; from++) {
        struct pair sent = {0};
        STNI_TRY(ask(mesh, comm, t, from, &sent));
        if (mine == STN_OK && memcmp(&sent, &t->expects[from], sizeof sent) != 0)
            mine = refuse(mesh, collective, from, &sent, &t->expects[from]);
    }
    if (comm == NULL)
        return mine;
    int64_t first = mine == STN_OK ? -(int64_t)t->p : -(int64_t)t->me;
    STNI_TRY(stni_comm_agree(comm, mesh->context->queue, &first, 1, STN_MAX));
    STNI_TRY(stni_agree_on_failure(mesh->context, comm, (int)-first, STN_ERR_MISMATCH));
    return STN_ERR_MISMATCH;
}

stn_status stni_pairs_explain(const stn_mesh *mesh, stn_comm *comm, const char *collective,
                              const struct stni_ranges *send, const struct stni_ranges *receive)
{
    struct table t;
    STNI_TRY(tabulate(mesh, send, receive, &t));
    stn_status status = find(mesh, comm, collective, &t);
    stni_free(t.sends);
    return status;
}
