/* The collectives: those of the public header, which check their arguments, and those that ops launch on a queue. */
#include "core/comm/launch.h"

#include "core/box/box.h"
#include "core/device/recording.h"

static stn_status check_comm(stn_comm *comm)
{
    if (!comm)
        return STN_ERR_ARGUMENT;
    comm->error.status = STN_OK;
    return STN_OK;
}

static stn_status check_dtype(stn_comm *comm, const char *coll, stn_dtype dtype)
{
    if ((unsigned)dtype >= STN_DTYPE_COUNT)
        return stni_comm_fail(comm, STN_ERR_DTYPE, "%s: dtype got %d, which is none", coll, (int)dtype);
    return STN_OK;
}

static stn_status check_op(stn_comm *comm, const char *coll, stn_dtype dtype, stn_reduce_op op)
{
    if ((unsigned)op >= STN_REDUCE_OP_COUNT)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: op got %d, which is none", coll, (int)op);
    if (!stni_box_reduces(dtype, op))
        return stni_comm_fail(comm, STN_ERR_DTYPE, "%s: op got %s, which has no order", coll, stn_dtype_name(dtype));
    return STN_OK;
}

static stn_status check_root(stn_comm *comm, const char *coll, int root)
{
    if (root < 0 || root >= comm->size)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: root got %d, wanted 0 to %d", coll, root, comm->size - 1);
    return STN_OK;
}

static stn_status check_buffer(stn_comm *comm, const char *coll, const char *name, const void *buffer, int64_t count)
{
    if (count < 0)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: count got %lld, wanted 0 or more", coll, (long long)count);
    if (count > 0 && !buffer)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: %s got NULL for %lld elements", coll, name,
                              (long long)count);
    if (count > 0 && comm->queue && !stni_device_reaches(comm->queue->device, buffer))
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: %s got memory that device %s does not reach", coll, name,
                              comm->queue->device->name);
    return STN_OK;
}

static stn_status check_counts(stn_comm *comm, const char *coll, const char *name, const int64_t *counts)
{
    if (!counts)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: %s got NULL", coll, name);
    for (int r = 0; r < comm->size; r++)
        if (counts[r] < 0)
            return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: %s[%d] got %lld, wanted 0 or more", coll, name, r,
                                  (long long)counts[r]);
    return STN_OK;
}

/* A box without elements is dense, whatever its strides. */
static stn_status check_box(stn_comm *comm, const char *coll, const stn_box *box, int dense)
{
    int64_t stride = 1;
    if (box->ndim < 0 || box->ndim > STN_MAX_BOX_NDIM)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: a box has ndim %d, wanted 0 to %d", coll, box->ndim,
                              STN_MAX_BOX_NDIM);
    for (int d = 0; d < box->ndim; d++) {
        if (box->shape[d] < 0)
            return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: a box has shape[%d] = %lld", coll, d,
                                  (long long)box->shape[d]);
        dense &= box->shape[d] > 0;
    }
    for (int d = box->ndim - 1; d >= 0; d--) {
        if (dense && box->shape[d] > 1 && box->strides[d] != stride)
            return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: a box has strides[%d] = %lld, wanted %lld (dense)", coll,
                                  d, (long long)box->strides[d], (long long)stride);
        stride *= box->shape[d];
    }
    return check_buffer(comm, coll, "box", box->data, stride);
}

static stn_status check_list(stn_comm *comm, const char *coll, const char *name, const stn_message *list, int n,
                             int dense)
{
    if (n < 0 || (n > 0 && !list))
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: n_%s got %d with a list of %s", coll, name, n,
                              list ? "that" : "NULL");
    for (int i = 0; i < n; i++) {
        if (list[i].peer < 0 || list[i].peer >= comm->size)
            return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: %s[%d].peer got %d, wanted 0 to %d", coll, name, i,
                                  list[i].peer, comm->size - 1);
        if (i > 0 && list[i].peer < list[i - 1].peer)
            return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: %s[%d].peer got %d after %d, wanted them sorted", coll,
                                  name, i, list[i].peer, list[i - 1].peer);
        STNI_TRY(check_box(comm, coll, &list[i].box, dense));
    }
    return STN_OK;
}

static stn_status check_messages(stn_comm *comm, const char *coll, const stn_exchange *messages, int dense)
{
    if (!messages)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "%s: messages got NULL", coll);
    STNI_TRY(check_dtype(comm, coll, messages->dtype));
    if (messages->reduce)
        STNI_TRY(check_op(comm, coll, messages->dtype, messages->op));
    STNI_TRY(check_list(comm, coll, "send", messages->send, messages->n_send, dense));
    return check_list(comm, coll, "recv", messages->recv, messages->n_recv, dense);
}

