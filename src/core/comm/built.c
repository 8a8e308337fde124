/* Collectives that a table lacks, and reductions that it declines, built from its `group` (a barrier from its
 * all_reduce). Each part travels as a message; a reduction receives what all ranks sent, a piece of at most the
 * staging memory at a time, and combines it in the order of ranks. */
#include "core/comm/launch.h"

#include "core/box/box_exact.h"
#include "core/comm/dense.h"
#include "core/base/clamp.h"
#include "core/base/host_alloc.h"

#include <string.h>

struct build {
    stn_comm *comm;
    stn_queue *queue;
    const struct stni_coll *coll;
    size_t element_size;
    stn_message *send, *recv; /* one for each rank */
    int n_send, n_recv;
    const void **sources; /* for each rank, as what follows */
    stn_box *boxes;
    int64_t *counts;
};

static char *element(const struct build *b, const void *data, int64_t at)
{
    return (char *)(uintptr_t)data + at * (int64_t)b->element_size;
}

static stn_box line(const struct build *b, const void *data, int64_t at, int64_t count)
{
    return (stn_box){element(b, data, at), 1, {count}, {1}};
}

static stn_message message(const struct build *b, int peer, const void *data, int64_t at, int64_t count)
{
    return (stn_message){peer, line(b, data, at, count)};
}

static void send(struct build *b, int peer, const void *data, int64_t at, int64_t count)
{
    if (count > 0 && peer != b->comm->rank)
        b->send[b->n_send++] = message(b, peer, data, at, count);
}

static void receive(struct build *b, int peer, void *data, int64_t at, int64_t count)
{
    if (count > 0 && peer != b->comm->rank)
        b->recv[b->n_recv++] = message(b, peer, data, at, count);
}

static stn_status pass(struct build *b)
{
    const stn_exchange group = {
        .dtype = b->coll->dtype, .n_send = b->n_send, .n_recv = b->n_recv, .send = b->send, .recv = b->recv};
    const struct stni_coll coll = {.kind = STNI_COLL_GROUP, .dtype = group.dtype, .messages = &group};
    int none = b->n_send + b->n_recv == 0;
    b->n_send = b->n_recv = 0;
    return none ? STN_OK : b->comm->run(b->comm, b->queue, &coll);
}

/* What this rank keeps for itself. */
static stn_status copy(const struct build *b, void *dst, int64_t dst_at, const void *src, int64_t src_at, int64_t count)
{
    const stn_box to = line(b, dst, dst_at, count), from = line(b, src, src_at, count);
    return count > 0 && to.data != from.data ? stni_staged_move(b->queue, &to, &from, b->element_size) : STN_OK;
}

static stn_status all_gather(struct build *b)
{
    const struct stni_coll *v = b->coll;
    int rank = b->comm->rank;
    int64_t at = 0;
    for (int r = 0; r < b->comm->size; at += v->counts[r++]) {
        if (r == rank)
            STNI_TRY(copy(b, v->recv, at, v->send, 0, v->counts[r]));
        send(b, r, v->send, 0, v->counts[rank]);
        receive(b, r, v->recv, at, v->counts[r]);
    }
    return pass(b);
}

static stn_status gather(struct build *b)
{
    const struct stni_coll *v = b->coll;
    int rank = b->comm->rank;
    int64_t at = 0;
    if (rank != v->root)
        send(b, v->root, v->send, 0, v->counts[rank]);
    for (int r = 0; r < b->comm->size && rank == v->root; at += v->counts[r++]) {
        if (r == rank)
            STNI_TRY(copy(b, v->recv, at, v->send, 0, v->counts[r]));
        receive(b, r, v->recv, at, v->counts[r]);
    }
    return pass(b);
}

static stn_status scatter(struct build *b)
{
    const struct stni_coll *v = b->coll;
    int rank = b->comm->rank;
    int64_t at = 0;
    if (rank != v->root)
        receive(b, v->root, v->recv, 0, v->counts[rank]);
    for (int r = 0; r < b->comm->size && rank == v->root; at += v->counts[r++]) {
        if (r == rank)
            STNI_TRY(copy(b, v->recv, 0, v->send, at, v->counts[r]));
        send(b, r, v->send, at, v->counts[r]);
    }
    return pass(b);
}

