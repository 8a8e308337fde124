/* Checks mode: before a collective runs, its ranks compare what they are about to call, host to host. */
#include "core/comm/launch.h"

#include "core/base/fnv.h"
#include "core/box/box.h"

#include <string.h>

/* What all ranks have to agree on. */
enum { SEQUENCE, KIND, COUNT, DTYPE, OP, ROOT, FIELDS };

static void fill(int64_t *fields, const struct stni_coll *coll, int64_t sequence)
{
    fields[SEQUENCE] = sequence;
    fields[KIND] = coll->kind;
    fields[COUNT] = coll->count;
    fields[DTYPE] = coll->dtype;
    fields[OP] = coll->op;
    fields[ROOT] = coll->root;
}

static void describe(const int64_t *fields, char *text, size_t size)
{
    struct stni_coll coll = {.kind = (enum stni_coll_kind)fields[KIND],
                             .count = fields[COUNT],
                             .dtype = (stn_dtype)fields[DTYPE],
                             .op = (stn_reduce_op)fields[OP],
                             .root = (int)fields[ROOT]};
    stni_coll_describe(&coll, text, size);
}

static stn_status broadcast(stn_comm *comm, stn_queue *queue, int64_t *fields, int root)
{
    const struct stni_coll coll = {.kind = STNI_COLL_BROADCAST, .dtype = STN_DTYPE_U8, .host = 1, .root = root,
                                   .send = fields, .recv = fields, .count = FIELDS * (int64_t)sizeof *fields};
    return comm->run(comm, queue, &coll);
}

/* The lowest rank of those that differ; INT64_MAX if none does. */
static stn_status find_first(stn_comm *comm, stn_queue *queue, int differs, int64_t *first)
{
    *first = differs ? comm->rank : INT64_MAX;
    const struct stni_coll coll = {.kind = STNI_COLL_ALL_REDUCE, .dtype = STN_DTYPE_I64, .op = STN_MIN, .host = 1,
                                   .send = first, .recv = first, .count = 1};
    return comm->run(comm, queue, &coll);
}

static stn_status fail(stn_queue *queue, int rank, const int64_t *fields, const int64_t *zeros)
{
    char got[96], wanted[96];
    describe(fields, got, sizeof got);
    describe(zeros, wanted, sizeof wanted);
    return stn_queue_fail(queue, STN_ERR_MISMATCH, "rank %d makes call %lld, %s, rank 0 call %lld, %s", rank,
                          (long long)fields[SEQUENCE], got, (long long)zeros[SEQUENCE], wanted);
}

/* A number for the k-th message from one rank to another, of so many elements. */
static uint64_t number_of(int from, int to, int k, int64_t elements)
{
    const int64_t words[] = {from, to, k, elements};
    return stni_fnv(STNI_FNV_EMPTY, words, sizeof words);
}

/* The sum over a list whose messages are sorted by peer, as both ends number them. */
static uint64_t sum_of(const stn_message *list, int n, int rank, int is_sent)
{
    uint64_t sum = 0;
    for (int i = 0, k = 0; i < n; i++, k++) {
        const int peer = list[i].peer;
        k = i > 0 && list[i - 1].peer == peer ? k : 0;
        sum += number_of(is_sent ? rank : peer, is_sent ? peer : rank, k, stni_box_numel(&list[i].box));
    }
    return sum;
}

/* What is sent and what is waited for come to the same, or nobody begins: a message that nobody takes would be taken by
 * a later call. */
static stn_status check_messages(stn_comm *comm, stn_queue *queue, const stn_exchange *m)
{
    int64_t rest = (int64_t)(sum_of(m->send, m->n_send, comm->rank, 1) - sum_of(m->recv, m->n_recv, comm->rank, 0));
    const struct stni_coll coll = {.kind = STNI_COLL_ALL_REDUCE, .dtype = STN_DTYPE_I64, .op = STN_SUM, .host = 1,
                                   .send = &rest, .recv = &rest, .count = 1};
    STNI_TRY(comm->run(comm, queue, &coll));
    if (rest == 0)
        return STN_OK;
    return stn_queue_fail(queue, STN_ERR_MISMATCH,
                          "exchange: what ranks send is not what ranks wait for: some rank passes another root, shape "
                          "or layout than its peers");
}

stn_status stni_comm_check(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll, int64_t sequence)
{
    int64_t own[FIELDS], zeros[FIELDS], first;
    /* A group of messages is called only by the ranks that take part in it, so no collective can compare it; the
     * fake has no peers. */
    if (coll->kind == STNI_COLL_GROUP || comm->ops == &stni_fake_ops || comm->size == 1)
        return STN_OK;
    fill(own, coll, sequence);
    memcpy(zeros, own, sizeof zeros);
    STNI_TRY(broadcast(comm, queue, zeros, 0));
    STNI_TRY(find_first(comm, queue, memcmp(own, zeros, sizeof own) != 0, &first));
    if (first == INT64_MAX)
        return coll->kind == STNI_COLL_EXCHANGE ? check_messages(comm, queue, coll->messages) : STN_OK;
    STNI_TRY(broadcast(comm, queue, own, (int)first));
    return fail(queue, (int)first, own, zeros);
}