/* Blocking: also waits where a queue of the CPU runs its kernels later. */
static stn_status call(stn_comm *comm, const struct stni_coll *coll, stn_request **request)
{
    stn_queue *queue;
    if (request && comm->queue && comm->queue->recording)
        return stni_comm_fail(
            comm, STN_ERR_STATE,
            "%s: not in a captured step, where nothing goes beside the caller: pass NULL for the request",
            stni_coll_name(coll->kind));
    if (request)
        return stni_comm_launch_request(comm, coll, NULL, request);
    STNI_TRY(stni_comm_main_queue(comm, &queue));
    stn_status status = stni_comm_launch(comm, queue, coll, NULL);
    if (status == STN_OK && !queue->immediate && queue->device->is_cpu) {
        stni_recording_pause(queue);
        status = stn_queue_sync(queue);
        stni_recording_resume(queue);
    }
    if (status != STN_OK)
        stni_comm_fail(comm, status, "%s", stn_queue_error_text(queue));
    return status;
}

static struct stni_coll reduction(enum stni_coll_kind kind, const void *send, void *recv, int64_t count,
                                  stn_dtype dtype, stn_reduce_op op)
{
    return (struct stni_coll){.kind = kind, .send = send, .recv = recv, .count = count, .dtype = dtype, .op = op};
}

static struct stni_coll gathering(const stn_comm *comm, enum stni_coll_kind kind, const void *send, void *recv,
                                  const int64_t *counts, stn_dtype dtype)
{
    return (struct stni_coll){.kind = kind, .send = send, .recv = recv, .counts = counts, .dtype = dtype,
                              .count = stni_counts_sum(counts, comm->size)};
}

static struct stni_coll messaging(enum stni_coll_kind kind, const stn_exchange *messages)
{
    return (struct stni_coll){.kind = kind, .messages = messages, .dtype = messages->dtype,
                              .op = messages->reduce ? messages->op : STN_SUM};
}

stn_status stn_comm_all_reduce(stn_comm *comm, const void *send, void *recv, int64_t count, stn_dtype dtype,
                               stn_reduce_op op, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_dtype(comm, "all_reduce", dtype));
    STNI_TRY(check_op(comm, "all_reduce", dtype, op));
    STNI_TRY(check_buffer(comm, "all_reduce", "send", send, count));
    STNI_TRY(check_buffer(comm, "all_reduce", "recv", recv, count));
    struct stni_coll coll = reduction(STNI_COLL_ALL_REDUCE, send, recv, count, dtype, op);
    return call(comm, &coll, request);
}

stn_status stn_comm_reduce(stn_comm *comm, const void *send, void *recv, int64_t count, stn_dtype dtype,
                           stn_reduce_op op, int root, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_dtype(comm, "reduce", dtype));
    STNI_TRY(check_op(comm, "reduce", dtype, op));
    STNI_TRY(check_root(comm, "reduce", root));
    STNI_TRY(check_buffer(comm, "reduce", "send", send, count));
    if (comm->rank == root)
        STNI_TRY(check_buffer(comm, "reduce", "recv", recv, count));
    struct stni_coll coll = reduction(STNI_COLL_REDUCE, send, recv, count, dtype, op);
    coll.root = root;
    return call(comm, &coll, request);
}

stn_status stn_comm_all_gather(stn_comm *comm, const void *send, void *recv, const int64_t *counts, stn_dtype dtype,
                               stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_dtype(comm, "all_gather", dtype));
    STNI_TRY(check_counts(comm, "all_gather", "counts", counts));
    struct stni_coll coll = gathering(comm, STNI_COLL_ALL_GATHER, send, recv, counts, dtype);
    STNI_TRY(check_buffer(comm, "all_gather", "send", send, counts[comm->rank]));
    STNI_TRY(check_buffer(comm, "all_gather", "recv", recv, coll.count));
    return call(comm, &coll, request);
}

stn_status stn_comm_gather(stn_comm *comm, const void *send, void *recv, const int64_t *counts, stn_dtype dtype,
                           int root, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_dtype(comm, "gather", dtype));
    STNI_TRY(check_root(comm, "gather", root));
    STNI_TRY(check_counts(comm, "gather", "counts", counts));
    struct stni_coll coll = gathering(comm, STNI_COLL_GATHER, send, recv, counts, dtype);
    coll.root = root;
    STNI_TRY(check_buffer(comm, "gather", "send", send, counts[comm->rank]));
    if (comm->rank == root)
        STNI_TRY(check_buffer(comm, "gather", "recv", recv, coll.count));
    return call(comm, &coll, request);
}

stn_status stn_comm_reduce_scatter(stn_comm *comm, const void *send, void *recv, const int64_t *counts, stn_dtype dtype,
                                   stn_reduce_op op, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_dtype(comm, "reduce_scatter", dtype));
    STNI_TRY(check_op(comm, "reduce_scatter", dtype, op));
    STNI_TRY(check_counts(comm, "reduce_scatter", "counts", counts));
    struct stni_coll coll = gathering(comm, STNI_COLL_REDUCE_SCATTER, send, recv, counts, dtype);
    coll.op = op;
    STNI_TRY(check_buffer(comm, "reduce_scatter", "send", send, coll.count));
    STNI_TRY(check_buffer(comm, "reduce_scatter", "recv", recv, counts[comm->rank]));
    return call(comm, &coll, request);
}

