/* Ranks on a device whose communicator moves memory of the host alone, as MPI does: what is sent is copied into pinned
 * memory, the host waits for that, the collective runs as the CPU's ranks run it, and a copy of what was received is
 * queued.
 *
 * The pinned memory is kept. Nothing that earlier collectives have queued uses it any more: each begins with a wait
 * for its queue, and the communicator's two queues follow each other. */
#include "core/comm/launch.h"

#include "core/base/host_alloc.h"
#include "core/box/box.h"
#include "core/comm/recv_groups.h"

enum { ALIGNMENT = 64 /* bytes */ };

int stni_comm_needs_host(const stn_comm *comm, const stn_queue *queue)
{
    const stn_comm_ops *ops = comm->ops;
    return !queue->device->is_cpu && ops->size > offsetof(stn_comm_ops, host_memory) && ops->host_memory;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static stn_status refuse(const stn_comm *comm, stn_queue *queue)
{
    return stn_queue_fail(queue, STN_ERR_UNSUPPORTED,
                          "communicator '%s' moves memory of the host, and device %s has none that it reaches "
                          "(host_allocate)",
                          comm->ops->name, queue->device->name);
}

/* `bytes` of pinned memory; waits for the queue, so that nothing uses it any more. */
static stn_status alloc_pinned(stn_comm *comm, stn_queue *queue, size_t bytes, char **out)
{
    stn_device *device = queue->device;
    if (!device->ops->host_allocate)
        return refuse(comm, queue);
    STNI_TRY(stni_queue_sync_for(queue, STN_SYNC_STAGING));
    if (bytes > comm->pinned_bytes) {
        stni_pinned_free(comm);
        if (device->ops->host_allocate(device->impl, bytes, &comm->pinned) != STN_OK) {
            comm->pinned = NULL;
            return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: pinned memory of a collective (%zu bytes)",
                                  bytes);
        }
        comm->pinned_device = device;
        comm->pinned_bytes = bytes;
    }
    *out = comm->pinned;
    return STN_OK;
}

/* Much pinned memory is not kept: what the host may pin is scarce. */
static void keep_little(stn_comm *comm)
{
    if (comm->pinned_bytes > comm->staging_limit)
        stni_pinned_free(comm);
}

stn_status stni_comm_run_on_host(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    stn_status status = stni_comm_own_queue(comm);
    if (status != STN_OK)
        return stn_queue_fail(queue, status, "%s: no queue of the CPU", stni_coll_name(coll->kind));
    stni_queue_recover(comm->own_queue);
    comm->own_queue->isa = queue->isa;
    comm->own_queue->collective = queue->collective;
    status = comm->run(comm, comm->own_queue, coll);
    if (status == STN_OK)
        return STN_OK;
    const char *text = stn_queue_error_text(comm->own_queue);
    return stn_queue_fail(queue, status, "%s", text[0] ? text : stn_status_text(status));
}

/* Elements that this rank gives and gets. */
struct amounts {
    int64_t send, recv;
};

static struct amounts amounts_of(const stn_comm *comm, const struct stni_coll *v)
{
    const int is_root = comm->rank == v->root;
    const int64_t own = v->counts ? v->counts[comm->rank] : 0,
                  all = v->counts ? stni_counts_sum(v->counts, comm->size) : 0;
    switch (v->kind) {
    case STNI_COLL_ALL_REDUCE:
        return (struct amounts){v->count, v->count};
    case STNI_COLL_REDUCE:
        return (struct amounts){v->count, is_root ? v->count : 0};
    case STNI_COLL_ALL_GATHER:
        return (struct amounts){own, all};
    case STNI_COLL_GATHER:
        return (struct amounts){own, is_root ? all : 0};
    case STNI_COLL_REDUCE_SCATTER:
        return (struct amounts){all, own};
    case STNI_COLL_SCATTER:
        return (struct amounts){is_root ? all : 0, own};
    case STNI_COLL_BROADCAST:
        return (struct amounts){is_root ? v->count : 0, is_root ? 0 : v->count};
    case STNI_COLL_ALL_TO_ALL:
        return (struct amounts){all, stni_counts_sum(v->recv_counts, comm->size)};
    case STNI_COLL_GROUP:
    case STNI_COLL_EXCHANGE:
    case STNI_COLL_BARRIER:
    case STNI_COLL_COUNT:
        break;
    }
    return (struct amounts){0, 0};
}

/* A broadcast has one buffer, the others have two. */
static stn_status run_dense(stn_comm *comm, stn_queue *queue, const struct stni_coll *v)
{
    const size_t element = stn_dtype_size(v->dtype);
    const struct amounts n = amounts_of(comm, v);
    const size_t sent = (size_t)n.send * element, received = (size_t)n.recv * element;
    char *memory;
    STNI_TRY(alloc_pinned(comm, queue, aligned(sent) + aligned(received) + ALIGNMENT, &memory));
    struct stni_coll host = *v;
    host.send = memory;
    host.recv = v->kind == STNI_COLL_BROADCAST ? memory : memory + aligned(sent);
    if (sent > 0) {
        STNI_TRY(stni_queue_copy(queue, memory, v->send, sent, STNI_COPY_TO_HOST));
        STNI_TRY(stni_queue_sync_for(queue, STN_SYNC_STAGING));
    }
    STNI_TRY(stni_comm_run_on_host(comm, queue, &host));
    return received > 0 ? stni_queue_copy(queue, v->recv, host.recv, received, STNI_COPY_TO_DEVICE) : STN_OK;
}