static stn_status broadcast(struct build *b)
{
    const struct stni_coll *v = b->coll;
    if (b->comm->rank != v->root)
        receive(b, v->root, v->recv, 0, v->count);
    for (int r = 0; r < b->comm->size && b->comm->rank == v->root; r++)
        send(b, r, v->recv, 0, v->count);
    return pass(b);
}

static stn_status all_to_all(struct build *b)
{
    const struct stni_coll *v = b->coll;
    const int rank = b->comm->rank;
    int64_t out = 0, in = 0;
    if (v->counts[rank] != v->recv_counts[rank])
        return stn_queue_fail(b->queue, STN_ERR_MISMATCH,
                              "all_to_all: rank %d sends itself %lld elements and wants %lld", rank,
                              (long long)v->counts[rank], (long long)v->recv_counts[rank]);
    for (int r = 0; r < b->comm->size; r++) {
        if (r == rank)
            STNI_TRY(copy(b, v->recv, in, v->send, out, v->counts[r]));
        send(b, r, v->send, out, v->counts[r]);
        receive(b, r, v->recv, in, v->recv_counts[r]);
        out += v->counts[r];
        in += v->recv_counts[r];
    }
    return pass(b);
}

/* Nobody reads the sum. It stands behind what the staging holds where the reduction is built too. */
static stn_status barrier(struct build *b)
{
    uint8_t *staging = stni_staging(b->comm, b->queue, (size_t)b->comm->size + 1);
    if (!staging)
        return STN_ERR_MEMORY;
    uint8_t *one = staging + b->comm->size;
    if (b->queue->device->is_cpu)
        *one = 1;
    const struct stni_coll coll = {
        .kind = STNI_COLL_ALL_REDUCE, .dtype = STN_DTYPE_U8, .op = STN_SUM, .count = 1, .send = one, .recv = one};
    return b->comm->run(b->comm, b->queue, &coll);
}

/* How much of `count` elements lies in the piece from `first` on. */
static int64_t in_piece(int64_t count, int64_t first, int64_t piece)
{
    return stni_clamp(count - first, 0, piece);
}

/* The sources' `n` elements each. */
static stn_status combine(const struct build *b, void *dst, int64_t n)
{
    const struct stni_coll *v = b->coll;
    const int size = b->comm->size;
    const int exact = b->comm->exact_sums && stni_box_order_shows(v->dtype, v->op),
              dense = b->queue->device->is_cpu && !exact;
    if (dense && stni_dense_reduce(b->queue->isa, dst, b->sources, size, n, v->dtype, v->op) != STN_OK)
        return stn_queue_fail(b->queue, STN_ERR_MEMORY, "%s: out of memory", stni_coll_name(v->kind));
    if (dense)
        return STN_OK;
    const stn_box to = line(b, dst, 0, n);
    for (int r = 0; r < size; r++)
        b->boxes[r] = line(b, b->sources[r], 0, n);
    return stni_staged_combine(b->comm, b->queue, &to, size, b->boxes, v->dtype, v->op);
}

/* A piece of every rank's part: sent to its owner, combined there. */
static stn_status reduce_piece(struct build *b, int64_t first, int64_t piece, char *staging)
{
    const struct stni_coll *v = b->coll;
    const int rank = b->comm->rank, size = b->comm->size;
    int64_t at = 0, own_at = 0, own = in_piece(b->counts[rank], first, piece);
    for (int r = 0; r < size; at += b->counts[r++]) {
        own_at = r == rank ? at : own_at;
        send(b, r, v->send, at + first, in_piece(b->counts[r], first, piece));
        receive(b, r, staging, r * own, own);
        b->sources[r] = element(b, staging, r * own);
    }
    STNI_TRY(pass(b));
    b->sources[rank] = element(b, v->send, own_at + first);
    return own > 0 ? combine(b, element(b, v->recv, first), own) : STN_OK;
}