stn_status stn_comm_scatter(stn_comm *comm, const void *send, void *recv, const int64_t *counts, stn_dtype dtype,
                            int root, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_dtype(comm, "scatter", dtype));
    STNI_TRY(check_root(comm, "scatter", root));
    STNI_TRY(check_counts(comm, "scatter", "counts", counts));
    struct stni_coll coll = gathering(comm, STNI_COLL_SCATTER, send, recv, counts, dtype);
    coll.root = root;
    if (comm->rank == root)
        STNI_TRY(check_buffer(comm, "scatter", "send", send, coll.count));
    STNI_TRY(check_buffer(comm, "scatter", "recv", recv, counts[comm->rank]));
    return call(comm, &coll, request);
}

stn_status stn_comm_broadcast(stn_comm *comm, void *buffer, int64_t count, stn_dtype dtype, int root,
                              stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_dtype(comm, "broadcast", dtype));
    STNI_TRY(check_root(comm, "broadcast", root));
    STNI_TRY(check_buffer(comm, "broadcast", "buffer", buffer, count));
    struct stni_coll coll = reduction(STNI_COLL_BROADCAST, buffer, buffer, count, dtype, STN_SUM);
    coll.root = root;
    return call(comm, &coll, request);
}

stn_status stn_comm_all_to_all(stn_comm *comm, const void *send, const int64_t *send_counts, void *recv,
                               const int64_t *recv_counts, stn_dtype dtype, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_dtype(comm, "all_to_all", dtype));
    STNI_TRY(check_counts(comm, "all_to_all", "send_counts", send_counts));
    STNI_TRY(check_counts(comm, "all_to_all", "recv_counts", recv_counts));
    STNI_TRY(check_buffer(comm, "all_to_all", "send", send, stni_counts_sum(send_counts, comm->size)));
    STNI_TRY(check_buffer(comm, "all_to_all", "recv", recv, stni_counts_sum(recv_counts, comm->size)));
    struct stni_coll coll = {.kind = STNI_COLL_ALL_TO_ALL, .send = send, .counts = send_counts, .recv = recv,
                             .recv_counts = recv_counts, .dtype = dtype};
    return call(comm, &coll, request);
}

stn_status stn_comm_group(stn_comm *comm, const stn_exchange *messages, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_messages(comm, "group", messages, 1));
    if (messages->reduce)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "group: reduce got %d, wanted 0", messages->reduce);
    struct stni_coll coll = messaging(STNI_COLL_GROUP, messages);
    return call(comm, &coll, request);
}

stn_status stn_comm_exchange(stn_comm *comm, const stn_exchange *messages, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    STNI_TRY(check_messages(comm, "exchange", messages, 0));
    struct stni_coll coll = messaging(STNI_COLL_EXCHANGE, messages);
    return call(comm, &coll, request);
}

stn_status stn_comm_barrier(stn_comm *comm, stn_request **request)
{
    STNI_TRY(check_comm(comm));
    struct stni_coll coll = {.kind = STNI_COLL_BARRIER};
    return call(comm, &coll, request);
}

stn_status stni_comm_all_reduce(stn_comm *comm, stn_queue *queue, const void *send, void *recv, int64_t count,
                                stn_dtype dtype, stn_reduce_op op)
{
    struct stni_coll coll = reduction(STNI_COLL_ALL_REDUCE, send, recv, count, dtype, op);
    return stni_comm_launch(comm, queue, &coll, NULL);
}

stn_status stni_comm_all_gather(stn_comm *comm, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                                stn_dtype dtype)
{
    struct stni_coll coll = gathering(comm, STNI_COLL_ALL_GATHER, send, recv, counts, dtype);
    return stni_comm_launch(comm, queue, &coll, NULL);
}

stn_status stni_comm_all_to_all(stn_comm *comm, stn_queue *queue, const void *send, const int64_t *send_counts,
                                void *recv, const int64_t *recv_counts, stn_dtype dtype)
{
    struct stni_coll coll = {.kind = STNI_COLL_ALL_TO_ALL, .send = send, .counts = send_counts, .recv = recv,
                             .recv_counts = recv_counts, .dtype = dtype};
    return stni_comm_launch(comm, queue, &coll, NULL);
}

stn_status stni_comm_exchange(stn_comm *comm, stn_queue *queue, const stn_exchange *messages)
{
    struct stni_coll coll = messaging(STNI_COLL_EXCHANGE, messages);
    return stni_comm_launch(comm, queue, &coll, NULL);
}

stn_status stni_comm_all_reduce_begin(stn_comm *comm, const void *send, void *recv, int64_t count, stn_dtype dtype,
                                      stn_reduce_op op, const stn_request *after, stn_request **request)
{
    struct stni_coll coll = reduction(STNI_COLL_ALL_REDUCE, send, recv, count, dtype, op);
    return stni_comm_launch_request(comm, &coll, after, request);
}

stn_status stni_comm_exchange_begin(stn_comm *comm, const stn_exchange *messages, const stn_request *after,
                                    stn_request **request)
{
    struct stni_coll coll = messaging(STNI_COLL_EXCHANGE, messages);
    return stni_comm_launch_request(comm, &coll, after, request);
}
