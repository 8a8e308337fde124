/* Collectives as values: names, costs, and the call into a communicator's table. */
#include "core/comm/launch.h"

#include "core/box/box.h"

#include <stdio.h>

static const char *const names[STNI_COLL_COUNT] = {
    "all_reduce", "reduce",     "all_gather", "gather",   "reduce_scatter", "scatter",
    "broadcast",  "all_to_all", "group",      "exchange", "barrier",
};

static const char *const agreements[STNI_AGREEMENTS] = {
    [STNI_AGREE_CALL] = "stn_agree",
    [STNI_AGREE_DIST] = "a collective of dist.h",
    [STNI_AGREE_BACKWARD] = "stn_backward",
    [STNI_AGREE_SYNC] = "stn_grad_sync",
    [STNI_AGREE_RANDOM] = "a comparison of random streams",
    [STNI_AGREE_GRADIENTS] = "stn_grad_all_reduce",
    [STNI_AGREE_STREAMS] = "a file of random streams",
};

static const char *const op_names[STN_REDUCE_OP_COUNT] = {"sum", "avg", "prod", "min", "max"};

/* Which arguments a collective has beside its buffers. */
enum { HAS_COUNT = 1, HAS_OP = 2, HAS_ROOT = 4, HAS_DTYPE = 8 };

static const int traits[STNI_COLL_COUNT] = {
    [STNI_COLL_ALL_REDUCE] = HAS_DTYPE | HAS_COUNT | HAS_OP,
    [STNI_COLL_REDUCE] = HAS_DTYPE | HAS_COUNT | HAS_OP | HAS_ROOT,
    [STNI_COLL_ALL_GATHER] = HAS_DTYPE | HAS_COUNT,
    [STNI_COLL_GATHER] = HAS_DTYPE | HAS_COUNT | HAS_ROOT,
    [STNI_COLL_REDUCE_SCATTER] = HAS_DTYPE | HAS_COUNT | HAS_OP,
    [STNI_COLL_SCATTER] = HAS_DTYPE | HAS_COUNT | HAS_ROOT,
    [STNI_COLL_BROADCAST] = HAS_DTYPE | HAS_COUNT | HAS_ROOT,
    [STNI_COLL_ALL_TO_ALL] = HAS_DTYPE,
    [STNI_COLL_GROUP] = HAS_DTYPE,
    [STNI_COLL_EXCHANGE] = HAS_DTYPE,
    [STNI_COLL_BARRIER] = 0,
};

const char *stni_coll_name(enum stni_coll_kind kind)
{
    return names[kind];
}

int stni_coll_describe(const struct stni_coll *coll, char *text, size_t size)
{
    int has = traits[coll->kind];
    char dtype[16] = "", count[40] = "", op[16] = "", root[24] = "";
    if (has & HAS_DTYPE)
        snprintf(dtype, sizeof dtype, " %s", stn_dtype_name(coll->dtype));
    if (has & HAS_COUNT)
        snprintf(count, sizeof count, " count %lld", (long long)coll->count);
    if (has & HAS_OP)
        snprintf(op, sizeof op, " %s", (unsigned)coll->op < STN_REDUCE_OP_COUNT ? op_names[coll->op] : "?");
    if (has & HAS_ROOT)
        snprintf(root, sizeof root, " root %d", coll->root);
    const int what =
        coll->kind == STNI_COLL_ALL_REDUCE && coll->root > 0 && coll->root < STNI_AGREEMENTS ? coll->root : 0;
    return snprintf(text, size, "%s%s%s%s%s%s%s", names[coll->kind], dtype, count, op, root, what ? " for " : "",
                    what ? agreements[what] : "");
}