static stn_status reduce_parts(struct build *b)
{
    const size_t size = (size_t)b->comm->size;
    int64_t most = 0, piece = (int64_t)(b->comm->staging_limit / b->element_size / size);
    for (size_t r = 0; r < size; r++)
        most = b->counts[r] > most ? b->counts[r] : most;
    if (piece < 1 || piece > most)
        piece = piece < 1 ? 1 : most;
    size_t bytes = size * (size_t)piece * b->element_size;
    char *staging = stni_staging(b->comm, b->queue, bytes);
    if (bytes > 0 && !staging)
        return STN_ERR_MEMORY;
    for (int64_t first = 0; first < most; first += piece)
        STNI_TRY(reduce_piece(b, first, piece, staging));
    return STN_OK;
}

static stn_status reduce(struct build *b)
{
    for (int r = 0; r < b->comm->size; r++)
        b->counts[r] = r == b->coll->root ? b->coll->count : 0;
    return reduce_parts(b);
}

static stn_status reduce_scatter(struct build *b)
{
    memcpy(b->counts, b->coll->counts, (size_t)b->comm->size * sizeof *b->counts);
    return reduce_parts(b);
}

/* Each rank combines its part of the balanced cut, then all get all parts. */
static stn_status all_reduce(struct build *b)
{
    const struct stni_coll *v = b->coll;
    const int size = b->comm->size, rank = b->comm->rank;
    int64_t own_at = 0;
    for (int r = 0; r < size; r++) {
        b->counts[r] = v->count / size + (r < v->count % size);
        own_at += r < rank ? b->counts[r] : 0;
    }
    const struct stni_coll parts = {.kind = STNI_COLL_REDUCE_SCATTER, .dtype = v->dtype, .op = v->op, .send = v->send,
                                    .recv = element(b, v->recv, own_at), .counts = b->counts, .count = v->count};
    const struct stni_coll all = {.kind = STNI_COLL_ALL_GATHER,
                                  .dtype = v->dtype,
                                  .send = parts.recv,
                                  .recv = v->recv,
                                  .counts = b->counts,
                                  .count = v->count};
    b->coll = &parts;
    STNI_TRY(reduce_parts(b));
    return b->comm->run(b->comm, b->queue, &all);
}

static stn_status (*const builders[STNI_COLL_COUNT])(struct build *b) = {
    [STNI_COLL_ALL_REDUCE] = all_reduce,
    [STNI_COLL_REDUCE] = reduce,
    [STNI_COLL_ALL_GATHER] = all_gather,
    [STNI_COLL_GATHER] = gather,
    [STNI_COLL_REDUCE_SCATTER] = reduce_scatter,
    [STNI_COLL_SCATTER] = scatter,
    [STNI_COLL_BROADCAST] = broadcast,
    [STNI_COLL_ALL_TO_ALL] = all_to_all,
    [STNI_COLL_BARRIER] = barrier,
};

int stni_comm_adds_exactly(const stn_comm *comm, const struct stni_coll *coll)
{
    const int reduces = coll->kind == STNI_COLL_ALL_REDUCE || coll->kind == STNI_COLL_REDUCE ||
                        coll->kind == STNI_COLL_REDUCE_SCATTER ||
                        (coll->kind == STNI_COLL_EXCHANGE && coll->messages->reduce);
    return reduces && !coll->host && comm->size > 1 && comm->ops != &stni_fake_ops &&
           stni_box_order_shows(coll->dtype, coll->op);
}

stn_status stni_comm_build(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    if (coll->kind == STNI_COLL_EXCHANGE)
        return stni_comm_exchange_staged(comm, queue, coll->messages);
    size_t n = (size_t)comm->size,
           bytes = n * (2 * sizeof(stn_message) + sizeof(stn_box) + sizeof(void *) + sizeof(int64_t));
    char *memory = stni_malloc(bytes);
    if (!memory)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "%s: out of memory: messages (%zu bytes)",
                              stni_coll_name(coll->kind), bytes);
    struct build b = {.comm = comm, .queue = queue, .coll = coll, .element_size = stn_dtype_size(coll->dtype)};
    b.send = (void *)memory;
    b.recv = b.send + n;
    b.boxes = (void *)(b.recv + n);
    b.counts = (void *)(b.boxes + n);
    b.sources = (void *)(b.counts + n);
    stn_status status = builders[coll->kind](&b);
    stni_free(memory);
    return status;
}
