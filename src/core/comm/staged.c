/* An exchange for communicators that offer groups only: boxes are packed into pieces, the pieces travel as groups of messages and are unpacked
 * into the receivers' boxes. Never more than `staging_limit` bytes of staging memory. */
#include "core/comm/recv_groups.h"
#include "core/comm/launch.h"

#include "core/box/box.h"
#include "core/base/host_alloc.h"

struct dense {
    char *data;
    size_t element_size;
    enum stni_isa isa;
};

static stn_box dense_like(const struct dense *dense, const stn_box *part, int64_t at)
{
    stn_box box = {.data = dense->data + at * (int64_t)dense->element_size, .ndim = part->ndim};
    int64_t stride = 1;
    for (int d = part->ndim - 1; d >= 0; d--) {
        box.shape[d] = part->shape[d];
        box.strides[d] = stride;
        stride *= part->shape[d];
    }
    return box;
}

static void pack_part(void *arg, const stn_box *part, int64_t at)
{
    const struct dense *dense = arg;
    stn_box box = dense_like(dense, part, at);
    stni_box_copy_now(dense->isa, &box, part, dense->element_size);
}

static void unpack_part(void *arg, const stn_box *part, int64_t at)
{
    const struct dense *dense = arg;
    stn_box box = dense_like(dense, part, at);
    stni_box_copy_now(dense->isa, part, &box, dense->element_size);
}

void stni_staged_pack(enum stni_isa isa, void *dense, const stn_box *box, int64_t from, int64_t to, size_t element_size)
{
    struct dense to_dense = {dense, element_size, isa};
    stni_box_range(box, element_size, from, to, pack_part, &to_dense);
}

void stni_staged_unpack(enum stni_isa isa, const stn_box *box, const void *dense, int64_t from, int64_t to, size_t element_size)
{
    struct dense from_dense = {(char *)(uintptr_t)dense, element_size, isa};
    stni_box_range(box, element_size, from, to, unpack_part, &from_dense);
}

void *stni_staging(stn_comm *comm, stn_queue *queue, size_t bytes)
{
    if (bytes > comm->staging_bytes) {
        stni_free(comm->staging);
        comm->staging = stni_malloc(bytes);
        comm->staging_bytes = comm->staging ? bytes : 0;
    }
    if (bytes > 0 && !comm->staging)
        stn_queue_fail(queue, STN_ERR_MEMORY, "exchange: out of memory: staging (%zu bytes)", bytes);
    return comm->staging;
}

void stni_staged_self(const stn_comm *comm, enum stni_isa isa, const stn_exchange *messages)
{
    int at = 0;
    for (int i = 0; i < messages->n_recv; i++) {
        if (messages->recv[i].peer != comm->rank)
            continue;
        while (at < messages->n_send && messages->send[at].peer != comm->rank)
            at++;
        if (at == messages->n_send)
            return;
        if (stni_box_numel(&messages->recv[i].box) > 0)
            stni_box_copy_now(isa, &messages->recv[i].box, &messages->send[at].box, stn_dtype_size(messages->dtype));
        at++;
    }
}

stn_status stni_comm_exchange_staged(stn_comm *comm, stn_queue *queue, const stn_exchange *messages)
{
    if (messages->reduce)
        return stni_staged_reduce(comm, queue, messages);
    stni_staged_self(comm, queue->isa, messages);
    return stni_staged_copy(comm, queue, messages);
}