int64_t stni_counts_sum(const int64_t *counts, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

/* Messages and elements of counts[s] to each rank s but `rank`. */
static struct stni_comm_stats cost_of_counts(const int64_t *counts, int rank, int size)
{
    struct stni_comm_stats cost = {0};
    for (int s = 0; s < size; s++) {
        if (s == rank || counts[s] == 0)
            continue;
        cost.messages++;
        cost.bytes_sent += counts[s];
    }
    return cost;
}

static struct stni_comm_stats cost_of_messages(const stn_exchange *messages, int rank)
{
    struct stni_comm_stats cost = {0};
    for (int i = 0; i < messages->n_send; i++) {
        int64_t n = stni_box_numel(&messages->send[i].box);
        if (messages->send[i].peer == rank || n == 0)
            continue;
        cost.messages++;
        cost.bytes_sent += n;
    }
    return cost;
}

static struct stni_comm_stats cost_repeated(int64_t messages, int64_t elements)
{
    struct stni_comm_stats cost = {0};
    if (elements > 0 && messages > 0) {
        cost.messages = messages;
        cost.bytes_sent = messages * elements;
    }
    return cost;
}

static struct stni_comm_stats cost_of_all_reduce(int64_t n, int rank, int size)
{
    int64_t own = n / size + (rank < n % size);
    struct stni_comm_stats cost = {0};
    if (n > 0 && size > 1) {
        cost.messages = 2 * ((int64_t)size - 1);
        cost.bytes_sent = n + (size - 2) * own;
    }
    return cost;
}

static struct stni_comm_stats cost_in_elements(const struct stni_coll *v, int rank, int size)
{
    switch (v->kind) {
    case STNI_COLL_ALL_REDUCE:
        return cost_of_all_reduce(v->count, rank, size);
    case STNI_COLL_REDUCE:
        return cost_repeated(rank != v->root, v->count);
    case STNI_COLL_ALL_GATHER:
        return cost_repeated(size - 1, v->counts[rank]);
    case STNI_COLL_GATHER:
        return cost_repeated(rank != v->root, v->counts[rank]);
    case STNI_COLL_SCATTER:
        if (rank != v->root)
            return (struct stni_comm_stats){0};
        return cost_of_counts(v->counts, rank, size);
    case STNI_COLL_REDUCE_SCATTER:
    case STNI_COLL_ALL_TO_ALL:
        return cost_of_counts(v->counts, rank, size);
    case STNI_COLL_BROADCAST:
        return cost_repeated(rank == v->root ? size - 1 : 0, v->count);
    case STNI_COLL_GROUP:
    case STNI_COLL_EXCHANGE:
        return cost_of_messages(v->messages, rank);
    case STNI_COLL_BARRIER:
    case STNI_COLL_COUNT:
        break;
    }
    return (struct stni_comm_stats){0};
}

struct stni_comm_stats stni_coll_cost(const struct stni_coll *coll, int rank, int size)
{
    struct stni_comm_stats cost = cost_in_elements(coll, rank, size);
    cost.collectives = 1;
    cost.bytes_sent *= (int64_t)stn_dtype_size(coll->dtype);
    return cost;
}

static int has(const stn_comm_ops *ops, enum stni_coll_kind kind)
{
    const int there[STNI_COLL_COUNT] = {
        [STNI_COLL_ALL_REDUCE] = 1,
        [STNI_COLL_REDUCE] = ops->reduce != NULL,
        [STNI_COLL_ALL_GATHER] = ops->all_gather != NULL,
        [STNI_COLL_GATHER] = ops->gather != NULL,
        [STNI_COLL_REDUCE_SCATTER] = ops->reduce_scatter != NULL,
        [STNI_COLL_SCATTER] = ops->scatter != NULL,
        [STNI_COLL_BROADCAST] = ops->broadcast != NULL,
        [STNI_COLL_ALL_TO_ALL] = ops->all_to_all != NULL,
        [STNI_COLL_GROUP] = 1,
        [STNI_COLL_EXCHANGE] = ops->exchange != NULL,
        [STNI_COLL_BARRIER] = ops->barrier != NULL,
    };
    return there[kind];
}

static stn_status run_entry(const stn_comm *comm, stn_queue *queue, const struct stni_coll *v)
{
    const stn_comm_ops *ops = comm->ops;
    void *impl = comm->impl;
    switch (v->kind) {
    case STNI_COLL_ALL_REDUCE:
        return ops->all_reduce(impl, queue, v->send, v->recv, v->count, v->dtype, v->op);
    case STNI_COLL_REDUCE:
        return ops->reduce(impl, queue, v->send, v->recv, v->count, v->dtype, v->op, v->root);
    case STNI_COLL_ALL_GATHER:
        return ops->all_gather(impl, queue, v->send, v->recv, v->counts, v->dtype);
    case STNI_COLL_GATHER:
        return ops->gather(impl, queue, v->send, v->recv, v->counts, v->dtype, v->root);
    case STNI_COLL_REDUCE_SCATTER:
        return ops->reduce_scatter(impl, queue, v->send, v->recv, v->counts, v->dtype, v->op);
    case STNI_COLL_SCATTER:
        return ops->scatter(impl, queue, v->send, v->recv, v->counts, v->dtype, v->root);
    case STNI_COLL_BROADCAST:
        return ops->broadcast(impl, queue, v->recv, v->count, v->dtype, v->root);
    case STNI_COLL_ALL_TO_ALL:
        return ops->all_to_all(impl, queue, v->send, v->counts, v->recv, v->recv_counts, v->dtype);
    case STNI_COLL_GROUP:
        return ops->group(impl, queue, v->messages);
    case STNI_COLL_EXCHANGE:
        return ops->exchange(impl, queue, v->messages);
    case STNI_COLL_BARRIER:
        return ops->barrier(impl, queue);
    case STNI_COLL_COUNT:
        break;
    }
    return stn_queue_fail(queue, STN_ERR_INTERNAL, "collective %d does not exist", (int)v->kind);
}

/* A table may do without some reductions: its entry then says so at once, on every rank alike, and leaves the queue
 * as it was. */
static int is_declined(const stn_queue *queue, const struct stni_coll *v, stn_status status)
{
    const int reduces =
        v->kind == STNI_COLL_ALL_REDUCE || v->kind == STNI_COLL_REDUCE || v->kind == STNI_COLL_REDUCE_SCATTER;
    return reduces && status == STN_ERR_UNSUPPORTED && !atomic_load(&queue->failed);
}

stn_status stni_coll_run(stn_comm *comm, stn_queue *queue, const struct stni_coll *v)
{
    if (v->host)
        return stni_comm_agree_run(comm, queue, v);
    if (stni_comm_needs_host(comm, queue))
        return stni_comm_run_through_host(comm, queue, v);
    if (v->kind < STNI_COLL_COUNT && !has(comm->ops, v->kind))
        return stni_comm_build(comm, queue, v);
    const stn_status status = run_entry(comm, queue, v);
    return is_declined(queue, v, status) ? stni_comm_build(comm, queue, v) : status;
}
