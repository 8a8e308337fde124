/* An exchange for communicators that offer groups only: boxes are packed into pieces, the pieces travel as groups of
 * messages and are unpacked into the receivers' boxes. Never more than `staging_limit` bytes of staging memory. */
#include "core/comm/recv_groups.h"
#include "core/comm/launch.h"

#include "core/box/box.h"
#include "core/box/box_range.h"
#include "core/box/box_exact.h"
#include "core/base/host_alloc.h"

struct dense {
    char *data;
    size_t element_size;
    struct stni_box_list *list;
    stn_status status; /* of the copies so far */
};

void stni_staged_begin(struct stni_box_list *list, stn_queue *queue)
{
    if (queue->device->is_cpu)
        stni_box_list_begin_now(list, queue->isa);
    else
        stni_box_list_begin(list, queue);
}

stn_status stni_staged_move(stn_queue *queue, const stn_box *dst, const stn_box *src, size_t element_size)
{
    if (!queue->device->is_cpu)
        return stni_box_copy(queue, dst, src, element_size);
    stni_box_copy_now(queue->isa, dst, src, element_size);
    return STN_OK;
}

stn_status stni_staged_combine(const stn_comm *comm, stn_queue *queue, const stn_box *dst, int n_src,
                               const stn_box *src, stn_dtype dtype, stn_reduce_op op)
{
    if (!queue->device->is_cpu)
        return stni_box_reduce(queue, 1, dst, n_src, src, dtype, op);
    if (comm->exact_sums && stni_box_order_shows(dtype, op))
        stni_box_exact_sum_now(dst, n_src, src, dtype, op);
    else
        stni_box_reduce_now(queue->isa, 1, dst, n_src, src, dtype, op);
    return STN_OK;
}

static stn_box dense_like(const struct dense *dense, const stn_box *part, int64_t at)
{
    stn_box box = *part;
    box.data = dense->data + at * (int64_t)dense->element_size;
    stni_box_make_dense(&box);
    return box;
}

static void pack_part(void *arg, const stn_box *part, int64_t at)
{
    struct dense *dense = arg;
    stn_box box = dense_like(dense, part, at);
    if (dense->status == STN_OK)
        dense->status = stni_box_list_add(dense->list, &box, part, dense->element_size);
}

static void unpack_part(void *arg, const stn_box *part, int64_t at)
{
    struct dense *dense = arg;
    stn_box box = dense_like(dense, part, at);
    if (dense->status == STN_OK)
        dense->status = stni_box_list_add(dense->list, part, &box, dense->element_size);
}

stn_status stni_staged_pack(struct stni_box_list *list, void *dense, const stn_box *box, int64_t from, int64_t to,
                            size_t element_size)
{
    struct dense to_dense = {dense, element_size, list, STN_OK};
    stni_box_range(box, element_size, from, to, pack_part, &to_dense);
    return to_dense.status;
}

stn_status stni_staged_unpack(struct stni_box_list *list, const stn_box *box, const void *dense, int64_t from,
                              int64_t to, size_t element_size)
{
    struct dense from_dense = {(char *)(uintptr_t)dense, element_size, list, STN_OK};
    stni_box_range(box, element_size, from, to, unpack_part, &from_dense);
    return from_dense.status;
}

/* On a device the memory may still be used by what is queued. */
static void end_queues(stn_comm *comm)
{
    stn_queue_sync(comm->queue);
    if (comm->side_queue)
        stn_queue_sync(comm->side_queue);
}

static void free_staging(stn_comm *comm)
{
    if (comm->staging_device) {
        end_queues(comm);
        stni_device_deallocate(comm->staging_device, comm->staging, comm->staging_bytes);
    } else {
        stni_free(comm->staging);
    }
    comm->staging = NULL;
    comm->staging_device = NULL;
    comm->staging_bytes = 0;
}

void stni_pinned_free(stn_comm *comm)
{
    if (comm->pinned) {
        end_queues(comm);
        comm->pinned_device->ops->host_deallocate(comm->pinned_device->impl, comm->pinned, comm->pinned_bytes);
    }
    comm->pinned = NULL;
    comm->pinned_bytes = 0;
}

void stni_staging_free(stn_comm *comm)
{
    free_staging(comm);
    stni_pinned_free(comm);
}

/* What grows on a device waits for its queue, so that it grows seldom: from 1 MiB on, at least twice as large. */
static size_t grown(const stn_comm *comm, size_t bytes)
{
    const size_t least = 2 * comm->staging_bytes > (size_t)1 << 20 ? 2 * comm->staging_bytes : (size_t)1 << 20;
    const size_t most = least < comm->staging_limit ? least : comm->staging_limit;
    return bytes > most ? bytes : most;
}

void *stni_staging(stn_comm *comm, stn_queue *queue, size_t bytes)
{
    if (stni_comm_captures(comm, queue))
        return stni_comm_staging_captured(comm, queue, bytes);
    if (bytes > comm->staging_bytes) {
        if (!queue->device->is_cpu)
            bytes = grown(comm, bytes);
        free_staging(comm);
        if (queue->device->is_cpu)
            comm->staging = stni_malloc(bytes);
        else if (stni_device_allocate(queue->device, bytes, &comm->staging) == STN_OK)
            comm->staging_device = queue->device;
        comm->staging_bytes = comm->staging ? bytes : 0;
    }
    if (bytes > 0 && !comm->staging)
        stn_queue_fail(queue, STN_ERR_MEMORY, "exchange: out of memory: staging (%zu bytes)", bytes);
    return comm->staging;
}

stn_status stni_staged_self(const stn_comm *comm, stn_queue *queue, const stn_exchange *messages)
{
    struct stni_box_list list;
    int at = 0;
    stni_staged_begin(&list, queue);
    for (int i = 0; i < messages->n_recv; i++) {
        if (messages->recv[i].peer != comm->rank)
            continue;
        while (at < messages->n_send && messages->send[at].peer != comm->rank)
            at++;
        if (at == messages->n_send)
            break;
        if (stni_box_numel(&messages->recv[i].box) > 0)
            STNI_TRY(stni_box_list_add(&list, &messages->recv[i].box, &messages->send[at].box,
                                       stn_dtype_size(messages->dtype)));
        at++;
    }
    return stni_box_list_launch(&list);
}

stn_status stni_comm_exchange_staged(stn_comm *comm, stn_queue *queue, const stn_exchange *messages)
{
    if (messages->reduce)
        return stni_staged_reduce(comm, queue, messages);
    STNI_TRY(stni_staged_self(comm, queue, messages));
    return stni_staged_copy(comm, queue, messages);
}