/* The messages with dense boxes in memory of the host. */
struct staged {
    const stn_exchange *messages;
    size_t element;
    stn_message *send, *recv;
    struct stni_recv_group *recv_groups; /* with a reduction: which of the received ones go to one box */
    char *memory;                        /* where the next box begins */
};

static size_t box_bytes(const stn_box *box, size_t element)
{
    return aligned((size_t)stni_box_numel(box) * element);
}

static size_t all_bytes(const stn_exchange *messages)
{
    const size_t element = stn_dtype_size(messages->dtype);
    size_t bytes = 0;
    for (int i = 0; i < messages->n_send; i++)
        bytes += box_bytes(&messages->send[i].box, element);
    for (int i = 0; i < messages->n_recv; i++)
        bytes += box_bytes(&messages->recv[i].box, element);
    return bytes;
}

static stn_message place(struct staged *s, const stn_message *message)
{
    stn_message host = *message;
    stni_box_make_dense(&host.box);
    host.box.data = s->memory;
    s->memory += box_bytes(&message->box, s->element);
    return host;
}

/* How many received messages, from place i on, go to one box, and the index of the first. */
static int run_at(const struct staged *s, int i, int *first)
{
    *first = s->messages->reduce ? s->recv_groups[i].index : i;
    const int alone = !s->messages->reduce || !s->recv_groups[i].data;
    return alone ? 1 : stni_recv_groups_run(s->recv_groups, i, s->messages->n_recv);
}

/* Messages that are combined in one box go to one box here too. */
static void place_all(struct staged *s)
{
    const stn_exchange *messages = s->messages;
    for (int i = 0; i < messages->n_send; i++)
        s->send[i] = place(s, &messages->send[i]);
    if (messages->reduce)
        stni_recv_groups_fill(messages, s->recv_groups);
    for (int i = 0, n, first; i < messages->n_recv; i += n) {
        n = run_at(s, i, &first);
        s->recv[first] = place(s, &messages->recv[first]);
        for (int k = 1; k < n; k++) {
            const int other = s->recv_groups[i + k].index;
            s->recv[other] = s->recv[first];
            s->recv[other].peer = messages->recv[other].peer;
        }
    }
}

static stn_status pack(stn_queue *queue, const struct staged *s)
{
    struct stni_box_list list;
    stni_box_list_begin(&list, queue);
    for (int i = 0; i < s->messages->n_send; i++)
        if (stni_box_numel(&s->send[i].box) > 0)
            STNI_TRY(stni_box_list_add(&list, &s->send[i].box, &s->messages->send[i].box, s->element));
    STNI_TRY(stni_box_list_launch(&list));
    return stni_queue_sync_for(queue, STN_SYNC_STAGING);
}

/* Each box once. */
static stn_status unpack(stn_queue *queue, const struct staged *s)
{
    struct stni_box_list list;
    stni_box_list_begin(&list, queue);
    for (int i = 0, n, first; i < s->messages->n_recv; i += n) {
        n = run_at(s, i, &first);
        if (stni_box_numel(&s->recv[first].box) > 0)
            STNI_TRY(stni_box_list_add(&list, &s->messages->recv[first].box, &s->recv[first].box, s->element));
    }
    return stni_box_list_launch(&list);
}

static stn_status run_staged(stn_comm *comm, stn_queue *queue, const struct stni_coll *v, struct staged *s)
{
    STNI_TRY(alloc_pinned(comm, queue, all_bytes(v->messages) + ALIGNMENT, &s->memory));
    place_all(s);
    stn_exchange messages = *v->messages;
    messages.send = s->send;
    messages.recv = s->recv;
    struct stni_coll host = *v;
    host.messages = &messages;
    STNI_TRY(pack(queue, s));
    STNI_TRY(stni_comm_run_on_host(comm, queue, &host));
    return unpack(queue, s);
}

static stn_status run_messages(stn_comm *comm, stn_queue *queue, const struct stni_coll *v)
{
    const size_t n_send = (size_t)v->messages->n_send, n_recv = (size_t)v->messages->n_recv;
    const size_t bytes = (n_send + n_recv) * sizeof(stn_message) + n_recv * sizeof(struct stni_recv_group);
    char *lists = stni_malloc(bytes > 0 ? bytes : 1);
    if (!lists)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "%s: out of memory: messages (%zu bytes)", stni_coll_name(v->kind),
                              bytes);
    struct staged s = {.messages = v->messages, .element = stn_dtype_size(v->messages->dtype), .send = (void *)lists};
    s.recv = s.send + n_send;
    s.recv_groups = (void *)(s.recv + n_recv);
    stn_status status = run_staged(comm, queue, v, &s);
    stni_free(lists);
    return status;
}

stn_status stni_comm_run_through_host(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    stn_status status;
    if (coll->kind == STNI_COLL_BARRIER)
        status = stni_comm_run_on_host(comm, queue, coll);
    else if (coll->messages)
        status = run_messages(comm, queue, coll);
    else
        status = run_dense(comm, queue, coll);
    keep_little(comm);
    return status;
}
